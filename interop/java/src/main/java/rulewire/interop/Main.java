package rulewire.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;

/**
 * A Sentinel client that answers one question a line, so that one JVM serves a whole test run. A question is a JSON
 * object: {"op": "load" | "store", "kind": …, "store": …, and what the store needs, "rules": the text to store}.
 * "load" answers {"given": what the data source handed over, "rules": what Sentinel's rule manager has in force};
 * "store" writes rules the way a Java program does and answers what it was given; any failure is {"error": …}.
 */
public final class Main {
    private Main() { }

    public static void main(String[] args) throws Exception {
        // Sentinel and its clients talk on stdout now and then; the answers must stand there alone.
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Object answer;
            try {
                answer = answer(JSON.parseObject(line));
            } catch (Throwable t) {
                Map<String, Object> failure = new LinkedHashMap<>();
                failure.put("error", String.valueOf(t));
                answer = failure;
            }
            answers.println(JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect));
        }
        // Some clients leave threads behind that are no daemons.
        System.exit(0);
    }

    private static Object answer(JSONObject question) throws Exception {
        Kind<?> kind = Kind.of(question.getString("kind"));
        switch (question.getString("op")) {
            case "load":
                return Stores.load(kind, question);
            case "store":
                return Stores.store(kind, question);
            default:
                throw new IllegalArgumentException("op " + question.getString("op"));
        }
    }
}
