package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestHadoopConfiguration runs commands on a real HDFS that only the files in
// HADOOP_CONF_DIR name: core-site.xml by an address, and by a name service whose first
// NameNode does not answer. Paths without a scheme lead to that HDFS in Hadoop's commands.
func TestHadoopConfiguration(t *testing.T) {
	t.Parallel()
	c := serverstest.HDFS(t)
	web := strings.TrimPrefix(c.HTTP, "http://")
	for _, conf := range []struct {
		name, nameNode string
		core, hdfs     map[string]string
	}{
		{
			"address", c.Address,
			map[string]string{"fs.defaultFS": "hdfs://" + c.Address},
			map[string]string{"dfs.namenode.rpc-address": c.Address, "dfs.namenode.http-address": web},
		},
		{
			"nameservice", "big",
			map[string]string{"fs.defaultFS": "hdfs://big"},
			map[string]string{
				"dfs.nameservices": "big", "dfs.ha.namenodes.big": "first,second",
				"dfs.namenode.rpc-address.big.first": "127.0.0.1:1", "dfs.namenode.http-address.big.first": "127.0.0.1:1",
				"dfs.namenode.rpc-address.big.second": c.Address, "dfs.namenode.http-address.big.second": web,
				"dfs.client.failover.proxy.provider.big": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
			},
		},
	} {
		t.Run(conf.name, func(t *testing.T) {
			t.Parallel()
			dir, base := t.TempDir(), "/conf-"+storage.NewToken()
			writeConfiguration(t, filepath.Join(dir, "conf", "core-site.xml"), conf.core)
			writeConfiguration(t, filepath.Join(dir, "conf", "hdfs-site.xml"), conf.hdfs)
			if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte("to be or\nnot to be\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				t.Helper()
				var stderr strings.Builder
				cmd := exec.Command("slotwise", args...)
				cmd.Dir, cmd.Stderr = dir, &stderr
				cmd.Env = append(append(os.Environ(), c.Env()...), "HADOOP_CONF_DIR="+filepath.Join(dir, "conf"), "SLOTWISE_MASTER=")
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("slotwise %v: %v\n%s", args, err, stderr.String())
				}
				return string(out)
			}
			run("hadoop", "fs", "-mkdir", "-p", base+"/in")
			t.Cleanup(func() { run("hadoop", "fs", "-rm", "-r", "-skipTrash", base) })
			run("hadoop", "fs", "-put", "in.txt", base+"/in")
			run("hadoop", "jar", "hadoop-streaming.jar", "-input", base+"/in", "-output", base+"/lines", "-mapper", "cat", "-reducer", "uniq")
			want := "not to be\t\nto be or\t\n"
			for _, path := range []string{base + "/lines/part-00000", "hdfs://" + base + "/lines/part-00000", "hdfs://" + conf.nameNode + base + "/lines/part-00000"} {
				if got := run("hadoop", "fs", "-cat", path); got != want {
					t.Errorf("-cat %s: %q", path, got)
				}
			}
			run("run", "wordcount", "hdfs://"+base+"/in", "--output", "hdfs://"+conf.nameNode+base+"/words", "--reduces", "1", "--quiet")
			if got := run("hadoop", "fs", "-cat", base+"/words/part-r-00000"); got != "be\t2\nnot\t1\nor\t1\nto\t2\n" {
				t.Errorf("the words are %q", got)
			}
			if _, err := os.Stat(base); err == nil {
				t.Errorf("%s exists on this machine", base)
			}
		})
	}
}

// writeConfiguration writes properties as a file of Hadoop's configuration.
func writeConfiguration(t *testing.T, path string, properties map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for name, value := range properties {
		fmt.Fprintf(&b, "<property><name>%s</name><value>%s</value></property>\n", name, value)
	}
	b.WriteString("</configuration>\n")
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}
