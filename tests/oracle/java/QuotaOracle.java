import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.utils.Time;

/**
 * Runs Kafka's own quota classes over many sequences at once. Arguments: mode, input file, output
 * file, and so on for more runs. The files are little-endian longs, doubles as their bits. The input is the number of
 * sensors and of rows; samples and window per sensor; then, column by column, the sensor, the time
 * in ms, the amount, the bound (NaN: none in force), the operation and the extra of each row. The
 * output is the columns that the mode's method names.
 */
public final class QuotaOracle {
    private static final int RECORD = 0;
    private static final int RECORD_AND_UNRECORD = 1;
    private static final int RECORD_ONLY = 2;
    private static final int MEASURE = 1;
    private static final int BENCHMARK_ROUNDS = 12;

    private final int sensors;
    private final int rows;
    private final long[] samples;
    private final long[] windowMs;
    private final long[] sensor;
    private final long[] timeMs;
    private final double[] amount;
    private final double[] bound;
    private final long[] operation;
    private final long[] extra;

    private QuotaOracle(LongBuffer in) {
        sensors = (int) in.get();
        rows = (int) in.get();
        samples = longs(in, sensors);
        windowMs = longs(in, sensors);
        sensor = longs(in, rows);
        timeMs = longs(in, rows);
        amount = doubles(longs(in, rows));
        bound = doubles(longs(in, rows));
        operation = longs(in, rows);
        extra = longs(in, rows);
        if (in.hasRemaining())
            throw new IllegalArgumentException(in.remaining() + " longs too many in the input");
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 3) {
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[i + 1])));
            QuotaOracle oracle =
                new QuotaOracle(bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer());
            write(Path.of(args[i + 2]), oracle.run(args[i]));
        }
    }

    private long[][] run(String mode) throws Exception {
        switch (mode) {
            case "rate":
                return rate();
            case "token_bucket":
                return tokenBucket();
            case "client_quota":
                return clientQuota();
            case "mutation_quota":
                return mutationQuota();
            case "benchmark":
                return benchmark();
            default:
                throw new IllegalArgumentException("no mode " + mode);
        }
    }

    /** Columns: what {@code Rate.measure} and {@code Rate.windowSize} say; 0 after a record. */
    private long[][] rate() {
        Rate[] rates = new Rate[sensors];
        long[][] out = new long[2][rows];
        for (int i = 0; i < rows; i++) {
            int s = (int) sensor[i];
            if (rates[s] == null)
                rates[s] = new Rate();
            if (operation[i] == MEASURE) {
                out[0][i] = Double.doubleToLongBits(rates[s].measure(config(i), timeMs[i]));
                out[1][i] = rates[s].windowSize(config(i), timeMs[i]);
            } else {
                rates[s].record(config(i), amount[i], timeMs[i]);
            }
        }
        return out;
    }

    /** Column: what {@code TokenBucket.measure} says; 0 after a record. */
    private long[][] tokenBucket() {
        TokenBucket[] buckets = new TokenBucket[sensors];
        long[][] out = new long[1][rows];
        for (int i = 0; i < rows; i++) {
            int s = (int) sensor[i];
            if (buckets[s] == null)
                buckets[s] = new TokenBucket();
            if (operation[i] == MEASURE)
                out[0][i] = Double.doubleToLongBits(buckets[s].measure(config(i), timeMs[i]));
            else
                buckets[s].record(config(i), amount[i], timeMs[i]);
        }
        return out;
    }

    /**
     * Does what {@code ClientQuotaManager.recordAndGetThrottleTimeMs}, {@code recordNoThrottle} and
     * {@code unrecordQuotaSensor} do with a sensor. The extra is the longest throttle, -1 for none.
     * Columns: rate, window size and throttle time; 0 where not measured.
     */
    private long[][] clientQuota() throws Exception {
        Class<?> quotaUtils = quotaUtils();
        Method throttle =
            quotaUtils.getMethod("throttleTime", QuotaViolationException.class, long.class);
        Method boundedThrottle = quotaUtils.getMethod(
            "boundedThrottleTime", QuotaViolationException.class, long.class, long.class);
        Sensors all = new Sensors(Rate.class);
        long[][] out = new long[3][rows];
        for (int i = 0; i < rows; i++) {
            Sensor quotaSensor = all.sensor(i);
            if (operation[i] == RECORD_ONLY) {
                quotaSensor.record(amount[i], timeMs[i], false);
                continue;
            }
            try {
                quotaSensor.record(amount[i], timeMs[i], true);
            } catch (QuotaViolationException e) {
                Object delayMs = extra[i] < 0
                    ? throttle.invoke(null, e, timeMs[i])
                    : boundedThrottle.invoke(null, e, extra[i], timeMs[i]);
                out[2][i] = (int) (long) delayMs;
            }
            Rate rate = (Rate) all.stat(i);
            out[0][i] = Double.doubleToLongBits(rate.measure(config(i), timeMs[i]));
            out[1][i] = rate.windowSize(config(i), timeMs[i]);
            if (operation[i] == RECORD_AND_UNRECORD && out[2][i] > 0)
                quotaSensor.record(amount[i] * -1, timeMs[i], false);
        }
        return out;
    }

    /**
     * Spends through the broker's own strict (operation 1) and permissive (0) quotas. The extra is
     * when, after the mutation, the throttle is asked for again. Columns: tokens before and after,
     * admitted, throttle time at once and later.
     */
    private long[][] mutationQuota() throws Exception {
        long[] now = new long[1];
        Time time = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, ignored) -> {
                if (!method.getName().equals("milliseconds"))
                    throw new UnsupportedOperationException(method.getName());
                return now[0];
            });
        Quotas strict = new Quotas("Strict");
        Quotas permissive = new Quotas("Permissive");
        Sensors all = new Sensors(TokenBucket.class);
        long[][] out = new long[5][rows];
        for (int i = 0; i < rows; i++) {
            now[0] = timeMs[i];
            Sensor quotaSensor = all.sensor(i);
            MeasurableStat bucket = all.stat(i);
            out[0][i] = Double.doubleToLongBits(bucket.measure(config(i), timeMs[i]));
            Quotas quotas = operation[i] == 1 ? strict : permissive;
            Object quota = quotas.constructor.newInstance(time, quotaSensor);
            out[2][i] = quotas.admits(quota, amount[i]) ? 1 : 0;
            out[3][i] = (int) quotas.throttleTime.invoke(quota);
            out[1][i] = Double.doubleToLongBits(bucket.measure(config(i), timeMs[i]));
            now[0] += extra[i];
            out[4][i] = (int) quotas.throttleTime.invoke(quota);
        }
        return out;
    }

    /**
     * Times {@code Rate} alone on rows whose bound is one per sensor. Columns: the rates, the
     * throttle times, and this thread's nanoseconds in each round (the first warm the compiler up).
     */
    private long[][] benchmark() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long[] nanos = new long[BENCHMARK_ROUNDS];
        double[] rate = new double[rows];
        long[] throttleTimeMs = new long[rows];
        MetricConfig[] configs = new MetricConfig[sensors];
        for (int i = 0; i < rows; i++)
            if (configs[(int) sensor[i]] == null)
                configs[(int) sensor[i]] = config(i);
        for (int round = 0; round < BENCHMARK_ROUNDS; round++) {
            long started = threads.getCurrentThreadCpuTime();
            replay(configs, rate, throttleTimeMs);
            nanos[round] = threads.getCurrentThreadCpuTime() - started;
        }
        long[] rateBits = new long[rows];
        for (int i = 0; i < rows; i++)
            rateBits[i] = Double.doubleToLongBits(rate[i]);
        return new long[][] {rateBits, throttleTimeMs, nanos};
    }

    private void replay(MetricConfig[] configs, double[] rate, long[] throttleTimeMs) {
        Rate[] rates = new Rate[sensors];
        for (int s = 0; s < sensors; s++)
            rates[s] = new Rate();
        for (int i = 0; i < rows; i++) {
            int s = (int) sensor[i];
            rates[s].record(configs[s], amount[i], timeMs[i]);
            rate[i] = rates[s].measure(configs[s], timeMs[i]);
            throttleTimeMs[i] = rate[i] <= bound[i] ? 0 : (int) Math.round(
                (rate[i] - bound[i]) / bound[i] * rates[s].windowSize(configs[s], timeMs[i]));
        }
    }

    private MetricConfig config(int row) {
        int s = (int) sensor[row];
        double inForce = Double.isNaN(bound[row]) ? (double) Long.MAX_VALUE : bound[row];
        return new MetricConfig()
            .samples((int) samples[s])
            .timeWindow(windowMs[s], TimeUnit.MILLISECONDS)
            .quota(Quota.upperBound(inForce));
    }

    private static Class<?> quotaUtils() throws ClassNotFoundException {
        return ofBroker("server.quota.", "utils.", "QuotaUtils");
    }

    /** Classes of the broker moved from Scala's packages to Java's, one release after the other. */
    private static Class<?> ofBroker(String folder, String olderFolder, String name)
        throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka." + folder + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("kafka." + olderFolder + name);
        }
    }

    private static long[] longs(LongBuffer in, int count) {
        long[] read = new long[count];
        in.get(read);
        return read;
    }

    private static double[] doubles(long[] bits) {
        double[] read = new double[bits.length];
        for (int i = 0; i < bits.length; i++)
            read[i] = Double.longBitsToDouble(bits[i]);
        return read;
    }

    private static void write(Path file, long[][] columns) throws IOException {
        int count = 0;
        for (long[] column : columns)
            count += column.length;
        ByteBuffer bytes = ByteBuffer.allocate(count * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (long[] column : columns)
            for (long value : column)
                bytes.putLong(value);
        Files.write(file, bytes.array());
    }

    /** One of the broker's two mutation quotas, which are not in kafka-clients. */
    private static final class Quotas {
        private final Constructor<?> constructor;
        private final Method record;
        private final Method throttleTime;

        private Quotas(String kind) throws Exception {
            Class<?> quota = ofBroker("server.quota.", "server.", kind + "ControllerMutationQuota");
            constructor = quota.getConstructor(Time.class, Sensor.class);
            record = quota.getMethod("record", double.class);
            throttleTime = quota.getMethod("throttleTime");
        }

        private boolean admits(Object quota, double permits) throws Exception {
            try {
                record.invoke(quota, permits);
                return true;
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof ThrottlingQuotaExceededException)
                    return false;
                throw e;
            }
        }
    }

    /** Real sensors, one metric each, whose quota follows the rows' bound. */
    private final class Sensors {
        private final Class<? extends MeasurableStat> kind;
        private final Metrics metrics = new Metrics();
        private final Sensor[] made = new Sensor[sensors];
        private final MeasurableStat[] stats = new MeasurableStat[sensors];
        private final KafkaMetric[] metric = new KafkaMetric[sensors];

        private Sensors(Class<? extends MeasurableStat> kind) {
            this.kind = kind;
        }

        private Sensor sensor(int row) throws Exception {
            int s = (int) sensor[row];
            if (made[s] == null) {
                MetricName name = metrics.metricName("quota-" + s, "oracle");
                made[s] = metrics.sensor("sensor-" + s);
                stats[s] = kind.getConstructor().newInstance();
                made[s].add(name, stats[s], config(row));
                metric[s] = metrics.metric(name);
            }
            metric[s].config(config(row));
            return made[s];
        }

        private MeasurableStat stat(int row) {
            return stats[(int) sensor[row]];
        }
    }
}
