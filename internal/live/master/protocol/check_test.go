package protocol

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// newCore returns a core with an empty journal.
func newCore(t *testing.T) *Core {
	t.Helper()
	c, _, err := Restore(Config{
		Policy: "fair", Configured: "fair",
		Build: func(name string, _ map[string]string) (sched.Policy, error) {
			return policies.Builtin().Build(name, sched.Options{Seed: 1})
		},
		NodeTimeout: 30 * time.Second, Heartbeat: time.Second, Grace: 10 * time.Second, KeepEnded: 1,
		Limits: Limits{Jobs: 100, Tasks: 1000, Nodes: 10, Waiting: 10}, ID: "m", Life: "l", Started: time.Unix(1, 0),
	}, decoded(nil))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// populated returns a core with two workers, a job that runs on the first, a held
// heartbeat and a watcher.
func populated(t *testing.T) *Core {
	t.Helper()
	c := newCore(t)
	for i, name := range []string{"w1", "w2"} {
		m, err := ParseRegister(&slotwisev1.RegisterRequest{Worker: name, MapSlots: 2, ReduceSlots: 1}, 10, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		m.Call, m.Session = Call(1+i), name
		c.Handle(time.Second, m)
	}
	spec := &slotwisev1.JobSpec{User: "u", Synthetic: 2, Reduces: 1, SlowStart: proto.Float64(1)}
	core, err := CoreSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Handle(time.Second, &Submit{Call: 3, Request: "r", Spec: spec, Core: core})
	for i, name := range []string{"w1", "w2"} {
		m, err := ParseHeartbeat(&slotwisev1.HeartbeatRequest{Session: name, Seq: 1, WaitMs: int64(1000 * i)})
		if err != nil {
			t.Fatal(err)
		}
		m.Call = Call(4 + i)
		c.Handle(time.Second, m)
	}
	c.Handle(time.Second, &WatchJob{Call: 6, Job: 1, After: 1 << 60, Wait: true})
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCheck breaks each invariant, which Check must find: a check that cannot fail
// protects nothing.
func TestCheck(t *testing.T) {
	launch := func(attempt string) *slotwisev1.Action {
		return &slotwisev1.Action{What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: attempt}}}
	}
	for want, damage := range map[string]func(c *Core){
		"not in the table or is over":   func(c *Core) { delete(c.sessions, "w1") },
		"is over":                       func(c *Core) { c.workers["w2"].session.over = true },
		"in an outbox up to":            func(c *Core) { c.workers["w1"].session.next++ },
		"but the attempt is not alive":  func(c *Core) { c.send(c.workers["w2"].session, launch("j1_m_1_7")) },
		"attempts are alive, counted":   func(c *Core) { c.jobs[1].alive++ },
		"listed as live and is not":     func(c *Core) { c.jobs[1].final = &slotwisev1.JobStatus{} },
		"is another job in the tracker": func(c *Core) { c.jobs[1].core = &job.Job{} },
		"in the tracker":                func(c *Core) { c.jobs[1].end = &tracker.FactJobEnded{Job: 1} },
		"tasks of users":                func(c *Core) { c.room.tasks.Add("ann", -1) },
		"jobs of users":                 func(c *Core) { c.room.jobs.Add("bob", 1) },
		"descriptions of users":         func(c *Core) { c.room.specs.Add("ann", 1) },
		"chains of users":               func(c *Core) { c.room.chains.Add("bob", 1) },
		"watchers of users":             func(c *Core) { c.room.watches.Add("", -1) },
		"calls are held":                func(c *Core) { delete(c.held, 6) },
		"live and":                      func(c *Core) { c.ended = append(c.ended, 9) },
		"calls wait":                    func(c *Core) { c.requests["r"].calls = []Call{7} },
		"has the request":               func(c *Core) { c.jobs[1].request = "other" },
	} {
		c := populated(t)
		damage(c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check returns %v, want an error with %q", err, want)
		}
	}
}

// transcript gives a core random messages from a seed and returns everything that it
// puts out.
func transcript(t *testing.T, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := newCore(t)
	var b bytes.Buffer
	var calls Call
	seqs := map[string]int64{}
	note := func(out Output) {
		for _, r := range out.Records {
			x, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(x)
		}
		for _, r := range out.Replies {
			fmt.Fprintf(&b, "%d %s %v\n", r.Call, formatReply(r.Message), r.Err)
		}
		for _, o := range out.Instructions {
			fmt.Fprintf(&b, "%T\n", o)
		}
		if err := c.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for now := time.Second; now < 60*time.Second; now += time.Duration(rng.IntN(400)) * time.Millisecond {
		calls++
		w := fmt.Sprint("w", rng.IntN(4))
		id := job.ID(1 + rng.IntN(5))
		var m Message = &Tick{}
		switch rng.IntN(12) {
		case 0:
			r, err := ParseRegister(&slotwisev1.RegisterRequest{Worker: w, MapSlots: 2, ReduceSlots: 1}, 9, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			r.Call, r.Session, seqs[w] = calls, w, 0
			m = r
		case 1, 2, 3, 4, 5, 6:
			m = randomHeartbeat(t, rng, c, w, seqs, calls)
		case 7:
			spec := &slotwisev1.JobSpec{User: "u", Synthetic: int32(rng.IntN(5)), Reduces: int32(rng.IntN(2)), SlowStart: proto.Float64(0.5)}
			core, err := CoreSpec(spec)
			if err != nil {
				t.Fatal(err)
			}
			m = &Submit{Call: calls, Request: fmt.Sprint(rng.IntN(6)), Spec: spec, Core: core}
		case 8:
			m = &MapOutputs{Call: calls, Session: w, Job: id, Wait: rng.IntN(2) == 0}
		case 9:
			m = &WatchJob{Call: calls, Job: id, After: rng.Int64N(1 << 50), Wait: true}
		case 10:
			m = []Message{&Release{calls - 3}, &KillJob{Call: calls, Job: id}, &Drain{Call: calls, Node: w, Undo: rng.IntN(2) == 0}}[rng.IntN(3)]
		case 11:
			m = []Message{&OutputFinished{Job: id, Commit: true}, &OutputFinished{Job: id}, &HistoryWritten{Job: id}, &HistoryWritten{Job: id, Err: io.ErrShortWrite}}[rng.IntN(4)]
		}
		note(c.Handle(now, m))
		if rng.IntN(2) == 0 {
			note(c.EndBatch(now))
		}
	}
	for r := range c.Snapshot() {
		note(Output{Records: []*slotwisev1.JournalRecord{r}})
	}
	return b.Bytes()
}

// randomHeartbeat reports each attempt of a worker as running or ended, like a worker
// that has received all actions.
func randomHeartbeat(t *testing.T, rng *rand.Rand, c *Core, w string, seqs map[string]int64, call Call) Message {
	seqs[w]++
	r := &slotwisev1.HeartbeatRequest{Session: w, Seq: seqs[w], WaitMs: int64(rng.IntN(2))}
	if s := c.sessionOf(w); s != nil {
		r.Acked = s.next
		for _, id := range s.worker.alive {
			state := []slotwisev1.AttemptState{1, 1, 2, 3}[rng.IntN(4)] // running, running, succeeded, failed
			r.Reports = append(r.Reports, &slotwisev1.Report{Attempt: id.String(), State: state, Error: "x"})
		}
	}
	m, err := ParseHeartbeat(r)
	if err != nil {
		t.Fatal(err)
	}
	m.Call = call
	return m
}

// TestDeterminism gives the same messages to two cores, which must put out the same
// bytes, and checks the invariants after each message.
func TestDeterminism(t *testing.T) {
	for seed := range uint64(30) {
		if a, b := transcript(t, seed), transcript(t, seed); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: two runs with the same messages differ", seed)
		}
	}
}
