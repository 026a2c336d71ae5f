import com.fasterxml.jackson.databind.ObjectMapper;
import io.strimzi.api.kafka.model.user.KafkaUserQuotas;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/** What Strimzi's own class holds of each line of standard input, the quotas of a KafkaUser. */
public class StrimziQuotas {
    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line : lines.lines().toList()) {
            try {
                KafkaUserQuotas quotas = json.readValue(line, KafkaUserQuotas.class);
                if (!quotas.getAdditionalProperties().isEmpty()) {
                    throw new IllegalArgumentException("unknown: " + quotas.getAdditionalProperties());
                }
                System.out.println(json.writeValueAsString(quotas));
            } catch (Exception refused) {
                System.out.println(json.writeValueAsString(refused.getMessage()));
            }
        }
    }
}
