import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * Drives real clients as a scenario says (the format is documented in scenario.py, which checks it).
 *
 * <p>Arguments: the PLAINTEXT and the SASL_PLAINTEXT bootstrap servers and the password of every user. Standard input:
 * the steps, the line "end", and after this program has said "ready" the line "go". It exits 1 at the first step that
 * fails, and when its standard input ends, so that no load outlives whoever asked for it.
 *
 * <p>Compiles against kafka-clients 2.6 and later; clients before 2.7 send the permissive mutation requests.
 */
public class Driver {
    private static final String ADMIN_CLIENT_ID = "lab-admin";
    private static final int MUTATIONS_BETWEEN_CHANGES = 3;
    private static final int ADDED_PARTITIONS = 2;
    /** What one change of controller may cost a client that waits for each answer. */
    private static final int LOST_ANSWERS_MAX = 6;
    private static final long LONG_LOAD_MS = 20_000;
    private static final Set<String> LOSING_AN_ANSWER =
        Set.of("TimeoutException", "DisconnectException", "TopicExistsException", "NotControllerException",
            "UnknownTopicOrPartitionException", "InvalidPartitionsException", "InvalidReplicationFactorException");

    private final String plaintext;
    private final String sasl;
    private final String password;
    private final Map<String, Long> recordsOfLong = new ConcurrentHashMap<>();
    private long startNanos;

    private Driver(String plaintext, String sasl, String password) {
        this.plaintext = plaintext;
        this.sasl = sasl;
        this.password = password;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<String[]> steps = new ArrayList<>();
        for (String line = input.readLine(); !"end".equals(line); line = input.readLine()) {
            steps.add(line.split("\\s+"));
        }
        System.out.println("ready");
        if (!"go".equals(input.readLine())) {
            throw new IOException("the input ended before `go`");
        }
        Thread watch = new Thread(() -> exitAtEndOf(input), "lab-watch");
        watch.setDaemon(true);
        watch.start();
        new Driver(arguments[0], arguments[1], arguments[2]).drive(steps);
        System.exit(0);
    }

    private static void exitAtEndOf(BufferedReader input) {
        try {
            while (input.readLine() != null) {
                // Nothing more is ever said to it.
            }
        } catch (IOException closed) {
            // The same as its end.
        }
        System.exit(1);
    }

    /** Topics and quotas one after the other in order of time, every load on a thread of its own. */
    private void drive(List<String[]> steps) throws Exception {
        startNanos = System.nanoTime();
        steps.sort(Comparator.comparingLong(step -> Long.parseLong(step[0])));
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> running = new ArrayList<>();
        List<String[]> settings = new ArrayList<>();
        for (String[] step : steps) {
            if (step[1].equals("topic") || step[1].equals("quota")) {
                settings.add(step);
            } else {
                running.add(threads.submit(() -> orExit(step, () -> load(step))));
            }
        }
        if (!settings.isEmpty()) {
            running.add(threads.submit(() -> orExit(settings.get(0), () -> applySettings(settings))));
        }
        for (Future<?> one : running) {
            one.get();
        }
        recordsOfLong.forEach((verb, records) -> {
            if (records == 0) {
                System.err.println("failed: not one record by any long " + verb);
                System.exit(1);
            }
        });
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void orExit(String[] step, Work work) {
        try {
            work.run();
        } catch (Exception failure) {
            System.err.println("failed: " + String.join(" ", step));
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private void applySettings(List<String[]> settings) throws Exception {
        try (Admin admin = Admin.create(client("-", ADMIN_CLIENT_ID))) {
            for (String[] step : settings) {
                sleepUntil(atNanos(step));
                if (step[1].equals("topic")) {
                    NewTopic topic = new NewTopic(step[2], Integer.parseInt(step[3]), Short.parseShort(step[4]));
                    admin.createTopics(List.of(topic)).all().get();
                } else {
                    admin.alterClientQuotas(List.of(alteration(step))).all().get();
                }
            }
        }
    }

    private static ClientQuotaAlteration alteration(String[] step) {
        Map<String, String> entity = new HashMap<>();
        for (String part : step[2].split(",")) {
            String name = part.substring(part.indexOf('=') + 1);
            entity.put(part.substring(0, part.indexOf('=')), name.equals("<default>") ? null : name);
        }
        List<ClientQuotaAlteration.Op> changes = new ArrayList<>();
        for (int i = 3; i < step.length; i++) {
            String bound = step[i].substring(step[i].indexOf('=') + 1);
            String quotaType = step[i].substring(0, step[i].indexOf('='));
            changes.add(new ClientQuotaAlteration.Op(quotaType, bound.equals("-") ? null : Double.valueOf(bound)));
        }
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity), changes);
    }

    private void load(String[] step) throws Exception {
        sleepUntil(atNanos(step));
        switch (step[1]) {
            case "produce":
                produce(step);
                break;
            case "consume":
                consume(step);
                break;
            case "share":
                share(step);
                break;
            case "mutate":
                mutate(step);
                break;
            default:
                throw new IllegalArgumentException("unknown step " + step[1]);
        }
    }

    private void produce(String[] step) throws InterruptedException {
        String topic = step[4];
        int bytes = Integer.parseInt(step[5]);
        int bytesMax = step.length > 10 ? Integer.parseInt(step[10]) : bytes;
        boolean isCatchingUp = step.length > 11 && Boolean.parseBoolean(step[11]);
        long intervalNanos = (long) (1e9 / Double.parseDouble(step[6]));
        long endNanos = atNanos(step) + millis(step[7]);
        Properties properties = client(step[2], step[3]);
        properties.put("acks", step[8]);
        properties.put("enable.idempotence", step[9]);
        properties.put("linger.ms", "5");
        // A small buffer makes a throttled producer wait, as it should, and not pile up what it sends at once later.
        properties.put("buffer.memory", "262144");
        properties.put("max.block.ms", "5000");
        AtomicLong sent = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        long dueNanos = System.nanoTime();
        while (System.nanoTime() < endNanos) {
            byte[] value = new byte[ThreadLocalRandom.current().nextInt(bytes, bytesMax + 1)];
            try {
                producer.send(new ProducerRecord<>(topic, value), (metadata, failure) ->
                    (failure == null ? sent : failed).incrementAndGet());
            } catch (KafkaException fatal) {
                // One that waited too long for its producer id sends nothing any more: its application makes a new one.
                failed.incrementAndGet();
                producer.close(Duration.ZERO);
                producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            }
            dueNanos += intervalNanos;
            if (!isCatchingUp) {
                dueNanos = Math.max(dueNanos, System.nanoTime());
            }
            sleepUntil(Math.min(dueNanos, endNanos));
        }
        // What is still waiting for a throttled broker is given up: the load ends when the scenario says.
        producer.close(Duration.ofMillis(500));
        say(step, "records sent " + sent + ", given up " + failed);
        note(step, step[7], sent.get());
    }

    @SuppressWarnings("deprecation") // The only bounded close that old and new clients share.
    private void consume(String[] step) {
        long endNanos = atNanos(step) + millis(step[5]);
        Properties properties = client(step[2], step[3]);
        properties.put("group.id", step[3]);
        properties.put("auto.offset.reset", "earliest");
        // Fewer and larger fetches: a fetch per produced record would only fill the log.
        properties.put("fetch.min.bytes", "16384");
        properties.put("max.partition.fetch.bytes", "65536");
        long read = 0;
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(step[4]));
        while (System.nanoTime() < endNanos) {
            read += consumer.poll(Duration.ofMillis(200)).count();
        }
        consumer.close(Duration.ofSeconds(1));
        say(step, "records read " + read);
        note(step, step[5], read);
    }

    /** Reads what is produced from now on as one share group; only clients since 4.0 know such consumers. */
    private void share(String[] step) throws Exception {
        long endNanos = atNanos(step) + millis(step[5]);
        Properties properties = client(step[2], step[3]);
        properties.put("group.id", step[3]);
        properties.put("max.partition.fetch.bytes", "65536");
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.KafkaShareConsumer");
        Object consumer = type.getConstructor(Properties.class, Deserializer.class, Deserializer.class)
            .newInstance(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        type.getMethod("subscribe", Collection.class).invoke(consumer, List.of(step[4]));
        Method poll = type.getMethod("poll", Duration.class);
        long read = 0;
        while (System.nanoTime() < endNanos) {
            // Each poll accepts all that the one before it gave.
            read += ((ConsumerRecords<?, ?>) poll.invoke(consumer, Duration.ofMillis(200))).count();
        }
        type.getMethod("close", Duration.class).invoke(consumer, Duration.ofSeconds(1));
        say(step, "records read in a share group " + read);
        if (read == 0) {
            throw new IllegalStateException("not one record was read");
        }
    }

    private void mutate(String[] step) throws Exception {
        int topicsPerRequest = Integer.parseInt(step[4]);
        int partitions = Integer.parseInt(step[5]);
        long intervalNanos = (long) (1e9 / Double.parseDouble(step[6]));
        long endNanos = atNanos(step) + millis(step[7]);
        boolean retry = Boolean.parseBoolean(step[8]);
        Deque<String> created = new ArrayDeque<>();
        Deque<String> extended = new ArrayDeque<>();
        int requests = 0;
        int refused = 0;
        int lost = 0;
        try (Admin admin = Admin.create(client(step[2], step[3]))) {
            long dueNanos = System.nanoTime();
            for (; System.nanoTime() < endNanos; requests++) {
                List<NewTopic> topics = new ArrayList<>();
                for (int i = 0; i < topicsPerRequest; i++) {
                    String name = "mut-" + step[2] + "-" + step[3] + "-" + requests + "-" + i;
                    topics.add(new NewTopic(name, partitions, (short) 1));
                }
                CreateTopicsOptions options = retryOnQuotaViolation(new CreateTopicsOptions(), retry);
                for (Map.Entry<String, KafkaFuture<Void>> one : admin.createTopics(topics, options).values().entrySet()) {
                    switch (answerOf(one.getValue())) {
                        case ADMITTED:
                            created.add(one.getKey());
                            break;
                        case REFUSED:
                            refused++;
                            break;
                        default:
                            lost++;
                    }
                }
                if (requests % MUTATIONS_BETWEEN_CHANGES == MUTATIONS_BETWEEN_CHANGES - 1 && !created.isEmpty()) {
                    // Deleting what was extended costs its partitions of then, not those it was created with.
                    String topic = extended.isEmpty() ? created.poll() : extended.poll();
                    boolean extend = requests / MUTATIONS_BETWEEN_CHANGES % 2 == 0;
                    Answer answer = answerOf(extend
                        ? addPartitions(admin, topic, partitions + ADDED_PARTITIONS, retry)
                        : delete(admin, topic, retry));
                    if (extend && answer == Answer.ADMITTED) {
                        extended.add(topic);
                    }
                    refused += answer == Answer.REFUSED ? 1 : 0;
                    lost += answer == Answer.LOST ? 1 : 0;
                }
                dueNanos = Math.max(dueNanos + intervalNanos, System.nanoTime());
                sleepUntil(Math.min(dueNanos, endNanos));
            }
        }
        say(step, "creations " + requests + ", topics refused " + refused + ", answers lost " + lost);
        if (lost > LOST_ANSWERS_MAX) {
            throw new IllegalStateException(lost + " answers were lost");
        }
    }

    private static KafkaFuture<Void> addPartitions(Admin admin, String topic, int total, boolean retry) {
        CreatePartitionsOptions options = retryOnQuotaViolation(new CreatePartitionsOptions(), retry);
        return admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(total)), options).all();
    }

    private static KafkaFuture<Void> delete(Admin admin, String topic, boolean retry) {
        DeleteTopicsOptions options = retryOnQuotaViolation(new DeleteTopicsOptions(), retry);
        return admin.deleteTopics(Collections.singleton(topic), options).all();
    }

    /** Clients before 2.7 lack this option, and its exception: they are never refused. */
    private static <T> T retryOnQuotaViolation(T options, boolean retry) {
        try {
            options.getClass().getMethod("retryOnQuotaViolation", boolean.class).invoke(options, retry);
        } catch (NoSuchMethodException old) {
            return options;
        } catch (ReflectiveOperationException broken) {
            throw new IllegalStateException(broken);
        }
        return options;
    }

    private enum Answer { ADMITTED, REFUSED, LOST }

    /** LOST: while a controller stops, a mutation may be done and its answer lost, so that its retry finds it done. */
    private static Answer answerOf(KafkaFuture<Void> mutation) throws Exception {
        try {
            mutation.get();
            return Answer.ADMITTED;
        } catch (ExecutionException failure) {
            Throwable cause = Optional.ofNullable(failure.getCause()).orElse(failure);
            String name = cause.getClass().getSimpleName();
            if (name.equals("ThrottlingQuotaExceededException")) {
                return Answer.REFUSED;
            }
            if (LOSING_AN_ANSWER.contains(name)) {
                return Answer.LOST;
            }
            throw failure;
        }
    }

    private Properties client(String user, String clientId) {
        Properties properties = new Properties();
        properties.put("client.id", clientId);
        properties.put("bootstrap.servers", user.equals("-") ? plaintext : sasl);
        if (!user.equals("-")) {
            properties.put("security.protocol", "SASL_PLAINTEXT");
            properties.put("sasl.mechanism", "PLAIN");
            properties.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required"
                + " username=\"" + user + "\" password=\"" + password + "\";");
        }
        return properties;
    }

    private long atNanos(String[] step) {
        return startNanos + millis(step[0]);
    }

    private static long millis(String text) {
        return TimeUnit.MILLISECONDS.toNanos(Long.parseLong(text));
    }

    /** One client may be throttled from its begin to its end, but hardly all that have long to go. */
    private void note(String[] step, String durationMs, long records) {
        if (Long.parseLong(durationMs) >= LONG_LOAD_MS) {
            recordsOfLong.merge(step[1], records, Long::sum);
        }
    }

    private static void sleepUntil(long nanos) throws InterruptedException {
        long left = nanos - System.nanoTime();
        if (left > 0) {
            TimeUnit.NANOSECONDS.sleep(left);
        }
    }

    private static void say(String[] step, String result) {
        System.out.println(String.join(" ", step) + ": " + result);
    }
}
