package rulewire.interop;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import com.alibaba.csp.sentinel.datasource.FileRefreshableDataSource;
import com.alibaba.csp.sentinel.datasource.FileWritableDataSource;
import com.alibaba.csp.sentinel.datasource.ReadableDataSource;
import com.alibaba.csp.sentinel.datasource.etcd.EtcdDataSource;
import com.alibaba.csp.sentinel.datasource.redis.RedisDataSource;
import com.alibaba.csp.sentinel.datasource.redis.config.RedisConnectionConfig;
import com.alibaba.csp.sentinel.property.PropertyListener;
import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;

/** The stores, each read with Sentinel's own data source. */
final class Stores {
    private Stores() { }

    static <R> Map<String, Object> load(Kind<R> kind, JSONObject q) throws Exception {
        ReadableDataSource<String, List<R>> source = open(kind, q);
        try {
            Seen<R> seen = new Seen<>();
            source.getProperty().addListener(seen);
            Map<String, Object> answer = new LinkedHashMap<>();
            // As text at once: the managers fill in and change fields of the very same objects.
            answer.put("given", JSON.parse(plain(seen.rules)));
            answer.put("rules", JSON.parse(plain(kind.enforce(source.getProperty()))));
            return answer;
        } finally {
            kind.forget();
            source.close();
        }
    }

    private static <R> ReadableDataSource<String, List<R>> open(Kind<R> kind, JSONObject q) throws Exception {
        switch (q.getString("store")) {
            case "file":
                return new FileRefreshableDataSource<>(new File(q.getString("path")), kind.parser());
            case "redis":
                return new RedisDataSource<>(
                    RedisConnectionConfig.builder().withHost(q.getString("host")).withPort(q.getIntValue("port")).build(),
                    q.getString("key"), q.getString("channel"), kind.parser());
            case "etcd":
                // The endpoints are a system property of the JVM; see EtcdConfig.
                return new EtcdDataSource<>(q.getString("key"), kind.parser());
            default:
                throw new IllegalArgumentException("store " + q.getString("store"));
        }
    }

    static <R> Map<String, Object> store(Kind<R> kind, JSONObject q) throws Exception {
        List<R> rules = kind.parse(q.getString("rules"));
        String text = plain(rules);
        switch (q.getString("store")) {
            case "file":
                new FileWritableDataSource<List<R>>(q.getString("path"), Stores::plain).write(rules);
                break;
            case "redis":
                RedisClient redis = RedisClient.create(RedisURI.create(q.getString("host"), q.getIntValue("port")));
                try (StatefulRedisConnection<String, String> c = redis.connect()) {
                    c.sync().multi();
                    c.sync().set(q.getString("key"), text);
                    c.sync().publish(q.getString("channel"), text);
                    c.sync().exec();
                } finally {
                    redis.shutdown();
                }
                break;
            case "etcd":
                try (Client etcd = Client.builder().endpoints(q.getString("endpoint")).build()) {
                    etcd.getKVClient().put(bytes(q.getString("key")), bytes(text)).get(10, TimeUnit.SECONDS);
                }
                break;
            default:
                throw new IllegalArgumentException("store " + q.getString("store"));
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("given", JSON.parse(text));
        return answer;
    }

    private static ByteSequence bytes(String s) { return ByteSequence.from(s, StandardCharsets.UTF_8); }

    private static String plain(Object rules) {
        return JSON.toJSONString(rules, SerializerFeature.DisableCircularReferenceDetect);
    }

    /** Remembers what a data source hands over. */
    private static final class Seen<R> implements PropertyListener<List<R>> {
        private List<R> rules;

        @Override
        public void configUpdate(List<R> value) { rules = value; }

        @Override
        public void configLoad(List<R> value) { rules = value; }
    }
}
