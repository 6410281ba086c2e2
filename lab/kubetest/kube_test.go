package kubetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKubernetes runs jobs on one cluster while workers and the master come and go.
func TestKubernetes(t *testing.T) {
	began := time.Now()
	c := start(t, "slotwise-test", "", "--workers", "1", "--max-workers", "4", "--service-account", "slotwise-test:etl", "--storage-root", "/shared")
	t.Logf("from apply to a ready master: %v", time.Since(began).Round(time.Millisecond))
	want := c.words(1500)
	count := func(output string) string {
		return c.submit("wordcount", "/shared/in", "--output", "/shared/"+output, "--split-size", "64KiB", "--reduces", "3")
	}
	check := func(t *testing.T, output string) {
		t.Helper()
		if got := result(t, filepath.Join(c.shared, output)); got != want {
			t.Errorf("%s: %d bytes of result differ from the %d of a run in one process", output, len(got), len(want))
		}
	}

	t.Run("scale", func(t *testing.T) {
		id := c.submit("sleep", "--output", "/shared/slept", "--param", "maps=40x3s")
		asked := time.Now()
		c.await("the work has four workers", func() bool { return len(c.pods()) == 4 })
		c.await("four workers have registered", func() bool {
			out, err := c.exec("nodes", "-o", "json")
			return err == nil && strings.Count(out, `"state":"alive"`) == 4
		})
		t.Logf("from demand to four registered workers: %v", time.Since(asked).Round(time.Millisecond))
		if s := c.awaitEnd(id); s.Maps.Failed > 0 {
			t.Errorf("%+v", s)
		}
		c.await("one worker stays", func() bool { return len(c.pods()) == 1 })
	})
	t.Run("shrink with map outputs", func(t *testing.T) {
		if testing.Short() {
			t.Skip("CI has no time for it")
		}
		id := count("grown")
		if s := c.awaitEnd(id); s.Maps.Failed > 0 {
			t.Errorf("%+v", s)
		}
		check(t, "grown")
	})
	half := func(id string) {
		t.Helper()
		c.await("a third of the maps are done", func() bool {
			s, ok := c.job(id)
			if ok && s.State != "running" && s.State != "waiting" {
				t.Fatalf("the job was over too early: %+v", s)
			}
			return ok && s.Maps.Done*3 >= s.Maps.Total
		})
	}
	t.Run("delete a worker's pod", func(t *testing.T) {
		id := count("deleted")
		half(id)
		c.must("delete", "pod", c.pods()[0], "--wait=false")
		c.awaitEnd(id)
		check(t, "deleted")
	})
	t.Run("logs of a deleted pod", func(t *testing.T) { logsOfPod(t, c) })
	t.Run("kill a worker", func(t *testing.T) {
		id := count("killed")
		half(id)
		c.killAWorker()
		c.awaitEnd(id)
		check(t, "killed")
	})
	t.Run("delete the master's pod", func(t *testing.T) {
		id := count("restarted")
		half(id)
		c.must("delete", "pod", "slotwise-master-0", "--wait=true")
		c.awaitEnd(id)
		check(t, "restarted")
	})
	t.Run("stop the kubelet", func(t *testing.T) {
		if os.Getenv("SLOTWISE_KUBE_HOST") == "" {
			t.Skip("the kubelet is not a process of the tests")
		}
		id := count("stopped")
		half(id)
		kubelet := c.process("kubelet\x00--config=etc/kubelet.yaml\x00")
		if err := kubelet.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// After 50 s without the kubelet's status Kubernetes declares the node not ready.
		time.Sleep(time.Minute)
		ready, err := c.kubectl("get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		t.Logf("after a minute the node is ready: %s (%v)", ready, err)
		if err := kubelet.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.awaitEnd(id)
		check(t, "stopped")
		c.must("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
		c.awaitMaster()
	})
	t.Run("service accounts", func(t *testing.T) { accounts(t, c, want) })
	t.Run("rights", func(t *testing.T) { rights(t, c) })
	mistakes(t, c)
}

// logsOfPod reads the log of an attempt after the pod in which it ran was deleted. The image
// has no shell, so the attempt's program is slotwise itself, which refuses its arguments.
func logsOfPod(t *testing.T, c *cluster) {
	const complaint = "no-such-command"
	out, err := c.exec("hadoop", "jar", "hadoop-streaming.jar", "-D", "mapreduce.map.maxattempts=1", "-mapper", "slotwise "+complaint, "-input", "/shared/in/f000", "-output", "/shared/refused")
	if err == nil {
		t.Fatalf("the job succeeded: %s", out)
	}
	var ended []struct{ Job struct{ ID string } }
	out, err = c.exec("history", "--limit", "1", "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &ended) != nil || len(ended) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	tasks := c.tasks(ended[0].Job.ID)
	attempt, pod := tasks[0].Attempts[0].ID, tasks[0].Attempts[0].Node
	// At once: a worker that has time to end drains until the master has its logs.
	workerLog, _ := c.kubectl("logs", pod, "--tail=40")               // goes with the pod
	c.must("delete", "pod", pod, "--wait=true", "--ignore-not-found") // the master may have given it back
	if out, err := c.exec("logs", attempt); err != nil || !strings.Contains(out, complaint) {
		t.Errorf("the log of %s: %v: %s\nthe worker logged:\n%s", attempt, err, out, workerLog)
	}
	if _, err := c.exec("logs", ended[0].Job.ID+"_m_9_0"); err == nil {
		t.Error("an attempt that never ran has a log")
	}
}

// mistakes makes mistakes that keep Kubernetes from making workers. The master's log must name
// the object and the remedy. The last one takes the master's rights away.
func mistakes(t *testing.T, c *cluster) {
	t.Helper()
	t.Run("wrong image", func(t *testing.T) {
		c.must("set", "image", "deployment/slotwise-worker", "worker=localhost/none:1")
		c.await("the master's log names the image and the remedy", func() bool {
			out, err := c.kubectl("logs", "slotwise-master-0")
			return err == nil && strings.Contains(out, "localhost/none:1 does not start") && strings.Contains(out, "slotwise kubernetes manifest --image")
		})
		c.must("rollout", "undo", "deployment/slotwise-worker")
	})
	t.Run("quota", func(t *testing.T) {
		// With the workers of the case before, the job would end without more workers.
		c.await("one worker stays", func() bool { return len(c.pods()) == 1 })
		c.must("create", "quota", "small", "--hard=pods=2")
		id := c.submit("sleep", "--output", "/shared/quota", "--param", "maps=20x1s")
		c.await("the master's log names the quota and the remedy", func() bool {
			out, err := c.kubectl("logs", "slotwise-master-0")
			return err == nil && strings.Contains(out, "exceeded quota: small") && strings.Contains(out, "raise the namespace's ResourceQuota")
		})
		c.awaitEnd(id)
		c.must("delete", "quota", "small")
	})
	t.Run("no permission", func(t *testing.T) {
		c.must("delete", "rolebinding", "slotwise-master")
		c.await("the master's log names the RoleBinding", func() bool {
			out, err := c.kubectl("logs", "slotwise-master-0")
			return err == nil && strings.Contains(out, "is forbidden") && strings.Contains(out, "RoleBinding slotwise-master")
		})
	})
}

// words writes files of words to the shared directory and returns what counting them gives.
func (c *cluster) words(files int) string {
	c.t.Helper()
	in := filepath.Join(c.shared, "in")
	if err := os.Mkdir(in, 0o777); err != nil {
		c.t.Fatal(err)
	}
	for i := range files {
		var b strings.Builder
		for j := range 2000 {
			fmt.Fprintf(&b, "word%d line %d\n", (i*j)%997, j%13)
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%03d", i)), []byte(b.String()), 0o666); err != nil {
			c.t.Fatal(err)
		}
	}
	out := filepath.Join(c.t.TempDir(), "want")
	if text, err := exec.Command(c.slotwise, "run", "wordcount", in, "--output", out, "-q").CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s", err, text)
	}
	return result(c.t, out)
}

// result returns the lines of all part files, sorted.
func result(t *testing.T, dir string) string {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("%s has no part files (%v)", dir, err)
	}
	var lines []string
	for _, p := range parts {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		lines = slices.AppendSeq(lines, strings.Lines(string(text)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// rights compares the rights of the service accounts with the rights that they need.
func rights(t *testing.T, c *cluster) {
	list := func(account string) string {
		return c.must("auth", "can-i", "--list", "--no-headers", "--as=system:serviceaccount:"+c.namespace+":"+account)
	}
	var got []string
	for line := range strings.Lines(list("slotwise-master")) {
		// All accounts may ask what they may do, and read the API's descriptions.
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "self") && !strings.HasPrefix(f[0], "[/") {
			got = append(got, strings.Join(f, " "))
		}
	}
	slices.Sort(got)
	want := []string{
		"deployments.apps [] [slotwise-worker] [get]", "deployments.apps/scale [] [slotwise-worker] [patch]", "pods [] [] [list patch]",
		"tokenreviews.authentication.k8s.io [] [] [create]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the master may:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if out := list("slotwise-worker"); strings.Contains(out, "pods") || strings.Contains(out, "deployments") {
		t.Errorf("workers may:\n%s", out)
	}
}
