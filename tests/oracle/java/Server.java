import java.io.IOException;
import java.util.Arrays;

/**
 * A Kafka node or its ZooKeeper that stops when whoever started it has gone: its standard input ends then.
 *
 * <p>Arguments: the main class, and the arguments of that.
 */
public class Server {
    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(Server::exitAtEndOfInput, "lab-watch");
        watch.setDaemon(true);
        watch.start();
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
}
