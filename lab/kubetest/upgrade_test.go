package kubetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpgrade upgrades a cluster with the commands of docs/kubernetes.md while a job runs.
// Both images hold the same program, so the test checks the commands and their order.
// TestUpgrade of package deploy lets two versions meet.
func TestUpgrade(t *testing.T) {
	needCluster(t)
	if testing.Short() {
		t.Skip("CI has no time for it")
	}
	tool, node := os.Getenv("SLOTWISE_KUBE_TOOL"), os.Getenv("SLOTWISE_KUBE_NODE")
	if tool == "" || node == "" {
		t.Skip("SLOTWISE_KUBE_TOOL and SLOTWISE_KUBE_NODE name no node that takes images")
	}
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	const next = "localhost/slotwise:next"
	c := start(t, "slotwise", "", "--workers", "2")
	want := c.words(20)
	archive := filepath.Join(c.dir, "next.tar")
	build := exec.Command("go", "run", "./deploy/image", "--tag", next, "--output", archive)
	build.Dir = "../.."
	output(t, build)
	output(t, exec.Command(tool, "image", node, archive))

	id := c.submit("sleep", "--output", "/shared/slept", "--param", "maps=60x3s")
	c.await("a task has ended", func() bool {
		s, ok := c.job(id)
		return ok && s.Maps.Done > 0
	})
	for _, prefix := range []string{"kubectl -n slotwise set image statefulset/slotwise-master", "kubectl -n slotwise rollout status"} {
		line := documented(t, string(text), prefix)
		output(t, c.shell(strings.Replace(line, "registry.example.org/slotwise:2", next, 1)))
	}
	images := func(component string) string {
		t.Helper()
		return c.must("get", "pods", "-l", "app.kubernetes.io/component="+component, "-o", "jsonpath={.items[*].spec.containers[0].image}")
	}
	if master, workers := images("master"), images("worker"); master != next || strings.Contains(workers, next) {
		t.Errorf("after the master's upgrade it has image %s, and the workers have %s", master, workers)
	}
	if s, ok := c.job(id); !ok || s.State != "running" {
		t.Errorf("the job does not run through the master's upgrade: %+v", s)
	}
	c.apply(c.manifest(next, "--workers", "2"))
	c.must("rollout", "status", "deployment/slotwise-worker", "--timeout=180s")
	if s := c.awaitEnd(id); s.Maps.Failed > 0 {
		t.Errorf("%+v", s)
	}
	c.await("the workers have the new image only", func() bool { return images("worker") == next+" "+next })
	c.awaitEnd(c.submit("wordcount", "/shared/in", "--output", "/shared/counted"))
	if got := result(t, filepath.Join(c.shared, "counted")); got != want {
		t.Errorf("%d bytes of result differ from the %d of a run in one process", len(got), len(want))
	}
}
