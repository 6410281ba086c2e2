package cli

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStoppedTask counts words on three workers while the process of a task stops, as with
// kill -STOP: of a map that has siblings, then of the only reduce. Its worker lives and
// reports the attempt. Under every speculator a copy takes over, long before the
// attempt times out after ten minutes: Must fails when a job takes nine. On an idle machine the
// jobs take 7 s and 12 s; the simulator's TestStoppedProcess shows the bound of 30 s.
func TestStoppedTask(t *testing.T) {
	t.Parallel()
	for _, speculator := range []string{"gap", "late", "sepb"} {
		t.Run(speculator, func(t *testing.T) {
			t.Parallel() // each mostly waits
			c := newTestCluster(t, "--policy", "fifo,speculate="+speculator)
			c.Patience = 9 * time.Minute
			for _, name := range []string{"w1", "w2", "w3"} {
				c.StartWorker(name)
			}
			in := c.Write("in.txt", strings.Repeat("b a\n", 30)+strings.Repeat("a c\n", 30))
			stop := func(attempt string) string { // stops the attempt's process, the shell's parent
				return "case $SLOTWISE_ATTEMPT in *_" + attempt + ") kill -STOP $PPID;; esac; "
			}
			for _, stopped := range []string{"m_0_0", "r_0_0"} {
				c.Must("--mapper", stop(stopped)+`tr ' ' '\n'`, "--reducer", stop(stopped)+"uniq -c | tr -s ' '", "--input", in,
					"--split-size", "100B", "--reduces", "1", "--output", stopped)
				if got := c.Lines(stopped); !slices.Equal(got, []string{" 30 b", " 30 c", " 60 a"}) {
					t.Errorf("%s stopped: got %q", stopped, got)
				}
			}
		})
	}
}
