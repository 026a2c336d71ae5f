import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.Time;

/**
 * Simulates sound brokers whose decisions are made by Kafka's own sensors, rates, token buckets and mutation quotas.
 *
 * <p>Standard input is lines of tab-separated words, times in µs since the {@code base} (ms). {@code broker} begins a
 * broker; what follows up to {@code run} is its: {@code set} a quota as this broker applies it, {@code pause} the whole
 * process, {@code produce}, {@code fetch} and {@code mutate} are clients of one connection each. The methods of
 * {@code Broker} that read a line say its words. A broker is sound but for the faults that {@code due}, {@code as},
 * {@code forget} and {@code alter} plant into its produce quota.
 *
 * <p>Prints one tab-separated row for each request: broker, kind, connection, correlation id; the nanoseconds at which
 * it was received, dequeued, locally complete, its response complete, dequeued and sent, and at which its line was
 * stamped; the throttle of the line and of the response; the ms of the record; then what {@code describe} says.
 */
public final class FleetSimulator {
    private static final long US = 1_000;
    private static final long MS = 1_000_000;
    private static final short PRODUCE_VERSION = 9;
    private static final short FETCH_VERSION = 12;
    private static final int PROCESSORS = 3;
    /** One thread waits for a core for so long at most; what stops for longer is the process. */
    private static final long THREAD_STOPPED_MAX_NS = 45 * MS;
    /** So long before its answer, and after it, such a request may be under way. */
    private static final long ANSWERING_NS = 100 * MS;
    private static final byte[] RECORDS = new byte[1 << 22];

    private static long baseMs;
    private static PrintWriter out;

    public static void main(String[] arguments) throws Exception {
        out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Broker broker = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "base" -> baseMs = Long.parseLong(words[1]);
                case "broker" -> broker = new Broker(words);
                case "run" -> broker.run();
                default -> broker.read(words);
            }
        }
        out.flush();
    }

    /** Something that happens at a time; of those at one time the one made first. */
    private record Event(long atNs, long number, Step step) implements Comparable<Event> {
        @Override
        public int compareTo(Event other) {
            int byTime = Long.compare(atNs, other.atNs);
            return byTime != 0 ? byTime : Long.compare(number, other.number);
        }
    }

    private interface Step {
        void at(long nowNs) throws Exception;
    }

    /** A request and all stamps that the broker puts on it (Kafka: {@code RequestChannel.Request}). */
    private static final class Request {
        private Client client;
        private int correlationId;
        private long startNs;
        private long dequeuedNs;
        private long localCompleteNs = -1;
        private long responseCompleteNs;
        private long responseDequeuedNs;
        private long networkNs;
        private boolean recordsNetwork;
        private int throttleMs;
        private int responseThrottleMs;
        private long recordedMs;
        private String described = "";
    }

    /** One broker process: its threads, its quota managers, its clients. */
    private static final class Broker {
        private final int id;
        private final Random random;
        private final long endNs;
        private final double lateShare;
        private final double veryLateShare;
        private final long[] handlerFreeNs;
        private final long[] processorFreeNs = new long[PROCESSORS];
        private long controllerFreeNs;
        private final List<long[]> pauses = new ArrayList<>();
        private final List<Long> answersNs = new ArrayList<>();
        private final PriorityQueue<Event> events = new PriorityQueue<>();
        private final Map<String, QuotaManager> quotas = new HashMap<>();
        private final List<Client> clients = new ArrayList<>();
        private final boolean isZooKeeper;
        private long made;
        /** Whose sensor a produce belongs to, and under which quota: null where what it does is what it should. */
        private QuotaManager due;
        private final Map<String, List<String>> recordedAs = new HashMap<>();
        private double alteredShare;
        private int alteredByLeastMs;
        private int alteredByMostMs;
        private long recorded;

        /** Words: id, seed, samples, window ms, controller samples, controller window ms, handlers, end, share of late
         *  lines, share of very late ones, 1 where the controller decides without KRaft. */
        private Broker(String[] w) throws Exception {
            id = Integer.parseInt(w[1]);
            random = new Random(Long.parseLong(w[2]));
            int samples = Integer.parseInt(w[3]);
            long windowMs = Long.parseLong(w[4]);
            quotas.put("producer_byte_rate", new QuotaManager(Rate.class, samples, windowMs, -1));
            quotas.put("consumer_byte_rate", new QuotaManager(Rate.class, samples, windowMs, -1));
            quotas.put("request_percentage", new QuotaManager(Rate.class, samples, windowMs, windowMs));
            quotas.put("controller_mutation_rate",
                new QuotaManager(TokenBucket.class, Integer.parseInt(w[5]), Long.parseLong(w[6]), -1));
            handlerFreeNs = new long[Integer.parseInt(w[7])];
            endNs = Long.parseLong(w[8]) * US;
            lateShare = Double.parseDouble(w[9]);
            veryLateShare = Double.parseDouble(w[10]);
            isZooKeeper = w[11].equals("1");
        }

        private void read(String[] w) {
            switch (w[0]) {
                // Words: when, type, user, client-id ("-" none, "*" the default, "=x" named x), bound or "-".
                case "set" -> at(Long.parseLong(w[1]) * US, now -> apply(quotas.get(w[2]), w, now));
                // Words of "set", which then says what the broker does instead.
                case "due" -> {
                    if (due == null)
                        due = new QuotaManager(Rate.class, 2, 1000, -1);
                    at(Long.parseLong(w[1]) * US, now -> apply(due, w, now));
                }
                // Words: a connection, the user and client-id that its produces are recorded as.
                case "as" -> recordedAs.put(w[1], List.of(w[2], w[3]));
                case "forget" -> at(Long.parseLong(w[1]) * US, now -> quotas.get("producer_byte_rate").forget());
                // Words: the share of throttles of produces, least and most ms that are added to them.
                case "alter" -> {
                    alteredShare = Double.parseDouble(w[1]);
                    alteredByLeastMs = Integer.parseInt(w[2]);
                    alteredByMostMs = Integer.parseInt(w[3]);
                }
                case "pause" -> pause(Long.parseLong(w[1]) * US, (Long.parseLong(w[1]) + Long.parseLong(w[2])) * US);
                // Word: when it answers a request of which this program knows nothing.
                case "answer" -> answersNs.add(Long.parseLong(w[1]) * US);
                case "produce" -> add(new Producer(this, w));
                case "fetch" -> add(new Consumer(this, w));
                case "mutate" -> add(new Admin(this, w));
                default -> throw new IllegalArgumentException(w[0]);
            }
        }

        private void apply(QuotaManager quota, String[] w, long nowNs) {
            long runningNs = after(nowNs, 0);
            if (runningNs > nowNs)
                at(runningNs, now -> apply(quota, w, now));
            else
                quota.set(w[3], w[4], w[5]);
        }

        /** The throttle that a produce is given in place of its own. */
        private int altered(int throttleMs) {
            if (throttleMs == 0 || alteredShare == 0 || !happens(alteredShare))
                return throttleMs;
            return Math.max(0, throttleMs + alteredByLeastMs + random.nextInt(alteredByMostMs - alteredByLeastMs + 1));
        }

        /** Number of the record, user and client-id of the sensor, and bound, as they should be. */
        private String recordDue(Client client) {
            QuotaManager quota = due == null ? quotas.get("producer_byte_rate") : due;
            List<String> tags = quota.tags(client.user, client.clientId);
            return recorded++ + "\t" + tags.get(0) + "\t" + tags.get(1) + "\t" + quota.limit(tags);
        }

        private void add(Client client) {
            clients.add(client);
            client.sendAfter(client.beginNs);
        }

        private void at(long atNs, Step step) {
            events.add(new Event(atNs, made++, step));
        }

        private void run() throws Exception {
            while (!events.isEmpty()) {
                Event event = events.remove();
                event.step.at(event.atNs);
            }
            for (QuotaManager manager : quotas.values())
                manager.metrics.close();
        }

        /** Whether a line that another program writes for this broker says that it ran between two times. */
        private boolean answersBetween(long fromNs, long untilNs) {
            return answersNs.stream().anyMatch(ns -> fromNs - ANSWERING_NS <= ns && ns <= untilNs + ANSWERING_NS);
        }

        /** Stop the whole process, as a garbage collection does. */
        private void pause(long fromNs, long untilNs) {
            pauses.add(new long[] {fromNs, untilNs});
            pauses.sort((a, b) -> Long.compare(a[0], b[0]));
        }

        /** When a thread that begins at a time has worked so long: a pause of the process stops it wherever it is. */
        private long after(long beginNs, long workNs) {
            long nowNs = beginNs;
            long leftNs = workNs;
            for (long[] pause : pauses) {
                if (pause[1] <= nowNs)
                    continue;
                if (pause[0] > nowNs) {
                    if (leftNs < pause[0] - nowNs)
                        break;
                    leftNs -= pause[0] - nowNs;
                }
                nowNs = pause[1];
            }
            return nowNs + leftNs;
        }

        private long logNormal(double medianUs, double sigma) {
            return (long) (medianUs * Math.exp(sigma * random.nextGaussian()) * US);
        }

        private long uniform(double leastUs, double mostUs) {
            return (long) ((leastUs + (mostUs - leastUs) * random.nextDouble()) * US);
        }

        private boolean happens(double chance) {
            return random.nextDouble() < chance;
        }

        /** Code that has not been compiled yet is slow: the first seconds of a broker. */
        private double warmth(long nowNs) {
            return 1 + 6 * Math.exp(-nowNs / 1.5e9);
        }

        /** The network thread reads what has arrived, once it has time for it. */
        private void receive(Request request, long nowNs, long bytes) {
            int processor = request.client.processor;
            long readNs = logNormal(25, 0.5) + bytes / 2;
            // A connection's first request pays for the handshake before it.
            if (request.correlationId == 0)
                request.networkNs += logNormal(1500, 0.7);
            request.networkNs += readNs;
            request.startNs = after(Math.max(nowNs, processorFreeNs[processor]), readNs);
            processorFreeNs[processor] = request.startNs;
            at(after(request.startNs, logNormal(8, 0.6)), now -> handle(request, now));
        }

        private void handle(Request request, long nowNs) throws Exception {
            int free = 0;
            for (int i = 1; i < handlerFreeNs.length; i++)
                if (handlerFreeNs[i] < handlerFreeNs[free])
                    free = i;
            request.dequeuedNs = after(Math.max(nowNs, handlerFreeNs[free]), logNormal(30, 0.8));
            handlerFreeNs[free] = request.client.handle(request);
        }

        /** How long a handler works on a request, with what makes a few of them slow. */
        private long handlerNs(Request request, double medianUs) {
            long workNs = (long) (logNormal(medianUs, 0.6) * warmth(request.dequeuedNs));
            if (request.correlationId == 0)
                workNs += request.client.isFirstOfSensor ? uniform(50_000, 100_000) : uniform(1_000, 10_000);
            if (happens(0.01))
                workNs += uniform(5_000, 40_000);
            return workNs;
        }

        /** Kafka: {@code RequestChannel.sendResponse}, and {@code Processor} up to the line. */
        private void respond(Request request, long completeNs, long bytes) {
            request.responseCompleteNs = completeNs;
            if (request.localCompleteNs < 0)
                request.localCompleteNs = completeNs;
            at(after(completeNs, logNormal(25, 0.9)), now -> send(request, now, bytes));
        }

        private void send(Request request, long nowNs, long bytes) {
            int processor = request.client.processor;
            request.responseDequeuedNs = after(Math.max(nowNs, processorFreeNs[processor]), logNormal(6, 0.5));
            long writeNs = bytes == 0 ? 0 : logNormal(30, 0.5) + bytes / 3;
            request.networkNs += writeNs;
            long sentNs = after(request.responseDequeuedNs, writeNs + logNormal(50, 0.8));
            long stoppedNs = happens(veryLateShare) ? uniform(10_000, 300_000)
                : happens(lateShare) ? uniform(500, 8_000) : 0;
            if (stoppedNs > THREAD_STOPPED_MAX_NS) {
                if (!answersBetween(sentNs, sentNs + stoppedNs))
                    pause(sentNs, sentNs + stoppedNs);
                stoppedNs = 0;
            }
            // Metrics and the text of the line are made before its event is stamped.
            long stampNs = after(sentNs, logNormal(60, 0.5) + stoppedNs);
            processorFreeNs[processor] = stampNs;
            if (request.recordsNetwork)
                at(sentNs, now -> request.client.recordNetwork(request, now));
            print(request, sentNs, stampNs);
            request.client.answered(request, after(request.responseDequeuedNs, writeNs));
        }

        private void print(Request r, long sentNs, long stampNs) {
            StringJoiner row = new StringJoiner("\t");
            row.add(Integer.toString(id)).add(r.client.kind()).add(r.client.connection)
                .add(Integer.toString(r.correlationId));
            for (long ns : new long[] {r.startNs, r.dequeuedNs, r.localCompleteNs, r.responseCompleteNs,
                r.responseDequeuedNs, sentNs, stampNs, r.throttleMs, r.responseThrottleMs, r.recordedMs})
                row.add(Long.toString(ns));
            out.println(row.add(r.described));
        }
    }

    /** A client with one connection, which has one request under way. */
    private abstract static class Client {
        final Broker broker;
        final String connection;
        final String user;
        final String clientId;
        final long beginNs;
        final long endNs;
        final long gapNs;
        final boolean isRegular;
        final boolean obeysThrottles;
        final boolean isFirstOfSensor;
        final int processor;
        long mutedUntilNs;
        long plannedNs;
        private int sent;

        /** Words of every client: name of the connection, user, client-id, begin, end, gap, regular, obeys, first. */
        Client(Broker broker, String[] w) {
            this.broker = broker;
            connection = w[1];
            user = w[2];
            clientId = w[3];
            beginNs = Long.parseLong(w[4]) * US;
            endNs = Long.parseLong(w[5]) * US;
            gapNs = Long.parseLong(w[6]) * US;
            isRegular = w[7].equals("1");
            obeysThrottles = w[8].equals("1");
            isFirstOfSensor = w[9].equals("1");
            processor = broker.clients.size() % PROCESSORS;
            plannedNs = beginNs;
        }

        abstract String kind();

        abstract long requestBytes(Request request);

        /** Returns when the handler is free again. */
        abstract long handle(Request request) throws Exception;

        void recordNetwork(Request request, long nowNs) {
            broker.quotas.get("request_percentage").recordOnly(user, clientId, request.networkNs * 1e-7, msOf(nowNs));
        }

        /** Sends the next request once ready and due; not before the broker reads the connection again. */
        void sendAfter(long readyNs) {
            plannedNs = Math.max(plannedNs + (isRegular ? gapNs : 0), readyNs - 2 * gapNs);
            long thinkNs = isRegular ? 0 : (long) (-gapNs * Math.log(1 - broker.random.nextDouble()));
            long sendNs = Math.max(readyNs + thinkNs, plannedNs) + broker.logNormal(150, 0.4);
            if (sendNs >= endNs || sendNs >= broker.endNs)
                return;
            long arrivesNs = Math.max(sendNs, mutedUntilNs);
            broker.at(arrivesNs, now -> {
                Request request = new Request();
                request.client = this;
                request.correlationId = sent++;
                broker.receive(request, now, requestBytes(request));
            });
        }

        void answered(Request request, long nowNs) {
            long arrivedNs = nowNs + broker.logNormal(80, 0.4);
            long waitMs = obeysThrottles ? request.responseThrottleMs : 0;
            sendAfter(arrivedNs + waitMs * MS);
        }

        /** Kafka: {@code ClientQuotaManager.throttle} keeps the connection muted so long from now on. */
        void mute(Request request, int throttleMs, long nowNs) {
            request.throttleMs = throttleMs;
            long untilNs = (msOf(nowNs) + throttleMs - baseMs) * MS;
            mutedUntilNs = broker.after(untilNs, broker.logNormal(300, 0.7));
        }

        /** Does what the end of a produce or fetch does with the request quota. */
        int recordRequest(Request request, long clockNs, long nowNs) throws Exception {
            QuotaManager quota = broker.quotas.get("request_percentage");
            if (!quota.isEnabled)
                return 0;
            request.recordsNetwork = true;
            if (request.localCompleteNs < 0)
                request.localCompleteNs = broker.after(nowNs, broker.logNormal(5, 0.5));
            long threadNs = Math.max(request.localCompleteNs - request.dequeuedNs, 0);
            return quota.record(user, clientId, threadNs * 1e-7, msOf(clockNs));
        }
    }

    private static final class Producer extends Client {
        private final int acks;
        private final double waitShare;
        private final String topic;
        private final int sizeLeast;
        private final int sizeMost;
        private final int partitions;

        /** More words: acks, share of acks=-1 that wait for replicas, topic, least and most bytes of records,
         *  partitions. */
        private Producer(Broker broker, String[] w) {
            super(broker, w);
            acks = Integer.parseInt(w[10]);
            waitShare = Double.parseDouble(w[11]);
            topic = w[12];
            sizeLeast = Integer.parseInt(w[13]);
            sizeMost = Integer.parseInt(w[14]);
            partitions = Integer.parseInt(w[15]);
        }

        @Override
        String kind() {
            return "produce";
        }

        @Override
        long requestBytes(Request request) {
            int records = sizeLeast + broker.random.nextInt(sizeMost - sizeLeast + 1);
            int index = broker.random.nextInt(partitions);
            var data = new ProduceRequestData().setAcks((short) acks).setTimeoutMs(30_000);
            var part = withRecords(new ProduceRequestData.PartitionProduceData().setIndex(index), records);
            var produced = new ProduceRequestData.TopicProduceData().setName(topic).setPartitionData(List.of(part));
            data.topicData().add(produced);
            long bytes = headerBytes() + sizeOf(data, PRODUCE_VERSION);
            request.described = acks + "\t" + topic + "\t" + index + "\t" + records + "\t" + bytes;
            return bytes;
        }

        /** Version 2 of the header: key, version, correlation id, client-id with its length, no tagged fields. */
        private long headerBytes() {
            return 2 + 2 + 4 + 2 + clientId.getBytes(StandardCharsets.UTF_8).length + 1;
        }

        @Override
        long handle(Request request) {
            long workNs = broker.handlerNs(request, 250);
            long afterRecordNs = Math.min(workNs / 2, broker.uniform(20, 200));
            if (acks == -1 && broker.happens(waitShare)) {
                long freeNs = broker.after(request.dequeuedNs, workNs);
                request.localCompleteNs = freeNs;
                long clockNs = broker.after(freeNs, broker.logNormal(2500, 0.8));
                record(request, clockNs, afterRecordNs);
                return freeNs;
            }
            long clockNs = broker.after(request.dequeuedNs, workNs - afterRecordNs);
            record(request, clockNs, afterRecordNs);
            return broker.after(clockNs, afterRecordNs + 10 * US);
        }

        /** The clock is read, the lock is waited for, and what it recorded becomes the response. */
        private void record(Request request, long clockNs, long restNs) {
            long waitedNs = broker.happens(0.002) ? broker.uniform(500, 5_000) : broker.logNormal(3, 0.7);
            long lockedNs = broker.after(clockNs, Math.min(waitedNs, restNs / 2));
            broker.at(lockedNs, now -> {
                long clockMs = msOf(clockNs);
                request.recordedMs = clockMs;
                long bytes = Long.parseLong(request.described.substring(request.described.lastIndexOf('\t') + 1));
                List<String> as = broker.recordedAs.getOrDefault(connection, List.of(user, clientId));
                int bandwidthMs = broker.altered(
                    broker.quotas.get("producer_byte_rate").record(as.get(0), as.get(1), bytes, clockMs));
                request.described += "\t" + broker.recordDue(this);
                int requestMs = acks == 0 ? 0 : recordRequest(request, clockNs, now);
                int throttleMs = Math.max(bandwidthMs, requestMs);
                if (throttleMs > 0)
                    mute(request, throttleMs, now);
                request.responseThrottleMs = acks == 0 ? 0 : throttleMs;
                long completeNs = Math.max(broker.after(now, restNs / 2), request.localCompleteNs);
                broker.respond(request, completeNs, acks == 0 ? 0 : 60);
            });
        }
    }

    private static final class Consumer extends Client {
        private final String topic;
        private final int batchBytes;
        private final double batchesPerSecond;
        private final int backlog;
        private final int partitionMaxBytes;
        private final long dataEndNs;
        private final double seekChance;
        private long position;
        private boolean wasThrottled;

        /** More words: topic, bytes of a batch, batches a second, backlog, partition max bytes, end of data, chance of
         *  a seek. */
        private Consumer(Broker broker, String[] w) {
            super(broker, w);
            topic = w[10];
            batchBytes = Integer.parseInt(w[11]);
            batchesPerSecond = Double.parseDouble(w[12]);
            backlog = Integer.parseInt(w[13]);
            partitionMaxBytes = Integer.parseInt(w[14]);
            dataEndNs = Long.parseLong(w[15]) * US;
            seekChance = Double.parseDouble(w[16]);
        }

        @Override
        String kind() {
            return "fetch";
        }

        @Override
        long requestBytes(Request request) {
            if (!wasThrottled && broker.happens(seekChance))
                position = broker.random.nextInt((int) Math.max(1, position + 1));
            return 100;
        }

        private long batchesAt(long nowNs) {
            long sinceNs = Math.min(nowNs, dataEndNs) - beginNs;
            return backlog + Math.max(0, (long) (batchesPerSecond * sinceNs / 1e9));
        }

        @Override
        long handle(Request request) {
            long workNs = broker.handlerNs(request, 200);
            long afterRecordNs = Math.min(workNs / 2, broker.uniform(20, 200));
            // Kafka: KafkaApis.handleFetchRequest reads no more than the quota allows a whole window.
            double windowBytes = broker.quotas.get("consumer_byte_rate").windowBytes(user, clientId);
            int maxBytes = Math.min(partitionMaxBytes, windowBytes >= Integer.MAX_VALUE ? Integer.MAX_VALUE
                : (int) windowBytes);
            long readNs = broker.after(request.dequeuedNs, workNs - afterRecordNs);
            if (batchesAt(readNs) > position) {
                record(request, readNs, afterRecordNs, maxBytes);
                return broker.after(readNs, afterRecordNs + 10 * US);
            }
            long freeNs = broker.after(request.dequeuedNs, workNs);
            request.localCompleteNs = freeNs;
            long timeoutNs = freeNs + 500 * MS;
            double dueNs = batchesPerSecond == 0 ? Double.MAX_VALUE : beginNs + (position - backlog + 1) / batchesPerSecond * 1e9;
            boolean comes = dueNs < Math.min(timeoutNs, dataEndNs);
            long wokenNs = broker.after(comes ? Math.max(freeNs, (long) dueNs + 1) : timeoutNs, broker.logNormal(200, 0.8));
            record(request, wokenNs, afterRecordNs, maxBytes);
            return freeNs;
        }

        private void record(Request request, long clockNs, long restNs, int maxBytes) {
            long lockedNs = broker.after(clockNs, Math.min(broker.logNormal(3, 0.7), restNs / 2));
            long first = position;
            long available = Math.max(0, batchesAt(clockNs) - first) * batchBytes;
            // The first batch is given whole, whatever the limits say (Kafka: minOneMessage).
            long records = available == 0 ? 0 : Math.min(available, Math.max(maxBytes, batchBytes));
            broker.at(lockedNs, now -> {
                long clockMs = msOf(clockNs);
                request.recordedMs = clockMs;
                long bytes = 4 + sizeOf(fetched((int) records, topic), FETCH_VERSION);
                int requestMs = recordRequest(request, clockNs, now);
                QuotaManager quota = broker.quotas.get("consumer_byte_rate");
                int bandwidthMs = quota.record(user, clientId, bytes, clockMs);
                int throttleMs = Math.max(bandwidthMs, requestMs);
                request.responseThrottleMs = throttleMs;
                if (throttleMs > 0) {
                    // Kafka: unrecordQuotaSensor; the answer is empty.
                    quota.recordOnly(user, clientId, -bytes, clockMs);
                    mute(request, throttleMs, now);
                } else {
                    position = first + records / batchBytes;
                }
                wasThrottled = throttleMs > 0;
                request.described = topic + "\t" + first + "\t" + records + "\t" + bytes + "\t"
                    + batchesAt(clockNs) + "\t" + partitionMaxBytes;
                long completeNs = Math.max(broker.after(now, restNs / 2), request.localCompleteNs);
                broker.respond(request, completeNs, throttleMs > 0 ? 30 : bytes);
            });
        }
    }

    private static final class Admin extends Client {
        private final int topicsMost;
        private final int partitionsMost;
        private final boolean isStrict;
        private final ArrayDeque<String> topics = new ArrayDeque<>();
        private final Map<String, Integer> partitionsOf = new HashMap<>();
        private String kind = "";
        private int named;

        /** More words: most topics and most partitions of a request, strict or permissive. */
        private Admin(Broker broker, String[] w) {
            super(broker, w);
            topicsMost = Integer.parseInt(w[10]);
            partitionsMost = Integer.parseInt(w[11]);
            isStrict = w[12].equals("strict");
        }

        @Override
        String kind() {
            return kind;
        }

        @Override
        long requestBytes(Request request) {
            kind = topics.size() < 4 || broker.happens(0.6) ? "create" : broker.happens(0.5) ? "delete" : "extend";
            return 200;
        }

        @Override
        long handle(Request request) {
            long workNs = broker.handlerNs(request, 400);
            long freeNs = broker.after(request.dequeuedNs, workNs);
            List<String> named = names();
            Object quota = newQuota();
            // Kafka: one thread of a KRaft controller decides all mutations, one after the other; with ZooKeeper each
            // handler does (ZkAdminManager).
            long beginNs = broker.after(request.dequeuedNs, workNs / 2);
            if (!broker.isZooKeeper) {
                request.localCompleteNs = freeNs;
                beginNs = broker.after(Math.max(beginNs, broker.controllerFreeNs), broker.logNormal(200, 0.8));
                broker.controllerFreeNs = broker.after(beginNs, named.size() * 40 * US);
            }
            decide(request, quota, named, 0, new StringJoiner(";"), beginNs);
            return freeNs;
        }

        private List<String> names() {
            int count = 1 + broker.random.nextInt(topicsMost);
            List<String> names = new ArrayList<>();
            for (int i = 0; i < count && (kind.equals("create") || !topics.isEmpty()); i++) {
                if (kind.equals("create"))
                    names.add("mut-" + connection.replaceAll("[^0-9]", "-") + "-" + named++);
                else
                    names.add(topics.poll());
            }
            return names;
        }

        private Object newQuota() {
            return broker.quotas.get("controller_mutation_rate").mutationQuota(user, clientId, isStrict);
        }

        /** Decides one topic of a request after the other. */
        private void decide(Request request, Object quota, List<String> names, int i, StringJoiner told, long atNs) {
            if (i == names.size()) {
                complete(request, quota, told.toString(), atNs);
                return;
            }
            int asked = 1 + broker.random.nextInt(partitionsMost);
            broker.at(atNs, now -> {
                MutationQuotas.nowMs = msOf(now);
                request.recordedMs = msOf(now);
                if (quota != null)
                    broker.quotas.get("controller_mutation_rate").sensor(user, clientId);
                boolean isIn = record(quota, names.get(i), asked, told);
                // Only what is let in is written to ZooKeeper before the next one.
                long writtenNs = isIn && broker.isZooKeeper ? broker.logNormal(2500, 0.5) : broker.logNormal(15, 0.5);
                decide(request, quota, names, i + 1, told, broker.after(now, writtenNs));
            });
        }

        private boolean record(Object quota, String topic, int asked, StringJoiner told) throws Exception {
            int held = partitionsOf.getOrDefault(topic, 0);
            int spent = kind.equals("delete") ? held : asked;
            boolean isIn = quota == null || MutationQuotas.of(isStrict).admits(quota, spent);
            if (isIn && kind.equals("delete"))
                partitionsOf.remove(topic);
            else if (isIn)
                partitionsOf.merge(topic, asked, Integer::sum);
            if (kind.equals("create") ? isIn : !isIn || kind.equals("extend"))
                topics.add(topic);
            told.add(topic + "," + (kind.equals("extend") ? held + asked : spent) + "," + (isIn ? 0 : 89));
            return isIn;
        }

        private void complete(Request request, Object quota, String told, long nowNs) {
            if (broker.isZooKeeper)
                request.localCompleteNs = nowNs;
            long completeNs = Math.max(broker.after(nowNs, broker.logNormal(12_000, 0.8)), request.localCompleteNs);
            request.described = (isStrict ? "strict" : "permissive") + "\t" + told;
            broker.at(completeNs, now -> {
                MutationQuotas.nowMs = msOf(now);
                int throttleMs = quota == null ? 0 : MutationQuotas.of(isStrict).throttleMs(quota);
                request.responseThrottleMs = throttleMs;
                if (throttleMs > 0) {
                    mute(request, throttleMs, now);
                    // A forwarded request is throttled by the broker that the client is connected to.
                    if (!broker.isZooKeeper)
                        request.throttleMs = 0;
                }
                broker.respond(request, broker.after(now, 60 * US), 300);
            });
        }
    }

    /** The strict and permissive mutation quotas of the broker, which are not in kafka-clients. */
    private static final class MutationQuotas {
        private static long nowMs;
        private static MutationQuotas strict;
        private static MutationQuotas permissive;
        private final Constructor<?> constructor;
        private final Method record;
        private final Method throttleTime;

        private MutationQuotas(String kind) throws ReflectiveOperationException {
            Class<?> quota = ofBroker("server.quota.", "server.", kind + "ControllerMutationQuota");
            constructor = quota.getConstructor(Time.class, Sensor.class);
            record = quota.getMethod("record", double.class);
            throttleTime = quota.getMethod("throttleTime");
        }

        private static MutationQuotas of(boolean isStrict) {
            try {
                if (strict == null) {
                    strict = new MutationQuotas("Strict");
                    permissive = new MutationQuotas("Permissive");
                }
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
            return isStrict ? strict : permissive;
        }

        private Object renew(Sensor sensor) {
            Time time = (Time) Proxy.newProxyInstance(
                Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, ignored) -> {
                    if (!method.getName().equals("milliseconds"))
                        throw new UnsupportedOperationException(method.getName());
                    return nowMs;
                });
            try {
                return constructor.newInstance(time, sensor);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        private boolean admits(Object quota, double partitions) throws Exception {
            try {
                record.invoke(quota, partitions);
                return true;
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof ThrottlingQuotaExceededException)
                    return false;
                throw e;
            }
        }

        private int throttleMs(Object quota) throws Exception {
            return (int) throttleTime.invoke(quota);
        }
    }

    /** What ClientQuotaManager and its default callback do around Kafka's sensors, for one quota type. */
    private static final class QuotaManager {
        private static final int CLIENT_ID = 1;
        private static final int USER = 2;
        private static final int USER_CLIENT_ID = 4;
        private static final Method THROTTLE_TIME = quotaUtils("throttleTime", 2);
        private static final Method BOUNDED_THROTTLE_TIME = quotaUtils("boundedThrottleTime", 3);

        private final Class<? extends MeasurableStat> kind;
        private final int samples;
        private final long windowMs;
        private final long throttleMaxMs;
        private final Metrics metrics = new Metrics();
        private final Map<List<String>, Double> bounds = new HashMap<>();
        private final Map<List<String>, Sensor> sensors = new HashMap<>();
        private final Map<List<String>, KafkaMetric> metricOf = new HashMap<>();
        private final Map<List<String>, Double> inForce = new HashMap<>();
        private int levels;
        private boolean isEnabled;

        private QuotaManager(Class<? extends MeasurableStat> kind, int samples, long windowMs, long throttleMaxMs) {
            this.kind = kind;
            this.samples = samples;
            this.windowMs = windowMs;
            this.throttleMaxMs = throttleMaxMs;
        }

        /** Kafka: {@code updateQuota}, {@code DefaultQuotaCallback.updateQuota}. */
        private void set(String user, String clientId, String bound) {
            List<String> entity = List.of(user, clientId);
            isEnabled = true;
            levels |= user.equals("-") ? CLIENT_ID : clientId.equals("-") ? USER : USER_CLIENT_ID;
            if (bound.equals("-"))
                bounds.remove(entity);
            else
                bounds.put(entity, Double.parseDouble(bound));
        }

        /** Kafka: {@code DefaultQuotaCallback.quotaMetricTags}: user and client-id of the sensor. */
        private List<String> tags(String user, String clientId) {
            switch (levels) {
                case 0, CLIENT_ID:
                    return List.of("", clientId);
                case USER:
                    return List.of(user, "");
                case USER_CLIENT_ID:
                    return List.of(user, clientId);
                default:
            }
            if (isSet("=" + user, "=" + clientId) || isSet("=" + user, "*"))
                return List.of(user, clientId);
            if (isSet("=" + user, "-"))
                return List.of(user, "");
            if (isSet("*", "=" + clientId) || isSet("*", "*"))
                return List.of(user, clientId);
            return isSet("*", "-") ? List.of(user, "") : List.of("", clientId);
        }

        /** Loses what all sensors hold. */
        private void forget() {
            sensors.values().forEach(sensor -> metrics.removeSensor(sensor.name()));
            sensors.clear();
            metricOf.clear();
            inForce.clear();
        }

        private boolean isSet(String user, String clientId) {
            return bounds.containsKey(List.of(user, clientId));
        }

        /** Kafka: {@code DefaultQuotaCallback.quotaLimit}. */
        private double limit(List<String> tags) {
            String user = tags.get(0);
            String clientId = tags.get(1);
            List<List<String>> levelsOfTags;
            if (user.isEmpty())
                levelsOfTags = List.of(List.of("-", "=" + clientId), List.of("-", "*"));
            else if (clientId.isEmpty())
                levelsOfTags = List.of(List.of("=" + user, "-"), List.of("*", "-"));
            else
                levelsOfTags = List.of(List.of("=" + user, "=" + clientId), List.of("=" + user, "*"),
                    List.of("*", "=" + clientId), List.of("*", "*"));
            for (List<String> entity : levelsOfTags)
                if (bounds.containsKey(entity))
                    return bounds.get(entity);
            return Long.MAX_VALUE;
        }

        private Sensor sensor(String user, String clientId) {
            List<String> tags = tags(user, clientId);
            double bound = limit(tags);
            Sensor sensor = sensors.get(tags);
            if (sensor == null) {
                MetricName name = metrics.metricName("quota-" + sensors.size(), "fleet");
                sensor = metrics.sensor("sensor-" + sensors.size());
                try {
                    sensor.add(name, kind.getConstructor().newInstance(), config(bound));
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
                sensors.put(tags, sensor);
                metricOf.put(tags, metrics.metric(name));
            } else if (inForce.get(tags) != bound) {
                metricOf.get(tags).config(config(bound));
            }
            inForce.put(tags, bound);
            return sensor;
        }

        private MetricConfig config(double bound) {
            return new MetricConfig().samples(samples).timeWindow(windowMs, TimeUnit.MILLISECONDS)
                .quota(Quota.upperBound(bound));
        }

        /** Kafka: {@code maybeRecordAndGetThrottleTimeMs}. */
        private int record(String user, String clientId, double amount, long nowMs) throws Exception {
            if (!isEnabled)
                return 0;
            try {
                sensor(user, clientId).record(amount, nowMs, true);
                return 0;
            } catch (QuotaViolationException e) {
                Object delayMs = throttleMaxMs < 0
                    ? THROTTLE_TIME.invoke(null, e, nowMs)
                    : BOUNDED_THROTTLE_TIME.invoke(null, e, throttleMaxMs, nowMs);
                return (int) (long) delayMs;
            }
        }

        /** Kafka: {@code recordNoThrottle}, {@code unrecordQuotaSensor}. */
        private void recordOnly(String user, String clientId, double amount, long nowMs) {
            if (isEnabled)
                sensor(user, clientId).record(amount, nowMs, false);
        }

        /** Kafka: {@code getMaxValueInQuotaWindow}. */
        private double windowBytes(String user, String clientId) {
            return isEnabled ? limit(tags(user, clientId)) * (samples - 1) * (windowMs / 1000) : Double.MAX_VALUE;
        }

        private Object mutationQuota(String user, String clientId, boolean isStrict) {
            return isEnabled ? MutationQuotas.of(isStrict).renew(sensor(user, clientId)) : null;
        }

        private static Method quotaUtils(String name, int parameters) {
            try {
                for (Method method : ofBroker("server.quota.", "utils.", "QuotaUtils").getMethods())
                    if (method.getName().equals(name) && method.getParameterCount() == parameters)
                        return method;
            } catch (ClassNotFoundException e) {
                throw new IllegalStateException(e);
            }
            throw new IllegalStateException(name);
        }
    }

    private static long msOf(long ns) {
        return baseMs + Math.floorDiv(ns, MS);
    }

    /** Gives a partition so many bytes of records, whose classes are in another package since 4.4. */
    private static <T> T withRecords(T partition, int bytes) {
        try {
            Object records = memoryRecords().getMethod("readableRecords", ByteBuffer.class)
                .invoke(null, ByteBuffer.wrap(RECORDS, 0, bytes));
            for (Method method : partition.getClass().getMethods())
                if (method.getName().equals("setRecords"))
                    method.invoke(partition, records);
            return partition;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Class<?> memoryRecords() throws ClassNotFoundException {
        String folder = "org.apache.kafka.common.record.";
        try {
            return Class.forName(folder + "MemoryRecords");
        } catch (ClassNotFoundException newer) {
            return Class.forName(folder + "internal.MemoryRecords");
        }
    }

    private static int sizeOf(Message message, short version) {
        return message.size(new ObjectSerializationCache(), version);
    }

    private static Message fetched(int bytes, String topic) {
        var part = new FetchResponseData.PartitionData().setPartitionIndex(0).setHighWatermark(1)
            .setLastStableOffset(1).setLogStartOffset(0).setAbortedTransactions(null);
        withRecords(part, bytes);
        var response = new FetchResponseData.FetchableTopicResponse().setTopic(topic).setPartitions(List.of(part));
        return new FetchResponseData().setResponses(List.of(response));
    }

    /** Classes of the broker moved from Scala's packages to Java's, one release after the other. */
    private static Class<?> ofBroker(String folder, String olderFolder, String name) throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka." + folder + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("kafka." + olderFolder + name);
        }
    }
}
