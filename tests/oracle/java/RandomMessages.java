import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.RequestHeaderDataJsonConverter;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.MemoryRecords;

/**
 * Prints random messages as the request log does, one JSON object a line, with the bytes that
 * Kafka's own serializer wrote for each. Arguments: seed, messages per version, then API names.
 */
public final class RandomMessages {
    private static final int[] LENGTHS = {0, 1, 2, 7, 20, 126, 127, 128, 300};
    private static final int[] RECORD_SIZES =
        {0, 1, 61, 126, 127, 128, 16382, 16383, 16384, 70000, 2097151};
    private static final String[] CHARACTERS =
        {"a", "Z", "-", "_", ".", "\"", "\\", "\u0001", "\u00e9", "\u20ac", "\ud83d\ude80"};
    private static final String MESSAGES = "org.apache.kafka.common.message.";

    private final Random random;

    private RandomMessages(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        RandomMessages messages = new RandomMessages(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        StringBuilder out = new StringBuilder();
        for (int i = 2; i < args.length; i++)
            for (String side : new String[] {"Request", "Response"})
                messages.printAll(args[i], side, count, out);
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private void printAll(String name, String side, int count, StringBuilder out) throws Exception {
        Class<?> type = Class.forName(MESSAGES + name + side + "Data");
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        ApiMessage first = (ApiMessage) type.getConstructor().newInstance();
        for (short v = first.lowestSupportedVersion(); v <= first.highestSupportedVersion(); v++)
            for (int i = 0; i < count; i++) {
                ApiMessage message = (ApiMessage) type.getConstructor().newInstance();
                fill(message, schemas[v]);
                out.append(describe(message, name, side, v)).append('\n');
            }
    }

    private String describe(ApiMessage message, String name, String side, short version)
        throws Exception {
        if (name.endsWith("Fetch") && side.equals("Response")) tidy(message);
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        line.put("side", side).put("api_key", message.apiKey()).put("version", version);
        int size = written(message, version);
        if (side.equals("Request")) {
            short headerVersion = ApiKeys.forId(message.apiKey()).requestHeaderVersion(version);
            RequestHeaderData header = new RequestHeaderData()
                .setRequestApiKey(message.apiKey()).setRequestApiVersion(version)
                .setCorrelationId(random.nextInt())
                .setClientId(random.nextInt(8) == 0 ? null : text());
            size += written(header, headerVersion);
            line.set("header", RequestHeaderDataJsonConverter.write(header, headerVersion, false));
        } else if (name.endsWith("Fetch")) {
            line.put("size_of", sizeOf(message, name, version));
        }
        Class<?> converter = Class.forName(MESSAGES + name + side + "DataJsonConverter");
        Method write =
            converter.getMethod("write", message.getClass(), short.class, boolean.class);
        line.set("body", (JsonNode) write.invoke(null, message, version, false));
        return line.put("size", size).toString();
    }

    private static int written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.position();
    }

    /** What a broker weighs before it builds the response: FetchResponse.sizeOf. */
    private static int sizeOf(ApiMessage message, String name, short version) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.common.requests." + name + "Response");
        Method sizeOf = null;
        for (Method method : type.getMethods()) if (method.getName().equals("sizeOf")) sizeOf = method;
        boolean byId = sizeOf.getGenericParameterTypes()[1].toString().contains("TopicIdPartition");
        List<Map.Entry<Object, Object>> entries = new ArrayList<>();
        for (Object topic : (Collection<?>) get(message, "responses")) {
            String topicName = has(topic, "topic") ? (String) get(topic, "topic") : "";
            for (Object partition : (Collection<?>) partitions(topic)) {
                String index = has(partition, "partitionIndex") ? "partitionIndex" : "partition";
                Object key = new TopicPartition(topicName, (Integer) get(partition, index));
                if (byId)
                    key = Class.forName("org.apache.kafka.common.TopicIdPartition")
                        .getConstructor(Uuid.class, TopicPartition.class)
                        .newInstance(get(topic, "topicId"), key);
                entries.add(new AbstractMap.SimpleEntry<>(key, byId ? partition : wrapped(partition)));
            }
        }
        return (Integer) sizeOf.invoke(null, version, entries.iterator());
    }

    /** 2.8 weighs partitions in a wrapper of its own, whose constructor is private. */
    private static Object wrapped(Object partition) throws Exception {
        Constructor<?> constructor =
            Class.forName("org.apache.kafka.common.requests.FetchResponse$PartitionData")
                .getDeclaredConstructor(partition.getClass());
        constructor.setAccessible(true);
        return constructor.newInstance(partition);
    }

    /** Topics as a broker builds them: none without partitions, no two of one name or id. */
    private void tidy(ApiMessage message) throws Exception {
        int n = 0;
        Iterator<?> topics = ((Collection<?>) get(message, "responses")).iterator();
        while (topics.hasNext()) {
            Object topic = topics.next();
            if (((Collection<?>) partitions(topic)).isEmpty()) topics.remove();
            else if (has(topic, "topic"))
                topic.getClass().getMethod("setTopic", String.class)
                    .invoke(topic, n++ + (String) get(topic, "topic"));
        }
    }

    private static Object partitions(Object topic) throws Exception {
        return get(topic, has(topic, "partitions") ? "partitions" : "partitionResponses");
    }

    private static boolean has(Object object, String getter) {
        for (Method method : object.getClass().getMethods())
            if (method.getName().equals(getter) && method.getParameterCount() == 0) return true;
        return false;
    }

    private static Object get(Object object, String getter) throws Exception {
        return object.getClass().getMethod(getter).invoke(object);
    }

    private void fill(Object struct, Schema schema) throws Exception {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (Field field : tagged((TaggedFields) bound.def.type))
                    if (random.nextBoolean()) set(struct, field);
            } else {
                set(struct, bound.def);
            }
        }
    }

    /** 2.8 has no accessor for them. */
    @SuppressWarnings("unchecked")
    private static Collection<Field> tagged(TaggedFields type) throws Exception {
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return ((Map<Integer, Field>) fields.get(type)).values();
    }

    private void set(Object struct, Field field) throws Exception {
        Method setter = setter(struct.getClass(), field.name);
        boolean nullable = field.type.isNullable() && !struct.getClass().getName().contains("ShareFetch");
        if (nullable && random.nextInt(4) == 0) setter.invoke(struct, (Object) null);
        else setter.invoke(struct, value(setter.getGenericParameterTypes()[0], field.type));
    }

    private static Method setter(Class<?> type, String snakeCase) {
        StringBuilder name = new StringBuilder("set");
        for (String word : snakeCase.split("_"))
            name.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
        for (Method method : type.getMethods())
            if (method.getName().contentEquals(name)) return method;
        throw new IllegalStateException(type + " has no " + name);
    }

    private Object value(Type type, Object schemaType) throws Exception {
        if (type == boolean.class || type == Boolean.class) return random.nextBoolean();
        if (type == byte.class || type == Byte.class) return (byte) random.nextInt();
        if (type == short.class || type == Short.class) return (short) random.nextInt();
        if (type == int.class || type == Integer.class) return random.nextInt();
        if (type == long.class || type == Long.class) return random.nextLong();
        if (type == double.class) return random.nextGaussian() * 1e6;
        if (type == String.class) return text();
        if (type == Uuid.class) return Uuid.randomUuid();
        if (type.getTypeName().endsWith("BaseRecords")) {
            int size = RECORD_SIZES[random.nextInt(RECORD_SIZES.length)];
            return MemoryRecords.readableRecords(ByteBuffer.allocate(size));
        }
        if (schemaType instanceof Schema) {
            Object struct = ((Class<?>) type).getConstructor().newInstance();
            fill(struct, (Schema) schemaType);
            return struct;
        }
        return array(type, (org.apache.kafka.common.protocol.types.Type) schemaType);
    }

    @SuppressWarnings("unchecked")
    private Object array(Type type, org.apache.kafka.common.protocol.types.Type schemaType)
        throws Exception {
        Object elements = schemaType.arrayElementType().get();
        boolean isList = type instanceof ParameterizedType;
        Type element = isList
            ? ((ParameterizedType) type).getActualTypeArguments()[0]
            : ((ParameterizedType) ((Class<?>) type).getGenericSuperclass()).getActualTypeArguments()[0];
        Constructor<?> empty = isList ? ArrayList.class.getConstructor() : ((Class<?>) type).getConstructor();
        Collection<Object> filled = (Collection<Object>) empty.newInstance();
        int length = random.nextInt(60) == 0 ? 126 + random.nextInt(4) : random.nextInt(4);
        // Long arrays of arrays would only take time: the length prefix is what they test.
        if (elements instanceof Schema && length > 4 && random.nextInt(4) != 0) length = 3;
        for (int i = 0; i < length; i++) filled.add(value(element, elements));
        return filled;
    }

    private String text() {
        int length = LENGTHS[random.nextInt(LENGTHS.length)];
        boolean ascii = random.nextBoolean();
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++)
            text.append(CHARACTERS[random.nextInt(ascii ? 5 : CHARACTERS.length)]);
        return text.toString();
    }
}
