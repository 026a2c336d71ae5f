import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * A Kafka node or its ZooKeeper that stops when whoever started it has gone: its standard input ends then.
 *
 * <p>Arguments: the main class, and the arguments of that. With {@code -Dlab.metrics=FILE} and {@code
 * -Dlab.metrics.every=MS} the MBeans of client quotas are written to the file, again and again: a line is the time
 * in ms before they were read, the object's name, the attribute's name and its value, between tabs.
 */
public class Server {
    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(Server::exitAtEndOfInput, "lab-watch");
        watch.setDaemon(true);
        watch.start();
        if (System.getProperty("lab.metrics") != null) {
            Thread metrics = new Thread(Server::writeMetrics, "lab-metrics");
            metrics.setDaemon(true);
            metrics.start();
        }
        String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void exitAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is ever said to it.
            }
        } catch (IOException closed) {
            // The same as its end.
        }
        System.exit(1);
    }

    private static void writeMetrics() {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        long everyMs = Long.getLong("lab.metrics.every");
        try (PrintWriter lines = new PrintWriter(System.getProperty("lab.metrics"))) {
            while (true) {
                for (String type : new String[] {"Produce", "Fetch"}) {
                    for (ObjectName name : beans.queryNames(new ObjectName("kafka.server:type=" + type + ",*"), null)) {
                        writeValues(beans, name, lines);
                    }
                }
                lines.flush();
                Thread.sleep(everyMs - System.currentTimeMillis() % everyMs);
            }
        } catch (IOException | JMException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void writeValues(MBeanServer beans, ObjectName name, PrintWriter lines) throws JMException {
        long atMs = System.currentTimeMillis();
        String[] attributes = {"byte-rate", "throttle-time"};
        for (Attribute value : beans.getAttributes(name, attributes).asList()) {
            lines.println(atMs + "\t" + name + "\t" + value.getName() + "\t" + value.getValue());
        }
    }
}
