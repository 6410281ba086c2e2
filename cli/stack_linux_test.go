package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestStack asks a running attempt twice for its stacks. The attempt continues, and the answer is the same in the
// console. A process that is stopped does not answer, and its state says why.
func TestStack(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Write("in/a.txt", "b\n")
	mapper, started, open := c.gate("map")
	wait := c.begin("--mapper", mapper, "--input", "in", "--output", "out")
	c.appears(started + "*")
	for range 2 {
		text := c.asks("stack", "j1_m_0_0")
		if strings.Count(text, "\n") < 20 {
			t.Errorf("few lines: %s", text)
		}
		for _, want := range []string{"j1_m_0_0 has run for ", "S (sleeping)", "goroutine 1 [", "attempt.(*host).serve", "sh -c"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	if status, text := c.Master.Get("/ui/attempts/j1_m_0_0/stack"); status != 200 || !strings.Contains(text, "goroutine 1 [") {
		t.Errorf("status %d: %s", status, text)
	}
	for args, want := range map[string]string{
		"j1_m_0_7": "no attempt j1_m_0_7", "j9_m_0_0": "no attempt j9_m_0_0", "chain-1": "is a chain", "x": "x",
	} {
		if status, text := c.Run("stack", args, "--master", c.URL); status == exitOK || !strings.Contains(text, want) {
			t.Errorf("stack %s: status %d: %s", args, status, text)
		}
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := wait(); status != exitOK {
		t.Fatalf("status %d: %s", status, out)
	}
	if status, text := c.Run("stack", "j1_m_0_0", "--master", c.URL); status == exitOK || !strings.Contains(text, "does not run on this worker now") {
		t.Errorf("an ended attempt: status %d: %s", status, text)
	}
	stopped := c.begin("--mapper", "kill -STOP $PPID; cat", "--input", "in", "--output", "out2")
	clustertest.Eventually(t, "a stopped process", func() bool {
		_, text := c.Run("stack", "j2_m_0_0", "--master", c.URL)
		return strings.Contains(text, "T (stopped)") && strings.Contains(text, "has not answered in")
	})
	c.asks("kill", "j2")
	stopped()
	c.Must("--mapper", "cat", "--input", "in", "--output", "out3", "--max-attempts", "1") // the worker is well
}
