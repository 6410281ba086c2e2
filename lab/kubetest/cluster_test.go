package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// patience limits every wait for the cluster. The machine may be busy.
const patience = 8 * time.Minute

// cluster is a slotwise cluster in its namespace.
type cluster struct {
	t         *testing.T
	dir       string // of this test
	slotwise  string // the program, in dir
	namespace string
	shared    string // a directory of this machine, mounted at /shared in master and workers
}

// needCluster skips the test without a cluster.
func needCluster(t *testing.T) {
	t.Helper()
	if os.Getenv("SLOTWISE_KUBECONFIG") == "" || os.Getenv("SLOTWISE_KUBE_IMAGE") == "" {
		t.Skip("SLOTWISE_KUBECONFIG and SLOTWISE_KUBE_IMAGE name no cluster")
	}
}

// prepare builds slotwise and makes a namespace with volumes. They are directories of this
// machine, since a test cluster may have no storage class. The test's end removes all.
func prepare(t *testing.T, namespace string) *cluster {
	t.Helper()
	needCluster(t)
	dir := t.TempDir()
	c := &cluster{t: t, dir: dir, slotwise: filepath.Join(dir, "slotwise"), namespace: namespace, shared: filepath.Join(dir, "shared")}
	data := filepath.Join(dir, "data")
	for _, d := range []string{c.shared, data} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		// The pods have another user, and the directories above are this test's.
		for _, p := range []string{d, dir, filepath.Dir(dir)} {
			if err := os.Chmod(p, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := harness.Build(t.Context(), c.slotwise); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods,deployments,statefulsets,events", "-o", "wide"}, {"logs", "slotwise-master-0", "--tail=60"}} {
				out, _ := c.kubectl(args...)
				t.Logf("kubectl %v:\n%s", args, out)
			}
		}
		c.kubectl("delete", "namespace", namespace, "--wait=true", "--timeout=180s")
		c.kubectl("delete", "clusterrole,clusterrolebinding", "slotwise-tokens-"+namespace, "--ignore-not-found")
		c.kubectl("delete", "pv", namespace+"-data", namespace+"-shared", "--wait=false")
	})
	c.apply(volumes(namespace, data, c.shared))
	return c
}

// smallPods are the flags of a manifest whose pods find room on a small node.
var smallPods = []string{"--slots", "2", "--cpu", "100m", "--memory", "512Mi", "--scratch", "50Mi", "--storage", "1Gi"}

// start applies objects of the namespace and the manifest with the given flags, and waits for
// the master.
func start(t *testing.T, namespace, objects string, flags ...string) *cluster {
	t.Helper()
	c := prepare(t, namespace)
	c.apply(objects + "---\n" + c.manifest(os.Getenv("SLOTWISE_KUBE_IMAGE"), flags...))
	c.awaitMaster()
	return c
}

// manifest returns the manifest of an image with the given flags, with less time to wait
// for than users have.
func (c *cluster) manifest(image string, flags ...string) string {
	c.t.Helper()
	args := slices.Concat([]string{
		"kubernetes", "manifest", "--image", image, "--credentials", filepath.Join(c.dir, "creds"), "--namespace", c.namespace,
		"--shared-claim", "shared", "--drain-timeout", "30s", "--serve-timeout", "30s",
	}, smallPods, flags)
	manifest, err := exec.Command(c.slotwise, args...).Output()
	if err != nil {
		c.t.Fatalf("slotwise %v: %v", args, err)
	}
	// A test has no minute to wait for each smaller number of workers.
	text := strings.Replace(string(manifest), ",max=4", ",max=4,cool-down=5s,start-up=1s", 1)
	// The processor limit would make 100m of the workers' start slow.
	return strings.ReplaceAll(text, `limits: {cpu: "100m", `, `limits: {`)
}

// awaitMaster waits until the master is ready.
func (c *cluster) awaitMaster() {
	c.t.Helper()
	c.await("the master is ready", func() bool {
		out, err := c.kubectl("get", "pod", "slotwise-master-0", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return err == nil && out == "True"
	})
}

// volumes returns the namespace's volumes as YAML.
func volumes(namespace, data, shared string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: %[1]s, name: data-slotwise-master-0}
  hostPath: {path: %[2]s}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-shared}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  claimRef: {namespace: %[1]s, name: shared}
  hostPath: {path: %[3]s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared, namespace: %[1]s}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: %[1]s-shared
  resources: {requests: {storage: 1Gi}}
`, namespace, data, shared)
}

// kubectl runs kubectl in the namespace and returns its standard output.
func (c *cluster) kubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", os.Getenv("SLOTWISE_KUBECONFIG"), "-n", c.namespace}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// must runs kubectl and fails the test if it fails.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.kubectl(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// apply applies objects. Unknown fields are errors.
func (c *cluster) apply(objects string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("apply", "--validate=strict", "-f", file)
}

// exec runs a slotwise command in the master's pod, with the admin's certificate.
func (c *cluster) exec(args ...string) (string, error) {
	return c.kubectl(append([]string{"exec", "slotwise-master-0", "--", "slotwise"}, args...)...)
}

// await polls until a condition holds.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("gave up waiting: %s", what)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// submit submits a job and returns its id.
func (c *cluster) submit(args ...string) string {
	c.t.Helper()
	out, err := c.exec(append([]string{"submit", "-q"}, args...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// status holds the fields of a job that the tests read.
type status struct {
	State string `json:"state"`
	Maps  counts `json:"maps"`
	Last  string `json:"last_error"`
}

// counts are the tasks of a kind.
type counts struct{ Total, Pending, Running, Done, Failed int }

// job returns a job's status, and false while the master does not answer.
func (c *cluster) job(id string) (status, bool) {
	var s status
	out, err := c.exec("job", id, "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &s) != nil {
		return s, false
	}
	return s, true
}

// task holds the fields of a task that the tests read.
type task struct {
	Attempts []struct {
		ID, Node  string
		StartedMs int64 `json:"started_ms"`
		EndedMs   int64 `json:"ended_ms"`
	}
}

// tasks returns the tasks of a job, which has at least one.
func (c *cluster) tasks(id string) (list []task) {
	c.t.Helper()
	out, err := c.exec("tasks", id, "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) == 0 || len(list[0].Attempts) == 0 {
		c.t.Fatalf("tasks of %s: %v: %s", id, err, out)
	}
	return list
}

// awaitEnd waits until a job has succeeded and fails the test if it ends otherwise.
func (c *cluster) awaitEnd(id string) status {
	c.t.Helper()
	var s status
	c.await("job "+id+" ends", func() bool {
		var ok bool
		s, ok = c.job(id)
		return ok && s.State != "waiting" && s.State != "running" && s.State != "committing"
	})
	if s.State != "succeeded" {
		c.t.Fatalf("job %s: %+v", id, s)
	}
	return s
}

// pods returns the names of the worker pods that are not being deleted.
func (c *cluster) pods() (names []string) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name    string `json:"name"`
				Deleted string `json:"deletionTimestamp"`
			} `json:"metadata"`
		} `json:"items"`
	}
	out, err := c.kubectl("get", "pods", "-l", "app.kubernetes.io/component=worker", "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		return nil
	}
	for _, p := range list.Items {
		if p.Metadata.Deleted == "" {
			names = append(names, p.Metadata.Name)
		}
	}
	return names
}

// killAWorker sends SIGKILL to the worker of some pod. A pod that was made a moment ago has no
// process yet, so it looks for one that has.
func (c *cluster) killAWorker() {
	c.t.Helper()
	c.await("a worker is killed", func() bool { return slices.ContainsFunc(c.pods(), c.killed) })
}

// killed sends SIGKILL to the worker of a pod and reports whether it ran.
func (c *cluster) killed(pod string) bool {
	p := c.find("\x00worker\x00", "\x00--name="+pod+"\x00")
	return p != nil && p.Kill() == nil
}

// process returns the process of the cluster whose command line contains all of parts. It is
// visible on this machine, because the cluster runs on it.
func (c *cluster) process(parts ...string) *os.Process {
	c.t.Helper()
	p := c.find(parts...)
	if p == nil {
		c.t.Fatalf("no process has %q in its command line", parts)
	}
	return p
}

// find is process, and returns nil if there is no such process.
func (c *cluster) find(parts ...string) *os.Process {
	c.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || slices.ContainsFunc(parts, func(p string) bool { return !bytes.Contains(text, []byte(p)) }) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err != nil {
			c.t.Fatal(err)
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			c.t.Fatal(err)
		}
		return p
	}
	return nil
}
