import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Marks and reads meters of Dropwizard's and of Yammer's metrics-core at the times it is told.
 * Each line of stdin is a meter's name, a time in ms, and an amount to mark or -1 to read the
 * one-minute rate; a meter is created by its first line. Printed are the bits of each rate read.
 * The argument is the library: dropwizard or yammer.
 */
public final class MeterOracle {
    private interface RateMeter {
        void mark(long amount);

        double oneMinuteRate();

        /** Lets the time of every tick come that a schedule has up to now. */
        default void advance() {}
    }

    private static long nowNs;

    private static final class Dropwizard implements RateMeter {
        private final com.codahale.metrics.Meter meter =
                new com.codahale.metrics.Meter(
                        new com.codahale.metrics.Clock() {
                            @Override
                            public long getTick() {
                                return nowNs;
                            }
                        });

        @Override
        public void mark(long amount) {
            meter.mark(amount);
        }

        @Override
        public double oneMinuteRate() {
            return meter.getOneMinuteRate();
        }
    }

    /** Its constructor is not public, and wants the thread pool that ticks; here the lines do. */
    private static final class Yammer implements RateMeter {
        private final com.yammer.metrics.core.Meter meter;
        private Runnable tick;
        private long nextNs;
        private long periodNs;

        Yammer() throws ReflectiveOperationException {
            Constructor<com.yammer.metrics.core.Meter> constructor =
                    com.yammer.metrics.core.Meter.class.getDeclaredConstructor(
                            ScheduledExecutorService.class,
                            String.class,
                            TimeUnit.class,
                            com.yammer.metrics.core.Clock.class);
            constructor.setAccessible(true);
            com.yammer.metrics.core.Clock clock =
                    new com.yammer.metrics.core.Clock() {
                        @Override
                        public long tick() {
                            return nowNs;
                        }
                    };
            meter = constructor.newInstance(schedule(), "bytes", TimeUnit.SECONDS, clock);
        }

        private ScheduledExecutorService schedule() {
            return (ScheduledExecutorService)
                    Proxy.newProxyInstance(
                            MeterOracle.class.getClassLoader(),
                            new Class<?>[] {ScheduledExecutorService.class},
                            (proxy, method, args) -> {
                                if (!method.getName().equals("scheduleAtFixedRate")) {
                                    throw new UnsupportedOperationException(method.getName());
                                }
                                TimeUnit unit = (TimeUnit) args[3];
                                tick = (Runnable) args[0];
                                nextNs = nowNs + unit.toNanos((Long) args[1]);
                                periodNs = unit.toNanos((Long) args[2]);
                                return null;
                            });
        }

        @Override
        public void advance() {
            for (; nextNs <= nowNs; nextNs += periodNs) {
                tick.run();
            }
        }

        @Override
        public void mark(long amount) {
            meter.mark(amount);
        }

        @Override
        public double oneMinuteRate() {
            return meter.oneMinuteRate();
        }
    }

    private static RateMeter create(String library) {
        try {
            return library.equals("yammer") ? new Yammer() : new Dropwizard();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws IOException {
        Map<String, RateMeter> meters = new HashMap<>();
        StringBuilder bits = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            nowNs = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[1]));
            RateMeter meter = meters.computeIfAbsent(words[0], name -> create(args[0]));
            meter.advance();
            long amount = Long.parseLong(words[2]);
            if (amount >= 0) {
                meter.mark(amount);
            } else {
                bits.append(Double.doubleToRawLongBits(meter.oneMinuteRate())).append('\n');
            }
        }
        System.out.print(bits);
    }
}
