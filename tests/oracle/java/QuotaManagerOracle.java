import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Asks Kafka's own quota manager which quota and which sensor a client has, and how long it is throttled. Lines of standard
 * input, parts separated by tabs: {@code new}; {@code set user client-id bound}, where "-" is no
 * such part or no bound, "*" the default and "=x" the name x; {@code ask =user =client-id}, which
 * prints whether quotas are enabled, the sensor's tags as "=x" and the bound or "-"; {@code record =user =client-id
 * amount ms}, which records an amount at that time and prints the throttle.
 *
 * <p>The manager is Scala up to 4.1 and Java since 4.2: reflection reaches both.
 */
public final class QuotaManagerOracle {
    private static final boolean IS_SCALA = exists("kafka.server.ClientQuotaManager");
    private static final String MANAGER =
        (IS_SCALA ? "kafka.server." : "org.apache.kafka.server.quota.") + "ClientQuotaManager";

    private Object manager;

    public static void main(String[] arguments) throws Exception {
        QuotaManagerOracle oracle = new QuotaManagerOracle();
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            switch (parts[0]) {
                case "new" -> oracle.renew();
                case "set" -> oracle.set(parts[1], parts[2], parts[3]);
                case "ask" -> oracle.ask(parts[1].substring(1), parts[2].substring(1));
                case "record" -> oracle.record(parts[1].substring(1), parts[2].substring(1),
                    Double.parseDouble(parts[3]), Long.parseLong(parts[4]));
                default -> throw new IllegalArgumentException(line);
            }
        }
        oracle.shutdown();
    }

    private void renew() throws Exception {
        shutdown();
        for (var constructor : Class.forName(MANAGER).getConstructors()) {
            if (constructor.getParameterCount() == 6) {
                manager = constructor.newInstance(new ClientQuotaManagerConfig(), new Metrics(),
                    QuotaType.PRODUCE, Time.SYSTEM, "", option(null));
            }
        }
    }

    private void shutdown() throws Exception {
        if (manager != null) {
            call("shutdown");
        }
    }

    private void set(String user, String clientId, String bound) throws Exception {
        Quota quota = bound.equals("-") ? null : Quota.upperBound(Double.parseDouble(bound));
        call("updateQuota", option(user(user)), option(clientId(clientId)), option(quota));
    }

    private void ask(String user, String clientId) throws Exception {
        Object sensors = call("getOrCreateQuotaSensors", session(user), clientId);
        Object tags = sensors.getClass().getMethod("metricTags").invoke(sensors);
        Quota quota = (Quota) call("quota", user, clientId);
        String bound = quota.bound() >= Long.MAX_VALUE ? "-" : Double.toString(quota.bound());
        System.out.println(call("quotasEnabled") + "\t=" + sanitizer("desanitize", tag(tags, "user"))
            + "\t=" + tag(tags, "client-id") + "\t" + bound);
    }

    private void record(String user, String clientId, double amount, long timeMs) throws Exception {
        Method method = manager.getClass().getMethod("recordAndGetThrottleTimeMs", Session.class,
            String.class, double.class, long.class);
        System.out.println(method.invoke(manager, session(user), clientId, amount, timeMs));
    }

    private static Session session(String user) {
        KafkaPrincipal principal = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user);
        return new Session(principal, InetAddress.getLoopbackAddress());
    }

    private static Object user(String part) throws Exception {
        return switch (part.charAt(0)) {
            case '-' -> null;
            case '*' -> IS_SCALA ? module("DefaultUserEntity") : constant("DEFAULT_USER_ENTITY");
            default -> named("UserEntity", sanitizer("sanitize", part.substring(1)));
        };
    }

    private static Object clientId(String part) throws Exception {
        return switch (part.charAt(0)) {
            case '-' -> null;
            case '*' -> IS_SCALA ? module("DefaultClientIdEntity")
                : constant("DEFAULT_USER_CLIENT_ID");
            default -> named("ClientIdEntity", part.substring(1));
        };
    }

    /** Up to 4.3 the class is in another package. */
    private static String sanitizer(String method, String text) throws Exception {
        String folder = "org.apache.kafka.common.utils.";
        String name = folder + (exists(folder + "Sanitizer") ? "Sanitizer" : "internals.Sanitizer");
        return (String) Class.forName(name).getMethod(method, String.class).invoke(null, text);
    }

    private static Object named(String entity, String name) throws Exception {
        return Class.forName(MANAGER + "$" + entity).getConstructor(String.class).newInstance(name);
    }

    private static Object module(String entity) throws Exception {
        return Class.forName(MANAGER + "$" + entity + "$").getField("MODULE$").get(null);
    }

    private static Object constant(String field) throws Exception {
        return Class.forName(MANAGER).getField(field).get(null);
    }

    private static Object option(Object value) throws Exception {
        return IS_SCALA
            ? Class.forName("scala.Option").getMethod("apply", Object.class).invoke(null, value)
            : Optional.ofNullable(value);
    }

    private static String tag(Object tags, String name) throws Exception {
        if (tags instanceof Map<?, ?> map) {
            return (String) map.get(name);
        }
        Class<?> scalaMap = Class.forName("scala.collection.MapOps");
        return (String) scalaMap.getMethod("apply", Object.class).invoke(tags, name);
    }

    private Object call(String name, Object... arguments) throws Exception {
        for (Method method : manager.getClass().getMethods()) {
            if (method.getName().equals(name) && fits(method.getParameterTypes(), arguments)) {
                return method.invoke(manager, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean fits(Class<?>[] types, Object[] arguments) {
        boolean fits = types.length == arguments.length;
        for (int i = 0; fits && i < types.length; i++) {
            fits = types[i].isInstance(arguments[i]);
        }
        return fits;
    }

    private static boolean exists(String name) {
        try {
            Class.forName(name, false, QuotaManagerOracle.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }
}
