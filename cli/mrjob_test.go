package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mrjobVariable names the Python program that has mrjob; default python3.
const mrjobVariable = "SLOTWISE_MRJOB"

// mrjobExample is an example of mrjob's own.
type mrjobExample struct {
	name      string
	args      []string // before the input
	input     string
	reference string // the runner whose output is the right one; inline if empty
	bases     bool   // compare the base names of paths only
	slow      bool   // run only if SLOTWISE_MRJOB_ALL is set, because an example takes seconds
}

// mrjobExamples are the examples of mrjob 0.7.4 that need no Spark and are not meant to
// fail. Two runs pass shell commands. The runner inline cannot run shell commands; the
// runner local can.
var mrjobExamples = []mrjobExample{
	{name: "mr_word_freq_count", slow: true},
	{name: "mr_most_used_word", slow: true},
	{name: "mr_next_word_stats"},
	{name: "mr_words_containing_u_freq_count", reference: "local"},
	{name: "mr_grep", args: []string{"-e", "the"}, reference: "local", slow: true},
	{name: "mr_count_lines_right", slow: true},
	{name: "mr_count_lines_by_file", bases: true, slow: true},
	{name: "mr_wc", slow: true},
	{name: "mr_log_sampler", args: []string{"--sample-size", "10", "--expected-length", "4"}},
	{name: "mr_phone_to_url", input: mrjobWET},
}

const mrjobText = "the cat sat on the mat\nuh oh you unicorn\nthe end of the line\nand the caf\u00e9 was shut\n"

// mrjobWET is a file of a web crawl with a phone number in it.
const mrjobWET = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://example.com/a\r\nContent-Type: text/plain\r\nContent-Length: 31\r\n\r\n" +
	"Call us now: 1-415-555-1234 ok\n\r\n\r\n"

// TestMrjob runs mrjob's own examples by its runner for Hadoop, with this program in the
// place of the hadoop command, and compares the output with the output of mrjob's own
// runner: jobs of several steps, combiners, sorted values, uploaded files, filters, and
// tasks that read manifests.
func TestMrjob(t *testing.T) {
	t.Parallel()
	m := newMrjob(t)
	for _, e := range mrjobExamples {
		if e.slow && !allMrjob {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			m.compare(t, e, nil)
		})
	}
}

// allMrjob runs all examples, which takes minutes.
var allMrjob = os.Getenv("SLOTWISE_MRJOB_ALL") != ""

// TestMrjobOnCluster runs one of the examples on a cluster, or all.
func TestMrjobOnCluster(t *testing.T) {
	t.Parallel()
	m := newMrjob(t)
	c := newTestCluster(t)
	c.StartWorker("w1")
	for _, e := range mrjobExamples {
		if e.name == "mr_phone_to_url" || allMrjob {
			m.compare(t, e, []string{"SLOTWISE_MASTER=" + c.URL})
		}
	}
}

// mrjobRig is a Python with mrjob, and a HADOOP_HOME whose program is this one.
type mrjobRig struct{ python, examples, home, dir string }

// newMrjob returns a rig, or skips the test if there is no mrjob.
func newMrjob(t *testing.T) *mrjobRig {
	t.Helper()
	m := &mrjobRig{python: os.Getenv(mrjobVariable), dir: t.TempDir()}
	if m.python == "" {
		m.python = "python3"
	}
	out, err := exec.Command(m.python, "-c", "import mrjob.examples, warcio; print(mrjob.examples.__path__[0])").Output()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s cannot import mrjob: %v", m.python, err)
	default:
		t.Skipf("%s cannot import mrjob; set %s to a Python that can", m.python, mrjobVariable)
	}
	m.examples = strings.TrimSpace(string(out))
	m.home = makeHadoop(t, m.dir)
	return m
}

// makeHadoop links this program, makes a HADOOP_HOME around the link with the command of
// docs/coming-from-hadoop.md, and returns that directory, which is below dir.
func makeHadoop(t *testing.T, dir string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/coming-from-hadoop.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\nhome=")
	command, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("the page has no command that makes a HADOOP_HOME")
	}
	bin := filepath.Join(dir, "bin")
	linkProgram(t, bin)
	c := exec.Command("/bin/sh", "-ec", "home="+command)
	c.Env = append(os.Environ(), "HOME="+dir, "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return filepath.Join(dir, "slotwise-hadoop")
}

// TestMrjobFromPackage runs an example with the variables that docs/coming-from-hadoop.md names for
// packages: the program in the PATH as hadoop, and the empty jar in a package's directory.
func TestMrjobFromPackage(t *testing.T) {
	t.Parallel()
	m := newMrjob(t)
	share := filepath.Join(m.dir, "usr", "share", "hadoop")
	if err := os.MkdirAll(filepath.Join(share, "tools"), 0o777); err != nil {
		t.Fatal(err)
	}
	// The jar moves there, so that mrjob cannot find it beside the program.
	if err := os.Rename(filepath.Join(m.home, "share", "hadoop", "tools", "lib"), filepath.Join(share, "tools", "lib")); err != nil {
		t.Fatal(err)
	}
	env := []string{"HADOOP_MAPRED_HOME=" + share, "PATH=" + filepath.Join(m.home, "bin") + ":" + filepath.Dir(m.python) + ":" + os.Getenv("PATH")}
	m.home = ""
	m.compare(t, mrjobExamples[2], env)
}

// run runs an example and returns its output and its standard error.
func (m *mrjobRig) run(t *testing.T, e mrjobExample, dir string, env []string, args ...string) ([]byte, string) {
	t.Helper()
	c := exec.Command(m.python, append([]string{filepath.Join(m.examples, e.name+".py")}, args...)...)
	var stderr bytes.Buffer
	c.Dir, c.Stderr = dir, &stderr
	c.Env = append(os.Environ(), "SLOTWISE_HDFS_DIR="+filepath.Join(m.dir, "hdfs"), "SLOTWISE_MASTER=", "HADOOP_CONF_DIR=", "HADOOP_HOME="+m.home,
		"PATH="+filepath.Dir(m.python)+":"+os.Getenv("PATH"), "PYTHONIOENCODING=utf-8", "MRJOB_CONF=/dev/null")
	c.Env = append(c.Env, env...)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", e.name, args, err, stderr.String())
	}
	return out, stderr.String()
}

// compare runs an example by the runner hadoop and by its reference.
func (m *mrjobRig) compare(t *testing.T, e mrjobExample, env []string) {
	t.Helper()
	dir := t.TempDir()
	input := e.input
	if input == "" {
		input = mrjobText
	}
	if err := os.WriteFile(filepath.Join(dir, "input.txt"), []byte(input), 0o666); err != nil {
		t.Fatal(err)
	}
	reference := e.reference
	if reference == "" {
		reference = "inline"
	}
	args := append(slices.Clone(e.args), "input.txt")
	want, _ := m.run(t, e, dir, nil, append([]string{"-r", reference}, args...)...)
	got, log := m.run(t, e, dir, env, append([]string{"-r", "hadoop", "--python-bin", m.python}, args...)...)
	if w, g := e.normal(want), e.normal(got); w != g || g == "" {
		t.Errorf("%s by the runner hadoop:\n%s\nby the runner %s:\n%s\n%s", e.name, g, reference, w, log)
	}
	if !strings.Contains(log, "Map input records=") {
		t.Errorf("%s: mrjob has found no counters:\n%s", e.name, log)
	}
}

// normal returns output with what may differ removed: the order of lines and of the names
// in an object, and the TAB that Hadoop writes after a line without a value.
func (e *mrjobExample) normal(out []byte) string {
	var lines []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimRight(line, "\t\n"), "\t")
		for i, f := range fields {
			var v any
			if json.Unmarshal([]byte(f), &v) != nil {
				continue
			}
			if path, ok := v.(string); ok && e.bases {
				v = path[strings.LastIndex(path, "/")+1:]
			}
			if text, err := json.Marshal(v); err == nil {
				fields[i] = string(text)
			}
		}
		lines = append(lines, strings.Join(fields, "\t"))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
