package master

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// faulty is a part of a policy that panics when it must choose a task.
type faulty struct{}

// Pick implements sched.Place.
func (faulty) Pick(*sched.Round, sched.Offer, sched.Candidate) (*job.Task, job.Level, sched.Reason) {
	panic("the place has a fault")
}

// TestPanicOfPolicy has a policy panic, which ends the master with a message that names the policy and the remedy, and
// again after a restart. With another policy the master starts, and all jobs run that it had acknowledged.
func TestPanicOfPolicy(t *testing.T) {
	t.Parallel()
	all, err := policies.Builtin().With(sched.Table{Place: []sched.Part[sched.Place]{{Name: "faulty", Summary: "panics", New: func(*sched.Kit) (sched.Place, error) { return faulty{}, nil }}}})
	if err != nil {
		t.Fatal(err)
	}
	const dir = "SLOTWISE_TEST_PANIC_DIR"
	cfg := Config{Dir: os.Getenv(dir), Policies: all, Policy: "order=fifo,place=faulty"}
	if cfg.Dir != "" { // in a process of its own
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		r := newRig(t, cfg)
		r.submit(r.spec(1, 0, ""))
		r.worker("w1", 1, 0).awaitLaunch("j1_m_0_0")
		return
	}
	cfg.Dir = t.TempDir()
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPanicOfPolicy$")
		cmd.Env = append(os.Environ(), dir+"="+cfg.Dir)
		out, err := cmd.CombinedOutput()
		for _, want := range []string{`policy="order=fifo,place=faulty"`, "start each master with another --policy", "panic: the place has a fault", "faulty.Pick("} {
			if err == nil || !strings.Contains(string(out), want) {
				t.Fatalf("%v, without %q:\n%s", err, want, out)
			}
		}
	}
	cfg.Policy = "fifo"
	r := newRig(t, cfg)
	w := r.worker("w1", 2, 0)
	for _, id := range []string{"j1", "j2"} {
		w.awaitLaunch(id + "_m_0_0")
		w.heartbeat(0, w.succeeded(id+"_m_0_0"))
		if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %v", st)
		}
	}
}
