import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.util.ToolRunner;

/**
 * Runs commands of Hadoop's hadoop fs in one process, for TestHadoopFSRealClient. Each line of the input is a command,
 * with tabs between its arguments. For each the output has the status, a tab, and the first line that the command has
 * printed on standard error.
 */
public class FsShells {
  public static void main(String[] args) throws Exception {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    PrintStream results = System.out;
    for (String line; (line = commands.readLine()) != null; ) {
      ByteArrayOutputStream errors = new ByteArrayOutputStream();
      System.setOut(new PrintStream(new ByteArrayOutputStream()));
      System.setErr(new PrintStream(errors, true));
      System.setIn(new ByteArrayInputStream("typed\n".getBytes()));
      int status = ToolRunner.run(new Configuration(), new FsShell(), line.split("\t", -1)) & 255;
      results.println(status + "\t" + errors.toString().lines().filter(l -> !l.contains("DEPRECATED") && !l.contains(" WARN ")).findFirst().orElse(""));
    }
  }
}
