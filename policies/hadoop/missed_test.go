package hadoop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// missedWorld is a cluster of four nodes in two racks, with a job.
type missedWorld struct {
	*trackertest.Manual
	t     *testing.T
	place *Missed
	job   *job.Job
	round *sched.Round
	offer sched.Offer
}

// newMissedWorld submits a job with a map for each host in hosts, on which the
// map's data is; "" means that the map has no location.
func newMissedWorld(t *testing.T, cfg MissedConfig, hosts ...string) *missedWorld {
	w := &missedWorld{t: t, place: NewMissed(cfg)}
	w.Manual = trackertest.NewManual(w.place)
	for i := range 4 {
		w.Join(cluster.Spec{Name: fmt.Sprint("n", i), Rack: fmt.Sprint("/r", i/2), MapSlots: 9})
	}
	splits := make([]job.Split, len(hosts))
	for i, h := range hosts {
		if h != "" {
			splits[i].Hosts = []string{h}
		}
	}
	w.job = w.Submit(job.Spec{Splits: splits})
	return w
}

// heartbeat starts a round of a node.
func (w *missedWorld) heartbeat(node string) {
	w.round = w.Round(w.Nodes.List().Get(node))
}

// pick expects a task at a level, which is launched, or a reason with two
// numbers.
func (w *missedWorld) pick(want string) *job.Attempt {
	w.t.Helper()
	task, level, why := w.place.Pick(w.round, w.offer, sched.Candidate{Job: w.job, Kind: job.Map})
	if task == nil {
		if got := fmt.Sprintf("%d: %d of %d", why.Code, why.Have, why.Need); got != want {
			w.t.Errorf("reason %s, want %s", got, want)
		}
		return nil
	}
	if got := fmt.Sprintf("%v %v", task.ID(), level); got != want {
		w.t.Errorf("got %s, want %s", got, want)
	}
	return w.Launch(w.round.Node(), sched.Assignment{Task: task, Level: level})
}

func reasonIs(c sched.Code, have, need int) string { return fmt.Sprintf("%d: %d of %d", c, have, need) }

// With data on one node of four and four maps left, a job lets one slot pass
// (¼ · 4) and takes the second; more far ones only with the next heartbeat; and
// it waits again once it got a near one.
func TestMissedCounts(t *testing.T) {
	w := newMissedWorld(t, DefaultMissed, "n0", "n0", "n0", "n0")
	w.heartbeat("n2")
	w.pick(reasonIs(sched.PassesSlots, 1, 1))
	w.heartbeat("n3")
	w.pick("j1_m_0 ANY")
	w.pick(reasonIs(sched.FarSpent, 1, 1))
	w.heartbeat("n3")
	w.pick("j1_m_1 ANY")
	w.heartbeat("n1")
	w.pick("j1_m_2 RACK")
	w.heartbeat("n2")
	w.pick(reasonIs(sched.PassesSlots, 1, 1))
}

// The factor and the number of open nodes set the wait; an offer may forbid it,
// or forbid far maps.
func TestMissedFactor(t *testing.T) {
	w := newMissedWorld(t, MissedConfig{WaitFactor: 1.5}, "n0", "n0", "n0", "n0", "n0", "n0")
	w.heartbeat("n2")
	for i := range 6 {
		w.pick(reasonIs(sched.PassesSlots, i+1, 6))
	}
	w.offer.Within = cluster.RACK
	w.pick(reasonIs(sched.OutOfReach, 0, 0))
	w.offer.Within = 0
	w.pick("j1_m_0 ANY")
	w.pick("j1_m_1 ANY") // no limit per heartbeat
	hasty := newMissedWorld(t, MissedConfig{WaitFactor: 1.5}, "n0")
	hasty.offer.NoWait = true
	hasty.heartbeat("n2")
	hasty.pick("j1_m_0 ANY")
	zero := newMissedWorld(t, MissedConfig{}, "n0")
	zero.heartbeat("n2")
	zero.pick("j1_m_0 ANY")
}

// A drained node gives a job no slot to decline, so it does not count.
func TestMissedCountsOpenNodes(t *testing.T) {
	w := newMissedWorld(t, MissedConfig{WaitFactor: 1.5}, "n0", "n0", "n0", "n0", "n0", "n0")
	w.Nodes.Drain(w.Nodes.List().Get("n1"), true, 0)
	w.heartbeat("n2")
	for i := range 4 {
		w.pick(reasonIs(sched.PassesSlots, i+1, 4))
	}
	w.pick("j1_m_0 ANY")
}

// Maps without location do not wait and do not count. Under Hadoop's rule only one
// such map starts per heartbeat.
func TestMissedUnlocated(t *testing.T) {
	w := newMissedWorld(t, DefaultMissed, "", "", "")
	w.heartbeat("n0")
	w.pick("j1_m_0 NONE")
	w.pick("j1_m_1 NONE")
	cfg := DefaultMissed
	cfg.UnlocatedFar = true
	w = newMissedWorld(t, cfg, "", "", "")
	w.heartbeat("n0")
	w.pick("j1_m_0 NONE")
	w.pick(reasonIs(sched.FarSpent, 1, 1))
}

// A map to be tried again goes first, wherever, and starts the wait afresh.
func TestMissedRetry(t *testing.T) {
	w := newMissedWorld(t, DefaultMissed, "n0", "n0", "n0", "n0")
	w.heartbeat("n0")
	w.End(w.pick("j1_m_0 NODE"), false)
	w.heartbeat("n2")
	w.pick("j1_m_0 ANY")
	w.pick(reasonIs(sched.PassesSlots, 1, 1))
	w.pick("j1_m_1 ANY")
}

// Another job in the seat of one that ended has let nothing pass.
func TestMissedSeat(t *testing.T) {
	w := newMissedWorld(t, DefaultMissed, "n0", "n0", "n0", "n0")
	w.heartbeat("n2")
	w.pick(reasonIs(sched.PassesSlots, 1, 1))
	old := w.job
	w.Kill(old)
	w.job = w.Submit(job.Spec{Splits: make([]job.Split, 1)})
	if w.job.Seat() != old.Seat() || w.place.passed[w.job.Seat()] != 0 {
		t.Errorf("seat %d, passed %v", w.job.Seat(), w.place.passed)
	}
}

func TestMissedRejects(t *testing.T) {
	for _, set := range []string{"locality-wait-factor=-1", "locality-wait-factor=NaN", "offswitch-per-heartbeat=-1", "unlocated=near"} {
		name, value, _ := strings.Cut(set, "=")
		_, err := ReadMissed(sched.NewKit(sched.Options{Set: map[string]string{name: value}}))
		if err == nil || !strings.Contains(err.Error(), "parameter "+name+": bad value") {
			t.Errorf("%s: error %v", set, err)
		}
	}
}
