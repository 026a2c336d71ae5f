import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestHeader;

/**
 * Prints random requests and responses as brokers of 2.0 to 2.7 log them, one JSON object a line,
 * with the bytes Kafka's own classes need. Arguments: seed, messages per version, then API keys.
 */
public final class TextMessages {
    private static final int[] LENGTHS = {0, 1, 2, 7, 20, 126, 300};
    private static final String[] CHARACTERS = {"a", "Z", "-", "_", ".", "7"};
    private static final String[] ODD = {",", "=", " ", "(", ")", "{", "[", "\u00e9", "\u20ac", "\""};
    private static final int FILE_BYTES = 1 << 20;

    private final Random random;
    private final FileRecords file;
    private final boolean printsMemoryRecordsSize;

    private TextMessages(long seed) throws Exception {
        random = new Random(seed);
        File path = File.createTempFile("orders-0, copy", ".log");
        path.deleteOnExit();
        try (RandomAccessFile bytes = new RandomAccessFile(path, "rw")) {
            bytes.setLength(FILE_BYTES);
        }
        file = FileRecords.open(path, false);
        printsMemoryRecordsSize = MemoryRecords.EMPTY.toString().startsWith("MemoryRecords");
    }

    public static void main(String[] args) throws Exception {
        TextMessages messages = new TextMessages(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        StringBuilder out = new StringBuilder();
        for (int i = 2; i < args.length; i++) {
            ApiKeys api = known(Integer.parseInt(args[i]));
            if (api == null) continue;
            for (short v = api.oldestVersion(); v <= api.latestVersion(); v++)
                for (int n = 0; n < count; n++) {
                    messages.printRequest(api, v, out);
                    messages.printResponse(api, v, out);
                }
        }
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static ApiKeys known(int id) {
        for (ApiKeys api : ApiKeys.values()) if (api.id == id) return api;
        return null;
    }

    private void printRequest(ApiKeys api, short version, StringBuilder out) throws Exception {
        Struct struct = filled(api.requestSchema(version), version, api == ApiKeys.PRODUCE);
        String clientId = random.nextInt(6) == 0 ? null : oddText();
        RequestHeader header = new RequestHeader(api, version, clientId, random.nextInt());
        int size = sizeOf(header) + struct.sizeOf();
        String brief = struct.toString();
        String verbose = brief;
        boolean isTransactional = false;
        if (api == ApiKeys.PRODUCE) {
            AbstractRequest request = AbstractRequest.parseRequest(api, version, struct);
            brief = request.toString(false);
            verbose = request.toString(true);
            isTransactional = struct.hasField("transactional_id") && struct.get("transactional_id") != null;
        }
        out.append("{\"side\":\"Request\",\"api_key\":").append(api.id)
            .append(",\"version\":").append(version).append(",\"size\":").append(size)
            .append(",\"client_id\":").append(json(clientId))
            .append(",\"is_transactional\":").append(isTransactional)
            .append(",\"brief\":").append(json(header + " -- " + brief))
            .append(",\"verbose\":").append(json(header + " -- " + verbose)).append("}\n");
    }

    private void printResponse(ApiKeys api, short version, StringBuilder out) {
        Struct struct = filled(api.responseSchema(version), version, false);
        out.append("{\"side\":\"Response\",\"api_key\":").append(api.id)
            .append(",\"version\":").append(version).append(",\"size\":").append(struct.sizeOf())
            .append(",\"text\":").append(json(struct.toString())).append("}\n");
    }

    /** Its toStruct is private in some releases and gone from others. */
    private static int sizeOf(RequestHeader header) throws Exception {
        java.lang.reflect.Method toStruct;
        try {
            toStruct = RequestHeader.class.getDeclaredMethod("toStruct");
        } catch (NoSuchMethodException e) {
            toStruct = RequestHeader.class.getSuperclass().getDeclaredMethod("toStruct");
        }
        toStruct.setAccessible(true);
        return ((Struct) toStruct.invoke(header)).sizeOf();
    }

    private Struct filled(Schema schema, short version, boolean isProduce) {
        Struct struct = new Struct(schema);
        for (BoundField bound : schema.fields())
            struct.set(bound.def.name, value(bound.def, version, isProduce));
        return struct;
    }

    private Object value(Field field, short version, boolean isProduce) {
        Type type = field.type;
        String kind = type.toString();
        // RECORDS says of itself that it is nullable: a broker answers with empty ones.
        if (type.isNullable() && !isRecords(kind) && random.nextInt(4) == 0) return null;
        if (type instanceof Schema) return filled((Schema) type, version, isProduce);
        if (field.name.equals("_tagged_fields")) return new TreeMap<Integer, Object>();
        Object element = element(type);
        if (element != null) return array((Type) element, field, version, isProduce);
        if (isRecords(kind)) return isProduce ? produced(version) : fetched();
        switch (kind) {
            case "BOOLEAN": return random.nextBoolean();
            case "INT8": return (byte) random.nextInt();
            case "INT16": return (short) random.nextInt();
            // A minus before a partition could be the last character of its topic.
            case "INT32": return isProduce ? random.nextInt(1 << 20) : random.nextInt();
            case "INT64": return random.nextLong();
            case "FLOAT64": return random.nextGaussian() * 1e6;
            default: return freeText(field.name) ? oddText() : text(CHARACTERS);
        }
    }

    /** Whose values may hold what separates fields, as long as it cannot be taken for a field. */
    private static boolean freeText(String name) {
        return name.equals("error_message") || name.equals("entity_name") || name.endsWith("value");
    }

    private static boolean isRecords(String kind) {
        return kind.equals("RECORDS") || kind.equals("COMPACT_RECORDS");
    }

    /** Called arrayElementType since 2.4. */
    private static Object element(Type type) {
        for (String name : new String[] {"arrayElementType", "type"})
            try {
                Object element = type.getClass().getMethod(name).invoke(type);
                return element instanceof Optional ? ((Optional<?>) element).orElse(null) : element;
            } catch (ReflectiveOperationException e) {
                continue;
            }
        return null;
    }

    private Object[] array(Type element, Field field, short version, boolean isProduce) {
        List<Object> values = new ArrayList<>();
        int length = random.nextInt(4);
        for (int i = 0; i < length; i++)
            values.add(element instanceof Schema
                ? filled((Schema) element, version, isProduce)
                : element.toString().endsWith("STRING") ? "t" + text(CHARACTERS)
                : value(new Field(field.name, element), version, isProduce));
        if (isProduce) distinct(values);
        return values.toArray();
    }

    /** A client names each topic, and each partition of it, once, and sends no empty topic. */
    private void distinct(List<Object> values) {
        Map<Object, Object> named = new HashMap<>();
        for (Object value : values) {
            Struct struct = (Struct) value;
            boolean isTopic = struct.hasField("topic");
            if (!isTopic || ((Object[]) struct.get("data")).length > 0)
                named.put(struct.get(isTopic ? "topic" : "partition"), struct);
        }
        values.clear();
        values.addAll(named.values());
    }

    private MemoryRecords produced(short version) {
        byte magic = (byte) (version < 2 ? 0 : version < 3 ? 1 : 2);
        SimpleRecord record = new SimpleRecord(1L, new byte[random.nextInt(3000)]);
        return MemoryRecords.withRecords(magic, CompressionType.NONE, record);
    }

    private Object fetched() {
        if (random.nextInt(4) == 0) return MemoryRecords.EMPTY;
        if (printsMemoryRecordsSize && random.nextBoolean())
            return MemoryRecords.readableRecords(ByteBuffer.allocate(random.nextInt(70000)));
        int start = random.nextInt(FILE_BYTES);
        try {
            return slice(start, random.nextInt(FILE_BYTES - start + 1));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Called read in the older releases. */
    private Object slice(int start, int size) throws ReflectiveOperationException {
        for (java.lang.reflect.Method method : FileRecords.class.getMethods())
            if (method.getName().equals("slice")) return method.invoke(file, start, size);
        return FileRecords.class.getMethod("read", int.class, int.class).invoke(file, start, size);
    }

    private String oddText() {
        String[] all = new String[CHARACTERS.length + ODD.length];
        System.arraycopy(CHARACTERS, 0, all, 0, CHARACTERS.length);
        System.arraycopy(ODD, 0, all, CHARACTERS.length, ODD.length);
        return text(all);
    }

    private String text(String[] characters) {
        int length = LENGTHS[random.nextInt(LENGTHS.length)];
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) text.append(characters[random.nextInt(characters.length)]);
        return text.toString();
    }

    private static String json(String text) {
        if (text == null) return "null";
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
