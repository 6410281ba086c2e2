package kubetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestStorage counts words of an S3 server and of an HDFS, which pods reach over the
// network. The access keys come from a Secret and must show up nowhere else.
func TestStorage(t *testing.T) {
	needCluster(t)
	host := os.Getenv("SLOTWISE_KUBE_HOST")
	if host == "" {
		t.Skip("SLOTWISE_KUBE_HOST is not the address at which pods reach this machine")
	}
	s3, hdfs := serverstest.NewS3(t, host), serverstest.NewHDFSAt(t, host)
	env := append(s3.Env(), "HADOOP_USER_NAME=tester", "SLOTWISE_HDFS_HTTP="+hdfs.HTTP)
	c := start(t, "slotwise-storage", secret("slotwise-storage", "storage", env), "--workers", "2", "--storage-secret", "storage")
	want := c.words(20)
	local := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(c.slotwise, args...)
		cmd.Env = append(os.Environ(), env...)
		return output(t, cmd)
	}
	for name, uri := range map[string]func(string) string{
		"S3":   func(dir string) string { return s3.URI(dir) },
		"HDFS": func(dir string) string { return hdfs.URI("/" + dir) },
	} {
		t.Run(name, func(t *testing.T) {
			local("hadoop", "fs", "-put", filepath.Join(c.shared, "in"), uri("in"))
			c.awaitEnd(c.submit("wordcount", uri("in"), "--output", uri("out"), "--reduces", "3"))
			if got := sorted(local("hadoop", "fs", "-cat", uri("out")+"/part-*")); got != want {
				t.Errorf("%d bytes of result differ from the %d of a run in one process", len(got), len(want))
			}
		})
	}
	t.Run("secrets", func(t *testing.T) { c.secrets(s3.Secret) })
}

// sorted returns the lines of a text in order.
func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// secret returns a Secret of variables as JSON, which is YAML too.
func secret(namespace, name string, env []string) string {
	values := map[string]string{}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		values[k] = v
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"namespace": namespace, "name": name}, "stringData": values,
	})
	if err != nil {
		panic(err) // strings only
	}
	return "---\n" + string(text) + "\n"
}

// secrets fails the test if a secret is in an object other than the Secret, in a log, or in
// the arguments of a process.
func (c *cluster) secrets(secret string) {
	c.t.Helper()
	seen := map[string]string{"objects": c.must("get", "pods,statefulsets,deployments,configmaps,events", "-o", "yaml")}
	for _, pod := range append(c.pods(), "slotwise-master-0") {
		seen["the log of "+pod] = c.must("logs", pod, "--all-containers")
	}
	args, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range args {
		if text, err := os.ReadFile(f); err == nil { // the process may have ended
			seen[fmt.Sprintf("%s (%.60q)", f, text)] = string(text)
		}
	}
	for where, text := range seen {
		if strings.Contains(text, secret) {
			c.t.Errorf("%s shows the secret key", where)
		}
	}
}
