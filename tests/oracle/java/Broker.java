import java.io.IOException;

/** A Kafka broker that stops when whoever started it has gone: its standard input ends then. */
public class Broker {
    public static void main(String[] arguments) {
        Thread watch = new Thread(Broker::exitAtEndOfInput, "lab-watch");
        watch.setDaemon(true);
        watch.start();
        kafka.Kafka.main(arguments);
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
}
