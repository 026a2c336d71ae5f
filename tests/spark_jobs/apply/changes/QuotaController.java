import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.admin.ConfigCommand;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasResult;
import org.apache.kafka.clients.admin.DescribeClientQuotasResult;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.AlterClientQuotasRequestDataJsonConverter;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.controller.ClientQuotaControlManager;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Kafka's own controller of quotas, without a cluster: each line of standard input is altered
 * there, {"request": an AlterClientQuotas request} as the Admin API would send it, or
 * {"arguments": [...]} by the code of kafka-configs.sh; {"forget": true} starts anew. Each answer
 * is a line {"errors": [...], "quotas": [[user, client-id, quota type, value], ...]}; a part that is not
 * there is null, the default "<default>".
 */
public class QuotaController {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final short VERSION = 1;
    private final Object manager;
    private final Method alter;
    private final Field held;

    QuotaController() throws Exception {
        Class<?> builder = Class.forName(ClientQuotaControlManager.class.getName() + "$Builder");
        Constructor<?> made = builder.getDeclaredConstructor();
        Method build = builder.getDeclaredMethod("build");
        made.setAccessible(true);
        build.setAccessible(true);
        manager = build.invoke(made.newInstance());
        alter = ClientQuotaControlManager.class.getDeclaredMethod("alterClientQuotas", Collection.class);
        held = ClientQuotaControlManager.class.getDeclaredField("clientQuotaData");
        alter.setAccessible(true);
        held.setAccessible(true);
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalArgumentException("exit " + code + ": " + message);
        });
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what the tool says of its success is no answer
        QuotaController controller = new QuotaController();
        InputStreamReader in = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        for (String line : new BufferedReader(in).lines().toList()) {
            JsonNode command = JSON.readTree(line);
            List<String> errors = new ArrayList<>();
            if (command.has("forget")) {
                controller = new QuotaController();
            } else if (command.has("request")) {
                errors.addAll(controller.request(command.get("request")));
            } else {
                errors.addAll(controller.tool(command.get("arguments")));
            }
            ObjectNode answer = JSON.createObjectNode();
            answer.set("errors", JSON.valueToTree(errors));
            answer.set("quotas", controller.quotas());
            out.println(answer);
        }
    }

    private List<String> request(JsonNode request) throws Exception {
        AlterClientQuotasRequestData data = AlterClientQuotasRequestDataJsonConverter.read(request, VERSION);
        return messages(alter(new AlterClientQuotasRequest(data, VERSION).entries()));
    }

    private List<String> tool(JsonNode arguments) {
        List<String> given = new ArrayList<>();
        arguments.forEach(argument -> given.add(argument.asText()));
        try {
            ConfigCommand.ConfigCommandOptions options =
                new ConfigCommand.ConfigCommandOptions(given.toArray(new String[0]));
            options.checkArgs();
            ConfigCommand.alterConfig(admin(), options);
            return List.of();
        } catch (Throwable refused) {
            return List.of(refused.getClass().getSimpleName() + ": " + refused.getMessage());
        }
    }

    private Admin admin() {
        return (Admin) Proxy.newProxyInstance(
            Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, arguments) -> {
                switch (method.getName()) {
                    case "describeClientQuotas":
                        return new DescribeClientQuotasResult(
                            KafkaFuture.completedFuture(found((ClientQuotaFilter) arguments[0])));
                    case "alterClientQuotas":
                        return answer(alter((Collection<ClientQuotaAlteration>) arguments[0]));
                    default:
                        throw new UnsupportedOperationException(method.getName());
                }
            });
    }

    private Map<ClientQuotaEntity, Map<String, Double>> found(ClientQuotaFilter filter) throws Exception {
        Map<String, String> wanted = new HashMap<>();
        for (ClientQuotaFilterComponent component : filter.components()) {
            wanted.put(component.entityType(), component.match().orElse(null));
        }
        Map<ClientQuotaEntity, Map<String, Double>> found = new HashMap<>();
        held().forEach((entity, values) -> {
            if (entity.entries().equals(wanted)) {
                found.put(entity, new HashMap<>(values));
            }
        });
        return found;
    }

    private static AlterClientQuotasResult answer(Map<ClientQuotaEntity, ApiError> results) {
        Map<ClientQuotaEntity, KafkaFuture<Void>> futures = new HashMap<>();
        results.forEach((entity, error) -> {
            KafkaFutureImpl<Void> future = new KafkaFutureImpl<>();
            if (error.isFailure()) {
                future.completeExceptionally(error.exception());
            } else {
                future.complete(null);
            }
            futures.put(entity, future);
        });
        return new AlterClientQuotasResult(futures);
    }

    private Map<ClientQuotaEntity, ApiError> alter(Collection<ClientQuotaAlteration> alterations)
            throws Exception {
        Object result = alter.invoke(manager, alterations);
        for (ApiMessageAndVersion record : (List<ApiMessageAndVersion>) of(result, "records")) {
            ((ClientQuotaControlManager) manager).replay((ClientQuotaRecord) record.message());
        }
        return (Map<ClientQuotaEntity, ApiError>) of(result, "response");
    }

    private static Object of(Object result, String part) throws Exception {
        Method method = result.getClass().getDeclaredMethod(part);
        method.setAccessible(true);
        return method.invoke(result);
    }

    private static List<String> messages(Map<ClientQuotaEntity, ApiError> results) {
        List<String> messages = new ArrayList<>();
        results.forEach((entity, error) -> {
            if (error.isFailure()) {
                messages.add(error.message());
            }
        });
        return messages;
    }

    private Map<ClientQuotaEntity, Map<String, Double>> held() throws Exception {
        return (Map<ClientQuotaEntity, Map<String, Double>>) held.get(manager);
    }

    private ArrayNode quotas() throws Exception {
        ArrayNode quotas = JSON.createArrayNode();
        held().forEach((entity, values) -> values.forEach((key, value) -> {
            ArrayNode quota = quotas.addArray();
            quota.add(part(entity, ClientQuotaEntity.USER)).add(part(entity, ClientQuotaEntity.CLIENT_ID));
            quota.add(key).add(value);
        }));
        return quotas;
    }

    private static String part(ClientQuotaEntity entity, String type) {
        String name = entity.entries().get(type);
        return name == null && entity.entries().containsKey(type) ? "<default>" : name;
    }
}
