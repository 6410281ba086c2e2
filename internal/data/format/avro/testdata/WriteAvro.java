import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.file.*;
import org.apache.avro.generic.*;

/** Writes the Avro files of the tests of package avro, and its records as JSON lines. */
public class WriteAvro {
  static final String SCHEMA = "{\"type\":\"record\",\"name\":\"R\",\"fields\":["
      + "{\"name\":\"id\",\"type\":\"long\"},"
      + "{\"name\":\"name\",\"type\":[\"null\",\"string\"]},"
      + "{\"name\":\"x\",\"type\":\"double\"},"
      + "{\"name\":\"ok\",\"type\":\"boolean\"},"
      + "{\"name\":\"kind\",\"type\":{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\",\"B\"]}},"
      + "{\"name\":\"tags\",\"type\":{\"type\":\"array\",\"items\":\"string\"}},"
      + "{\"name\":\"m\",\"type\":{\"type\":\"map\",\"values\":\"int\"}},"
      + "{\"name\":\"sub\",\"type\":[\"null\",{\"type\":\"record\",\"name\":\"S\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}]}]}";

  public static void main(String[] args) throws Exception {
    Schema schema = new Schema.Parser().parse(SCHEMA);
    List<GenericRecord> all = new ArrayList<>();
    for (int i = 0; i < 300; i++) {
      GenericRecord r = new GenericData.Record(schema);
      r.put("id", (long) i * i * 1000);
      r.put("name", i % 7 == 0 ? null : "na\tme \\ " + i + " \u00e4");
      r.put("x", i / 4.0);
      r.put("ok", i % 2 == 0);
      r.put("kind", new GenericData.EnumSymbol(schema.getField("kind").schema(), i % 3 == 0 ? "A" : "B"));
      r.put("tags", i % 4 == 0 ? List.of() : List.of("t" + i, "u"));
      r.put("m", i % 5 == 0 ? Map.of() : Map.of("k", i));
      GenericRecord s = null;
      if (i % 6 != 0) {
        s = new GenericData.Record(schema.getField("sub").schema().getTypes().get(1));
        s.put("a", i);
      }
      r.put("sub", s);
      all.add(r);
    }
    try (PrintWriter out = new PrintWriter("rows.jsonl", "UTF-8")) {
      for (GenericRecord r : all) out.println(r);
    }
    for (String codec : new String[] {"null", "deflate", "snappy"}) {
      try (DataFileWriter<GenericRecord> w = new DataFileWriter<>(new GenericDatumWriter<>(schema))) {
        w.setCodec(CodecFactory.fromString(codec)).setSyncInterval(1000).create(schema, new File(codec + ".avro"));
        for (GenericRecord r : all) w.append(r);
      }
    }
  }
}
