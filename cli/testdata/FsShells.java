import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Runs commands of Hadoop's hadoop fs in one process, for TestHadoopFSRealClient. Each line of the input is a command,
 * with tabs between its arguments. For each the output has a line at once: the status, a tab, the first line that the
 * command has printed on standard error, a tab, and standard output with \n for the ends of lines and \t for tabs.
 */
public class FsShells {
  public static void main(String[] args) throws Exception {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    PrintStream results = System.out;
    for (String line; (line = commands.readLine()) != null; ) {
      ByteArrayOutputStream errors = new ByteArrayOutputStream();
      ByteArrayOutputStream output = new ByteArrayOutputStream();
      System.setOut(new PrintStream(output, true));
      System.setErr(new PrintStream(errors, true));
      System.setIn(new ByteArrayInputStream("typed\n".getBytes()));
      Tool tool = line.startsWith("-setSpaceQuota") || line.startsWith("-setQuota") ? new DFSAdmin() : new FsShell();
      int status = ToolRunner.run(new Configuration(), tool, line.split("\t", -1)) & 255;
      String out = "\t" + output.toString().replace("\n", "\\n").replace("\t", "\\t");
      results.println(status + "\t" + errors.toString().lines().filter(l -> !l.contains("DEPRECATED") && !l.contains(" WARN ")).findFirst().orElse("") + out);
      results.flush();
    }
  }
}
