import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Produces at a steady rate, one record a request, and tells what each answer took.
 *
 * <p>Argument: the bootstrap servers. Standard input, a command a line:
 * {@code level <broker> <level of kafka.request.logger>}, answered {@code done}; and
 * {@code load <client-id> <requests/s> <ms>}, answered {@code done <answered> <p50 us> <p99 us> <max us>}.
 * It ends when its standard input does.
 *
 * <p>An answer's time counts from when its request was due, so that a broker that stalls is not spared by a client
 * that waits for it.
 */
public class ProduceLoad {
    private static final String TOPIC = "load";
    private static final int CLIENTS = 4;
    private static final int RECORD_BYTES = 1000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, CLIENTS, (short) 1))).all().get();
            System.out.println("ready");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("level")) {
                    setLevel(admin, words[1], words[2]);
                    System.out.println("done");
                } else {
                    System.out.println(load(arguments[0], words[1], Integer.parseInt(words[2]), Long.parseLong(words[3])));
                }
            }
        }
    }

    private static void setLevel(Admin admin, String broker, String level) throws Exception {
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, broker);
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("kafka.request.logger", level), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(loggers, Collections.singleton(set))).all().get();
    }

    /** The requests are dealt out in turn to clients that each have a partition and a connection of their own. */
    private static String load(String servers, String clientId, int perSecond, long ms) throws Exception {
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            producers.add(producer(servers, clientId));
            producers.get(i).partitionsFor(TOPIC);
        }
        int count = (int) (perSecond * ms / 1000);
        long[] nanos = new long[count];
        AtomicInteger failed = new AtomicInteger();
        CountDownLatch answered = new CountDownLatch(count);
        byte[] record = new byte[RECORD_BYTES];
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            int number = i;
            long due = start + i * 1_000_000_000L / perSecond;
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            producers.get(i % CLIENTS).send(new ProducerRecord<>(TOPIC, i % CLIENTS, null, record), (sent, error) -> {
                nanos[number] = System.nanoTime() - due;
                if (error != null) {
                    failed.incrementAndGet();
                }
                answered.countDown();
            });
        }
        answered.await();
        producers.forEach(KafkaProducer::close);
        Arrays.sort(nanos);
        return String.format("done %d %d %d %d", count - failed.get(), nanos[count / 2] / 1000,
            nanos[count * 99 / 100] / 1000, nanos[count - 1] / 1000);
    }

    private static KafkaProducer<byte[], byte[]> producer(String servers, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("client.id", clientId);
        settings.put("acks", "1");
        settings.put("enable.idempotence", "false");
        settings.put("linger.ms", "0");
        // No batches: each record is a request of its own.
        settings.put("batch.size", "0");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
