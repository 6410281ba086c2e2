package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestHadoopStatus compares what ls, stat and du say of files on a real HDFS with Hadoop's
// own commands: permissions, owners, groups, replication, sizes of blocks.
func TestHadoopStatus(t *testing.T) {
	t.Parallel()
	c := serverstest.HDFS(t)
	base := "/status-" + storage.NewToken()
	env := append(append(os.Environ(), c.Env()...), "HADOOP_CONF_DIR="+c.ConfDir)
	run := func(argv ...string) string {
		t.Helper()
		var stderr strings.Builder
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stderr, cmd.Env, cmd.Stdin = &stderr, env, strings.NewReader("to be or not to be\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, stderr.String())
		}
		return string(out)
	}
	t.Cleanup(func() { run("slotwise", "hadoop", "fs", "-rm", "-r", "-skipTrash", base) })
	run("slotwise", "hadoop", "fs", "-mkdir", "-p", base+"/shared", base+"/other", base+"/sealed")
	run("slotwise", "hadoop", "fs", "-put", "-", base+"/other/plain")
	run("slotwise", "hadoop", "fs", "-Ddfs.blocksize=2097152", "-Ddfs.replication=1", "-put", "-", base+"/shared/blocks")

	client, err := hdfs.NewClient(hdfs.ClientOptions{Addresses: []string{c.Address}, User: strings.TrimPrefix(c.Env()[1], "HADOOP_USER_NAME=")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, err := range []error{
		client.Chown(base+"/shared/blocks", "ann", "staff-of-the-year"),
		client.Chmod(base+"/shared/blocks", 0o640),
		client.Chmod(base+"/shared", 0o1777),
		client.Chmod(base+"/sealed", 0o1770),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-ls", "-R", base},
		{"-stat", "%b %F %g %n %o %r %u %y %Y", base + "/shared", base + "/shared/blocks", base + "/other/plain"},
		{"-du", base},
	} {
		ours := run(append([]string{"slotwise", "hadoop", "fs"}, args...)...)
		theirs := run(append(append(c.JVM(), "org.apache.hadoop.fs.FsShell"), args...)...)
		if ours != theirs {
			t.Errorf("%v:\n%s\nof Hadoop:\n%s", args, ours, theirs)
		}
		if !strings.Contains(ours, "shared") {
			t.Errorf("%v:\n%s", args, ours)
		}
	}
}

// The last setting of a name wins: of two -conf files the second one, and -D over both, as in Hadoop's
// Configuration.
func TestGivenSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var g hadoop.Generic
	for _, name := range []string{"first", "second"} {
		file := filepath.Join(dir, name+".xml")
		text := "<configuration><property><name>from</name><value>" + name + "</value></property></configuration>"
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		g.ConfFile = append(g.ConfFile, file)
	}
	for _, want := range []string{"second", "option"} {
		settings, err := givenSettings(g)
		if err != nil {
			t.Fatal(err)
		}
		conf := hadoop.Conf{}
		for _, s := range settings {
			conf.Set(s.Name, s.Value)
		}
		if got := conf.Get("from", ""); got != want {
			t.Errorf("%q wins, want %q", got, want)
		}
		g.Settings = []hadoop.Setting{{Name: "from", Value: "option"}}
	}
}

// A directory of another storage is not shipped from the directory of this machine that has its name.
func TestShippedDirectoryIsLocal(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("bucket/jars", 0o777); err != nil {
		t.Fatal(err)
	}
	remote := struct{ storage.FS }{}
	if err := copyDirectory(&location{fs: remote, path: "bucket/jars"}, filepath.Join(dir, "to")); err == nil {
		t.Error("the local directory was shipped")
	}
	if err := copyDirectory(&location{fs: storage.Local{}, path: "bucket/jars"}, filepath.Join(dir, "to")); err != nil {
		t.Error(err)
	}
}
