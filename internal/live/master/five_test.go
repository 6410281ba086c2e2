package master

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestFiveQuestions prepares five situations, and asks of a job in each: why does it wait,
// where in the queue is it, when will it be done, what would change that, and why is it
// slow.
func TestFiveQuestions(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name    string
		prepare func(r *rig) (id string)
		// The answers must contain these texts.
		why, where, when, change, slow string
	}{
		{"behind another job", func(r *rig) string {
			first := r.submit(r.spec(6, 0, ""))
			w := r.worker("w1", 2, 0)
			w.awaitLaunch(first + "_m_0_0")
			w.awaitLaunch(first + "_m_1_0")
			w.heartbeat(0, w.succeeded(first+"_m_0_0"), w.succeeded(first+"_m_1_0"))
			return r.submit(r.spec(2, 0, ""))
		}, "j1 is just ahead", "place 1", "known", "more map slots", "slow: nothing"},
		{"no worker", func(r *rig) string { return r.submit(r.spec(2, 0, "")) },
			"no live node", "place 0", "never: the cluster has no live node", "start a worker", "slow: nothing"},
		{"no reduce slots", func(r *rig) string {
			id := r.submit(r.spec(1, 1, ""))
			w := r.worker("w1", 1, 0)
			w.awaitLaunch(id + "_m_0_0")
			w.heartbeat(0, w.succeeded(id+"_m_0_0"))
			return id
		}, "reduce slot", "place 0", "never: the cluster has no reduce slots", "more reduce slot", "slow: nothing"},
		{"drained", func(r *rig) string {
			r.worker("w1", 1, 0)
			if _, err := r.users.Drain(r.t.Context(), &slotwisev1.DrainRequest{Node: "w1"}); err != nil {
				r.t.Fatal(err)
			}
			return r.submit(r.spec(1, 0, ""))
		}, "1 drained", "place 0", "unknown", "nodes drain --undo", "slow: nothing"},
		{"a straggler", func(r *rig) string {
			id := r.submit(r.spec(6, 0, ""))
			w := r.worker("w1", 6, 0)
			for i := range 6 {
				w.awaitLaunch(fmt.Sprintf("%s_m_%d_0", id, i))
			}
			for i := range 5 {
				w.heartbeat(0, w.succeeded(fmt.Sprintf("%s_m_%d_0", id, i)))
			}
			return id
		}, "", "place 0", "known", "", "straggler: j1_m_5_0 on w1 has run for"},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := newRig(t, Config{})
			id := s.prepare(r)
			var got string
			want := []string{s.why, s.where, s.when, s.change, s.slow}
			ok := func() bool {
				resp, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: id})
				if err != nil {
					t.Fatal(err)
				}
				got = answers(resp)
				for _, text := range want {
					if !strings.Contains(got, text) {
						return false
					}
				}
				return true
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("want %q, got\n%s", want, got)
				}
			})
			clustertest.Eventually(t, "the five answers", ok)
		})
	}
}

// answers writes an explanation as lines.
func answers(r *slotwisev1.ExplainResponse) string {
	var b strings.Builder
	for _, w := range r.Why {
		fmt.Fprintf(&b, "why: %s; %s\n", w.Words, w.Advice)
	}
	f := r.Forecast
	switch {
	case f == nil:
		b.WriteString("no forecast yet\n")
	case f.Known:
		fmt.Fprintf(&b, "place %d\nknown\n", f.Position)
	case f.Never:
		fmt.Fprintf(&b, "place %d\nnever: %s\n", f.Position, f.Unknown)
	default:
		fmt.Fprintf(&b, "place %d\nunknown: %s\n", f.Position, f.Unknown)
	}
	for _, w := range r.WouldStart {
		fmt.Fprintf(&b, "would start with %s\n", w)
	}
	for _, s := range r.Slow {
		fmt.Fprintf(&b, "%s: %s\n", s.Code, s.Words)
	}
	if len(r.Slow) == 0 {
		b.WriteString("slow: nothing\n")
	}
	return b.String()
}
