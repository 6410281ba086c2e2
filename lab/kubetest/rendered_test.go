package kubetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRendered asks the node's API server whether it would create the objects with which the tests of
// deploy/helm compare what the chart renders. It rejects unknown fields and wrong values, and creates none.
// A ServiceMonitor belongs to Prometheus' operator, which the node lacks.
func TestRendered(t *testing.T) {
	needCluster(t)
	files, err := filepath.Glob("../../deploy/helm/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no rendered objects", err)
	}
	const namespace = "slotwise" // of the objects
	c := &cluster{t: t, namespace: namespace}
	c.must("create", "namespace", namespace)
	t.Cleanup(func() { c.kubectl("delete", "namespace", namespace) })
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var known []string
		for object := range strings.SplitSeq(string(text), "\n---\n") {
			if !strings.Contains(object, "\nkind: ServiceMonitor\n") {
				known = append(known, object)
			}
		}
		objects := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(objects, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if created, err := c.kubectl("create", "--dry-run=server", "--validate=strict", "-f", objects); err != nil {
			t.Error(err)
		} else if n := strings.Count(created, "\n") + 1; n != len(known) {
			t.Errorf("%s: %d of %d objects would be created:\n%s", file, n, len(known), created)
		}
	}
}
