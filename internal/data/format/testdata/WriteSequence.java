import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.*;
import org.apache.hadoop.io.SequenceFile.CompressionType;
import org.apache.hadoop.io.compress.*;
import org.apache.hadoop.util.ReflectionUtils;

/** Writes the SequenceFiles of the tests of package format into the current directory. */
public class WriteSequence {
  static final Configuration conf = new Configuration();

  static Writable value(Class<?> c, int i, Random r) {
    if (c == Text.class) return new Text(i % 5 == 0 ? "" : "line " + i + " \u00e4\t\\ " + "x".repeat(r.nextInt(60)));
    if (c == IntWritable.class) return new IntWritable(r.nextInt());
    if (c == LongWritable.class) return new LongWritable(r.nextLong());
    if (c == VIntWritable.class) return new VIntWritable(r.nextInt() >> r.nextInt(32));
    if (c == VLongWritable.class) return new VLongWritable(r.nextLong() >> r.nextInt(64));
    if (c == ShortWritable.class) return new ShortWritable((short) r.nextInt());
    if (c == ByteWritable.class) return new ByteWritable((byte) r.nextInt());
    if (c == BooleanWritable.class) return new BooleanWritable(i % 2 == 0);
    if (c == FloatWritable.class) return new FloatWritable(Float.intBitsToFloat(r.nextInt()));
    if (c == DoubleWritable.class) return new DoubleWritable(i % 3 == 0 ? i * 1e5 : Double.longBitsToDouble(r.nextLong()));
    if (c == BytesWritable.class) { byte[] b = new byte[i % 9]; r.nextBytes(b); return new BytesWritable(b); }
    return NullWritable.get();
  }

  static void write(String name, Class<?> k, Class<?> v, int n, CompressionType type, CompressionCodec codec) throws Exception {
    Random r = new Random(1);
    conf.setInt("io.seqfile.compress.blocksize", 4000);
    try (SequenceFile.Writer w = SequenceFile.createWriter(conf, SequenceFile.Writer.file(new Path(name)),
        SequenceFile.Writer.keyClass(k), SequenceFile.Writer.valueClass(v), SequenceFile.Writer.compression(type, codec))) {
      for (int i = 0; i < n; i++) {
        w.append(value(k, i, r), value(v, i, r));
      }
    }
  }

  public static void main(String[] a) throws Exception {
    CompressionCodec def = ReflectionUtils.newInstance(DefaultCodec.class, conf);
    CompressionCodec bz = ReflectionUtils.newInstance(BZip2Codec.class, conf);
    CompressionCodec snappy = ReflectionUtils.newInstance(SnappyCodec.class, conf);
    write("snappy.seq", Text.class, Text.class, 300, CompressionType.BLOCK, snappy);
    write("plain.seq", LongWritable.class, Text.class, 400, CompressionType.NONE, null);
    write("record.seq", IntWritable.class, Text.class, 300, CompressionType.RECORD, def);
    write("block.seq", Text.class, DoubleWritable.class, 800, CompressionType.BLOCK, def);
    write("blockbz2.seq", VLongWritable.class, FloatWritable.class, 300, CompressionType.BLOCK, bz);
    write("bytes.seq", NullWritable.class, BytesWritable.class, 100, CompressionType.NONE, null);
    write("vint.seq", VIntWritable.class, BooleanWritable.class, 100, CompressionType.BLOCK, def);
    write("small.seq", ShortWritable.class, ByteWritable.class, 100, CompressionType.RECORD, def);
    write("empty.seq", Text.class, Text.class, 0, CompressionType.BLOCK, def);
  }
}
