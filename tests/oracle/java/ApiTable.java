import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.protocol.ApiKeys;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Prints what the Kafka jars on the class path say of every kind of request, one a line, with tabs: number, name,
 * newest version, whether it is a cluster action, and what its handler in KafkaApis and in ControllerApis may do:
 * "produce", "fetch", "request", "controllerMutation" record on that quota, "exempt" is exempt from the request quota,
 * "forward" hands it to the controller, "strict:N" refuses mutations since version N.
 *
 * <p>Handlers are read from the byte code: every method of the class that can be reached from where {@code handle}
 * compares the request's key with a constant of ApiKeys, through lambdas too. Without the broker's jar both are empty.
 */
public final class ApiTable {
    private static final List<String> HANDLERS = List.of("kafka/server/KafkaApis", "kafka/server/ControllerApis");

    public static void main(String[] ignored) throws Exception {
        List<Map<ApiKeys, Set<String>>> counted = new ArrayList<>();
        for (String handler : HANDLERS) {
            counted.add(new Calls(handler).byKey());
        }
        for (ApiKeys key : ApiKeys.values()) {
            List<String> line = new ArrayList<>(
                List.of(String.valueOf(key.id), key.name(), String.valueOf(newest(key)), String.valueOf(key.clusterAction)));
            for (Map<ApiKeys, Set<String>> of : counted) {
                line.add(String.join(",", of.getOrDefault(key, Set.of())));
            }
            System.out.println(String.join("\t", line));
        }
    }

    private static short newest(ApiKeys key) throws ReflectiveOperationException {
        for (Method method : ApiKeys.class.getMethods()) {
            if (method.getName().equals("latestVersion") && method.getParameterCount() == 0) {
                return (short) method.invoke(key);
            }
        }
        throw new NoSuchMethodException("ApiKeys.latestVersion");
    }

    /** Which methods of one class call which, and what quotas each asks. */
    private static final class Calls extends ClassVisitor {
        private final String name;
        private final Map<String, Set<String>> called = new HashMap<>();
        private final Map<String, Set<String>> counts = new HashMap<>();
        private final Map<ApiKeys, Set<String>> entries = new EnumMap<>(ApiKeys.class);

        private Calls(String name) throws IOException {
            super(Opcodes.ASM9);
            this.name = name;
            try (InputStream bytes = ApiTable.class.getClassLoader().getResourceAsStream(name + ".class")) {
                if (bytes != null) {
                    new ClassReader(bytes).accept(this, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
                }
            }
        }

        private Map<ApiKeys, Set<String>> byKey() {
            Map<ApiKeys, Set<String>> found = new EnumMap<>(ApiKeys.class);
            entries.forEach((key, from) -> found.put(key, reached(from)));
            return found;
        }

        private Set<String> reached(Set<String> from) {
            Set<String> asked = new TreeSet<>();
            Set<String> seen = new LinkedHashSet<>(from);
            Deque<String> open = new ArrayDeque<>(from);
            while (!open.isEmpty()) {
                String method = open.poll();
                asked.addAll(counts.getOrDefault(method, Set.of()));
                for (String next : called.getOrDefault(method, Set.of())) {
                    if (seen.add(next)) {
                        open.add(next);
                    }
                }
            }
            return asked;
        }

        @Override
        public MethodVisitor visitMethod(int access, String method, String type, String signature, String[] thrown) {
            String caller = method + type;
            boolean dispatches = method.equals("handle");
            return new MethodVisitor(Opcodes.ASM9) {
                private ApiKeys key;
                private String manager;
                private int number;

                @Override
                public void visitFieldInsn(int code, String owner, String field, String fieldType) {
                    if (dispatches && owner.endsWith("protocol/ApiKeys") && code == Opcodes.GETSTATIC) {
                        key = ApiKeys.valueOf(field);
                        entries.computeIfAbsent(key, each -> new LinkedHashSet<>());
                    }
                }

                @Override
                public void visitMethodInsn(int code, String owner, String callee, String calleeType, boolean itf) {
                    if (owner.equals(name)) {
                        follow(callee + calleeType);
                    }
                    if (owner.endsWith("QuotaManagers")) {
                        manager = callee;
                    } else if (callee.equals("maybeRecordAndGetThrottleTimeMs") && !owner.endsWith("HandlerHelper")) {
                        count(manager);
                    } else if (owner.endsWith("QuotaManager") && callee.matches("new\\w*QuotaFor")) {
                        count(manager);
                        if (callee.equals("newQuotaFor")) {
                            count("strict:" + number);
                        }
                    }
                    count(asked(owner, callee));
                }

                @Override
                public void visitInsn(int code) {
                    if (code >= Opcodes.ICONST_0 && code <= Opcodes.ICONST_5) {
                        number = code - Opcodes.ICONST_0;
                    }
                }

                @Override
                public void visitIntInsn(int code, int operand) {
                    number = operand;
                }

                @Override
                public void visitInvokeDynamicInsn(String lambda, String made, Handle by, Object... given) {
                    for (Object each : given) {
                        if (each instanceof Handle && ((Handle) each).getOwner().equals(name)) {
                            follow(((Handle) each).getName() + ((Handle) each).getDesc());
                        }
                    }
                }

                private void count(String asked) {
                    if (asked != null) {
                        counts.computeIfAbsent(caller, each -> new TreeSet<>()).add(asked);
                    }
                }

                private void follow(String callee) {
                    if (!dispatches) {
                        called.computeIfAbsent(caller, each -> new LinkedHashSet<>()).add(callee);
                    } else if (key != null) {
                        entries.get(key).add(callee);
                    }
                }
            };
        }

        private static String asked(String owner, String callee) {
            if (callee.endsWith("ExemptThrottle")) {
                return "exempt";
            }
            boolean sends = owner.endsWith("RequestHandlerHelper") && callee.contains("MaybeThrottle");
            if (sends || owner.endsWith("AclApis")) {
                return "request";
            }
            return callee.equals("sendForwardedResponse") || callee.startsWith("forwardRequest") ? "forward" : null;
        }
    }
}
