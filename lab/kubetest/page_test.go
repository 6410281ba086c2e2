package kubetest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestPage runs the commands of docs/kubernetes.md, from a cluster to a result on S3. Only
// the image, the bucket, the port and the size of the pods are the test's.
func TestPage(t *testing.T) {
	needCluster(t)
	host := os.Getenv("SLOTWISE_KUBE_HOST")
	if host == "" {
		t.Skip("SLOTWISE_KUBE_HOST is not the address at which pods reach this machine")
	}
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	s3 := serverstest.NewS3(t, host)
	c := prepare(t, "slotwise")
	want := c.words(20)
	vars := filepath.Join(c.dir, "s3.env")
	if err := os.WriteFile(vars, []byte(strings.Join(s3.Env(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := func(line string) string {
		t.Helper()
		cmd := c.shell(line)
		cmd.Env = append(cmd.Env, s3.Env()...)
		return output(t, cmd)
	}
	local("slotwise hadoop fs -put shared/in s3://test/logs")

	// prepare has made the namespace with its volumes.
	documented(t, page, "kubectl create namespace slotwise")
	for _, prefix := range []string{
		"kubectl -n slotwise create secret generic s3", "slotwise kubernetes manifest --image registry", "kubectl apply -f",
	} {
		line := documented(t, page, prefix)
		line = strings.Replace(line, "registry.example.org/slotwise:1", os.Getenv("SLOTWISE_KUBE_IMAGE")+" "+strings.Join(smallPods, " "), 1)
		output(t, c.shell(line))
	}
	c.awaitMaster()
	line := documented(t, page, "kubectl -n slotwise exec slotwise-master-0 -- slotwise submit")
	output(t, c.shell(strings.ReplaceAll(line, "s3://bucket/", s3.URI(""))))
	if got := sorted(local("slotwise hadoop fs -cat 's3://test/counts/part-*'")); got != want {
		t.Errorf("%d bytes of result differ from the %d of a run in one process", len(got), len(want))
	}

	port := freePort(t)
	line = documented(t, page, "kubectl -n slotwise port-forward")
	forward := c.shell("exec " + strings.Replace(strings.TrimSuffix(line, " &"), " 7077", fmt.Sprintf(" %d:7077", port), 1))
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = forward.Process.Kill()
		_ = forward.Wait() // the exit status of a killed process
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it forwards now
		t.Fatal(err)
	}
	line = documented(t, page, "slotwise jobs --master")
	if jobs := output(t, c.shell(strings.Replace(line, ":7077", fmt.Sprintf(":%d", port), 1))); !strings.HasPrefix(jobs, "JOB ") {
		t.Errorf("slotwise jobs printed\n%s", jobs)
	}
}

// documented returns the only command of a page that begins with prefix.
func documented(t *testing.T, page, prefix string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "    "+prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	if len(found) != 1 {
		t.Fatalf("the page has %d commands %q", len(found), prefix)
	}
	return found[0]
}

// shell returns a command that runs a line in the directory of the test.
func (c *cluster) shell(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv("SLOTWISE_KUBECONFIG"), "PATH="+c.dir+":"+os.Getenv("PATH"))
	return cmd
}

// output runs a command and returns its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

// freePort returns a port of this machine that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
