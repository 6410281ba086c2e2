package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// luigiVariable names the Python program that has luigi; default python3.
const luigiVariable = "SLOTWISE_LUIGI"

// luigiJob counts words with luigi's tasks for Hadoop.
const luigiJob = `import luigi
from luigi.contrib.hadoop import JobTask
from luigi.contrib.hdfs import HdfsTarget


class Text(luigi.ExternalTask):
    path = luigi.Parameter()

    def output(self):
        return HdfsTarget(self.path)


class WordCount(JobTask):
    source = luigi.Parameter()
    target = luigi.Parameter()
    n_reduce_tasks = 2

    def requires(self):
        return Text(self.source)

    def output(self):
        return HdfsTarget(self.target)

    def mapper(self, line):
        for word in line.split():
            yield word, 1

    def reducer(self, word, counts):
        yield word, sum(counts)

    combiner = reducer
`

// TestLuigi runs a job of luigi's tasks for Hadoop, with this program in the place of the
// hadoop command: in one process and on a cluster. luigi looks for the input, submits the
// job with its own packages, and renames the output. A second run has nothing to do.
func TestLuigi(t *testing.T) {
	t.Parallel()
	python := os.Getenv(luigiVariable)
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import luigi.contrib.hadoop").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s cannot import luigi.contrib.hadoop: %v: %s", python, err, out)
		}
		t.Skipf("%s cannot import luigi.contrib.hadoop; set %s to a Python that can", python, luigiVariable)
	}
	dir := t.TempDir()
	hadoop := filepath.Join(makeHadoop(t, dir), "bin", "hadoop")
	for name, text := range map[string]string{
		"wordcount.py": luigiJob,
		"in.txt":       "to be or\nnot to be\n",
		"luigi.cfg":    "[hadoop]\ncommand=" + hadoop + "\nstreaming-jar=hadoop-streaming.jar\npython-executable=" + python + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(master string, args ...string) (stdout, stderr string) {
		t.Helper()
		var log strings.Builder
		c := exec.Command(args[0], args[1:]...)
		c.Dir, c.Stderr = dir, &log
		c.Env = append(os.Environ(), "SLOTWISE_HDFS_DIR="+filepath.Join(dir, "hdfs"), "SLOTWISE_MASTER="+master, "HADOOP_CONF_DIR=", "PYTHONPATH="+dir)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, log.String())
		}
		return string(out), log.String()
	}
	run("", hadoop, "fs", "-mkdir", "-p", "hdfs:///luigi")
	run("", hadoop, "fs", "-put", "in.txt", "hdfs:///luigi/in.txt")
	c := newTestCluster(t)
	c.StartWorker("w1")
	for name, master := range map[string]string{"local": "", "cluster": c.URL} {
		target := "hdfs:///luigi/" + name
		task := []string{
			python, "-m", "luigi", "--module", "wordcount", "WordCount", "--source", "hdfs:///luigi/in.txt",
			"--target", target, "--local-scheduler",
		}
		stdout, stderr := run(master, task...)
		if log := stdout + stderr; !strings.Contains(log, "1 ran successfully") {
			t.Errorf("%s: luigi has not run the task:\n%s", name, log)
		}
		out, _ := run("", hadoop, "fs", "-cat", target+"/part-*")
		lines := slices.Sorted(strings.Lines(out))
		if got := strings.Join(lines, ""); got != "be\t2\nnot\t1\nor\t1\nto\t2\n" {
			t.Errorf("%s: the words are %q", name, got)
		}
		stdout, stderr = run(master, task...)
		if log := stdout + stderr; strings.Contains(log, "ran successfully") {
			t.Errorf("%s: the second run has run the task again:\n%s", name, log)
		}
	}
}
