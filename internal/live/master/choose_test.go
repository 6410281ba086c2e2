package master

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// chosen returns the candidate that decides, as users see it; "" if the policy does not choose.
func (r *rig) chosen() string {
	r.t.Helper()
	resp, err := r.users.Policy(r.t.Context(), &slotwisev1.PolicyRequest{Inspect: true})
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(resp.Figures, func(f *slotwisev1.PolicyFigure) bool { return f.Measure.Name == "chosen" })
	if i < 0 {
		return ""
	}
	return resp.Figures[i].Value.Text
}

// TestAutoChooses has small jobs wait behind a large one under fifo. The master switches to fair
// by itself, says so, and continues with fair after a restart. Each start from its journal finds
// the same choice.
func TestAutoChooses(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Policy: "auto", PolicySet: map[string]string{"candidates": "fifo,fair", "choose-every": "1s", "least-time": "1h"}})
	w := r.worker("w1", 2, 1)
	large := r.submit(r.spec(60, 0, ""))
	w.awaitLaunch("j1_m_0_0")
	w.awaitLaunch("j1_m_1_0")
	// The times of these maps are the basis of the forecasts.
	for i := range 4 {
		time.Sleep(20 * time.Millisecond)
		ids := slices.Sorted(maps.Keys(w.running))
		if len(ids) == 0 {
			t.Fatalf("nothing runs after %d maps", i)
		}
		w.heartbeat(0, w.succeeded(ids[0]))
	}
	var small []string
	for range 6 {
		small = append(small, r.submit(r.spec(2, 0, "")))
	}
	clustertest.Eventually(t, "the switch", func() bool { w.heartbeat(0); return r.chosen() == "fair" })
	why, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: small[5]})
	if err != nil || !strings.Contains(why.String(), "policy auto has fair decide, chosen") || !strings.Contains(why.String(), "in place of fifo") {
		t.Errorf("explain: %v, %v", why, err)
	}
	if page := r.get("/metrics"); !strings.Contains(page, `slotwise_master_policy_chosen{policy="fair"} 1`) || !strings.Contains(page, `slotwise_master_policy_choices_total{outcome="switched"} 1`) {
		t.Error("Prometheus does not see the choice")
	}
	resp, err := r.users.Policy(t.Context(), &slotwisev1.PolicyRequest{Inspect: true})
	if err != nil || resp.Name != "auto" || len(resp.Tables) == 0 || resp.Tables[0].Name != "choices" {
		t.Errorf("policy: %v, %v", resp, err)
	}
	if _, err := r.users.WhatIf(t.Context(), &slotwisev1.WhatIfRequest{Policy: "auto"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("what if the policy were auto: %v", err)
	}
	doc := r.m.core.ForecastBasis().Choice
	r.stop()
	r.start()
	if now := r.m.core.ForecastBasis().Choice; r.chosen() != "fair" || len(doc) == 0 || !bytes.HasPrefix(now, doc[:20]) {
		t.Errorf("after a restart %q decides", r.chosen())
	}
	if st := r.job(large); st.State != slotwisev1.JobState_JOB_STATE_RUNNING {
		t.Errorf("the large job is %v", st.State)
	}
	// A choice that was made for a policy which is no longer installed is refused.
	if _, err := r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: "fifo"}); err != nil {
		t.Fatal(err)
	}
	_, err = call[any](t.Context(), r.m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Choose{Call: id, Name: "auto", Set: r.cfg.PolicySet, Choice: doc}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "no longer installed") || r.chosen() != "" {
		t.Errorf("a late choice: %v", err)
	}
	cfg := r.m.coreConfig
	r.stop()
	replayed(t, r, cfg)
}

// replayed restores a core twice from the journal's records up to each choice.
func replayed(t *testing.T, r *rig, cfg protocol.Config) {
	t.Helper()
	records := journalRecords(t, r.cfg.Dir)
	choices := 0
	for n := range records {
		var found [2]protocol.Basis
		for i := range found {
			core, _, err := protocol.Restore(cfg, decoded(func(yield func([]byte, error) bool) {
				for _, b := range records[:n+1] {
					if !yield(b, nil) {
						return
					}
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			found[i] = core.ForecastBasis()
			if c, ok := core.Tracker().Policy().(sched.Chooser); ok && found[i].Choice != nil {
				choices++
				if doc, err := c.SaveChoice(); err != nil || !bytes.Equal(doc, found[i].Choice) {
					t.Fatalf("after %d records the policy saves %s, and the journal has %s, %v", n+1, doc, found[i].Choice, err)
				}
			}
		}
		if !bytes.Equal(found[0].Choice, found[1].Choice) {
			t.Fatalf("two replays of %d records differ", n+1)
		}
	}
	if choices < 2 {
		t.Errorf("the journal of %d records has no choice", len(records))
	}
}

// get returns a page.
func (r *rig) get(path string) string {
	r.t.Helper()
	resp, err := http.Get(r.srv.URL + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// TestChoicesRest checks that choices use at most 4 % of a core, however long one takes and however
// often the policy wants them. The garbage collector adds up to a quarter of that.
func TestChoicesRest(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, time.Second, time.Hour} {
		for _, took := range []time.Duration{time.Microsecond, 300 * time.Millisecond, mostForecast, 3 * mostForecast} {
			if share := took.Seconds() / (took + restAfterChoice(took, every)).Seconds(); share > 0.0401 {
				t.Errorf("choices of %v every %v use %.1f %% of a core", took, every, 100*share)
			}
		}
	}
}
