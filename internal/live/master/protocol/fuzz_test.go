package protocol

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// choices reads decisions from the bytes of a fuzz input. Behind their end every choice
// is the first one.
type choices struct {
	b        []byte
	launched []string // attempts that the core has launched
	honest   bool     // see FuzzHandle
	workers  map[string]*fuzzedWorker
	callers  map[Call]string // the worker of each heartbeat
}

// fuzzedWorker is the state of a simulated worker.
type fuzzedWorker struct {
	got   []string // attempts that it was given
	acted int64    // number of its latest action
}

func (c *choices) of(worker string) *fuzzedWorker {
	if c.workers[worker] == nil {
		c.workers[worker] = &fuzzedWorker{}
	}
	return c.workers[worker]
}

// known returns those names of attempts that an honest worker may report.
func (c *choices) known(worker string, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return c.honest && !slices.Contains(c.of(worker).got, name)
	})
}

func (c *choices) next() byte {
	if len(c.b) == 0 {
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *choices) below(n int) int { return int(c.next()) % n }
func (c *choices) bit() bool       { return c.next()&1 > 0 }

// number returns a number: a small one or an extreme.
func (c *choices) number() int64 {
	extremes := []int64{math.MaxInt64, math.MinInt64, -1, math.MaxInt32, math.MinInt32, 1 << 40}
	if n := int(c.next()); n < 246 {
		return int64(n % 5)
	} else {
		return extremes[n%len(extremes)]
	}
}

func (c *choices) float() float64 {
	if c.below(16) < 15 {
		return float64(c.below(3)) / 2
	}
	return []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308}[c.below(5)]
}

// attempt returns the name of an attempt, usually of one that the core has launched.
func (c *choices) attempt() string {
	if n := len(c.launched); n > 0 && c.below(4) > 0 {
		return c.launched[n-1-c.below(min(n, 8))]
	}
	if c.below(16) == 15 {
		return []string{"", "j1", "j1_m_2147483647_2147483647", "j9223372036854775807_r_0_0", "j1_x_0_0", "\xff"}[c.below(6)]
	}
	return fmt.Sprintf("j%d_%c_%d_%d", 1+c.below(3), "mr"[c.below(2)], c.below(3), c.below(3))
}

func (c *choices) attempts() (names []string) {
	for range c.below(4) {
		names = append(names, c.attempt())
	}
	return names
}

func (c *choices) worker() string {
	return []string{"w1", "w2", "w1", "w2", "w3", "w1", "", "a/b"}[c.below(8)]
}

func (c *choices) register(worker string) *slotwisev1.RegisterRequest {
	r := &slotwisev1.RegisterRequest{Worker: worker, Address: "a:1", Incarnation: []string{"a", "a", "a", "b", ""}[c.below(5)],
		MapSlots: 1 + int32(c.number()), ReduceSlots: 1 + int32(c.number()), Number: c.number(), MapBuffer: c.number(),
		Memory: c.number(), Cores: int32(c.number()), Speed: c.float(), Running: c.known(worker, c.attempts())}
	for _, id := range c.known(worker, c.attempts()) {
		r.Outputs = append(r.Outputs, &slotwisev1.HeldOutput{Attempt: id, Bytes: c.number()})
	}
	return r
}

func (c *choices) heartbeat(worker string) *slotwisev1.HeartbeatRequest {
	r := &slotwisev1.HeartbeatRequest{Acked: c.number(), WaitMs: c.number(), Draining: c.below(32) == 31, Leaving: c.below(64) == 63,
		Load: &slotwisev1.Load{Known: c.bit(), Cpu: c.float(), Memory: c.float(), DiskRate: c.float(), NetworkRate: c.float(), LoadAverage: c.float()}}
	if c.honest {
		r.Acked = c.of(worker).acted
	}
	for _, id := range c.known(worker, c.attempts()) {
		r.Reports = append(r.Reports, &slotwisev1.Report{Attempt: id, State: slotwisev1.AttemptState([]int{1, 2, 2, 3, 1, 2, 4, 1, 2, 1, 2, 1, 2, 1, 0, 5}[c.below(16)]), Progress: c.float(),
			Ticks: uint64(c.number()), CpuNs: c.number(), Memory: c.number(), OutputBytes: c.number(), StartedMs: c.number(), Error: "e",
			Counters: &slotwisev1.Counters{InputRecords: c.number(), BytesRead: c.number()}})
	}
	for _, id := range c.attempts() {
		r.FetchFailures = append(r.FetchFailures, &slotwisev1.FetchFailure{Reduce: id, Map: c.attempt(), Worker: c.worker(), Corrupt: c.bit(), Number: c.number()})
	}
	return r
}

func (c *choices) spec() *slotwisev1.JobSpec {
	s := &slotwisev1.JobSpec{Name: "n", User: "u", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1 + int32(c.number()),
		Reduces: int32(c.number()), MaxAttempts: 1 + int32(c.number()), Output: []string{"", "o", "p"}[c.below(3)]}
	if c.bit() {
		s.SlowStart = proto.Float64(c.float())
	}
	return s
}

// FuzzHandle lets workers and users send the core any sequence of messages, as decoded
// from the wire. The core must not panic, and a master that is restored from its
// journal must have the same jobs. Honest workers number their heartbeats, and report
// only attempts that they were given, after they have acknowledged the launch. With
// them all counts must be right after each message, too.
func FuzzHandle(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add([]byte{0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 5, 1, 1, 1, 0, 0, 9, 1, 0, 1, 1, 0, 1}, true)
	for seed := range uint64(20) { // long enough for jobs to start and to end
		rng, b := rand.New(rand.NewPCG(seed, 1)), make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b, seed%4 > 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, honest bool) {
		if len(data) > 2000 {
			return
		}
		c := &conversation{t: t, policy: "fifo", limits: Limits{Jobs: 10, Tasks: 1000, Nodes: 10, Waiting: 10}, sessions: map[string]string{}, seqs: map[string]int64{}}
		c.restart(nil)
		in := &choices{b: data, honest: honest, workers: map[string]*fuzzedWorker{}, callers: map[Call]string{}}
		for len(in.b) > 0 {
			c.now += time.Millisecond
			m := c.fuzzed(in)
			if m == nil {
				continue
			}
			c.absorb(in, c.core.Handle(c.time(), m))
			if in.bit() {
				c.absorb(in, c.core.EndBatch(c.time()))
			}
			if err := c.core.Check(); err != nil && honest {
				t.Fatalf("after %T: %v", m, err)
			}
		}
		c.absorb(in, c.core.EndBatch(c.time()))
		c.compareRestored(t, honest)
	})
}

// compareRestored restores a core from the journal and compares its jobs.
func (c *conversation) compareRestored(t *testing.T, honest bool) {
	var before, after []job.ID
	for _, j := range c.core.Tracker().Jobs().Live() {
		before = append(before, j.ID())
	}
	c.restart(c.journal)
	for _, j := range c.core.Tracker().Jobs().Live() {
		after = append(after, j.ID())
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatalf("jobs %v before the restart, %v after it", before, after)
	}
	if err := c.core.Check(); err != nil && honest {
		t.Fatalf("restored: %v", err)
	}
}

// absorb stores records, notes actions, and answers orders at once. It answers some
// orders with an error.
func (c *conversation) absorb(in *choices, out Output) {
	for _, r := range out.Replies {
		if h, ok := r.Message.(*slotwisev1.HeartbeatResponse); ok {
			for _, a := range h.GetActions() {
				w := in.of(in.callers[r.Call])
				w.acted = max(w.acted, a.Number)
				if l := a.GetLaunch(); l != nil {
					in.launched, w.got = append(in.launched, l.Attempt), append(w.got, l.Attempt)
				}
			}
		}
	}
	for _, r := range out.Records {
		b, err := proto.Marshal(r)
		if err != nil {
			panic(err) // the core has made a record that no journal can hold
		}
		c.journal = append(c.journal, b)
	}
	for _, o := range out.Instructions {
		var m Message
		switch o := o.(type) {
		case *StageOutput:
			m = &Staged{Request: o.Request}
		case *RemoveStaged:
			m = &StagingRemoved{Request: o.Request, Output: o.URI}
		case *CommitOutput:
			m = &OutputFinished{Job: o.Job, Commit: true, Err: c.sometimes()}
		case *AbortOutput:
			m = &OutputFinished{Job: o.Job, Err: c.sometimes()}
		case *WriteHistory:
			if err := c.sometimes(); err != nil {
				c.absorb(in, c.core.Handle(c.time(), &HistoryWritten{Job: o.Job, Err: err}))
			}
			m = &HistoryWritten{Job: o.Job}
		default:
			continue
		}
		c.absorb(in, c.core.Handle(c.time(), m))
	}
}

// sometimes returns an error for every fifth call that was made.
func (c *conversation) sometimes() error {
	if c.calls%5 == 4 {
		return errors.New("the storage fails")
	}
	return nil
}

// fuzzed decodes the next message; nil if the shell would refuse it.
func (c *conversation) fuzzed(in *choices) Message {
	worker := in.worker()
	session := c.sessions[worker]
	id := job.ID(1 + in.below(4))
	switch in.below(12) {
	case 0:
		if session != "" && in.below(8) > 0 { // workers that exist seldom register again
			return nil
		}
		r := in.register(worker)
		m, err := ParseRegister(r, 100, func(string) string { return "" })
		if err != nil {
			return nil
		}
		m.Call = c.newCall()
		m.Session = fmt.Sprintf("s%d", m.Call)
		c.sessions[worker], c.seqs[worker], in.of(worker).acted = m.Session, 0, 0
		return m
	case 1, 2, 3, 4:
		r := in.heartbeat(worker)
		r.Session = session
		if c.seqs[worker]++; in.below(8) == 7 && !in.honest {
			c.seqs[worker] = in.number()
		}
		r.Seq = c.seqs[worker]
		m, err := ParseHeartbeat(r)
		if err != nil {
			return nil
		}
		m.Call = c.newCall()
		in.callers[m.Call] = worker
		return m
	case 5:
		spec := in.spec()
		core, err := CoreSpec(spec)
		if err != nil {
			return nil
		}
		return &Submit{Call: c.newCall(), Request: fmt.Sprint(in.below(4)), Spec: spec, Core: core, Secret: []byte("s")}
	case 6:
		attempt, err := job.ParseAttempt(in.attempt())
		if err != nil {
			return nil
		}
		if in.below(4) == 0 {
			return &KillAttempt{Call: c.newCall(), Attempt: attempt}
		}
		return &AskCommit{Call: c.newCall(), Session: session, Attempt: attempt}
	case 7:
		return &MapOutputs{Call: c.newCall(), Session: session, Job: id, Cursor: []string{"", "1", "x", "life1.1", "9223372036854775807"}[in.below(5)], Wait: in.bit()}
	case 8:
		c.now += time.Duration(in.below(5)) * time.Second
		if in.below(16) == 15 {
			c.now += time.Duration(in.below(256)) * time.Second
		}
		return &Tick{}
	case 9:
		return &WatchJob{Call: c.newCall(), Job: id, After: in.number(), Wait: in.bit()}
	case 10:
		return &Drain{Call: c.newCall(), Node: in.worker(), Undo: in.below(4) > 0}
	}
	if in.below(4) > 0 {
		return &Tick{}
	}
	return []Message{
		&KillJob{Call: c.newCall(), Job: id}, &JobForWorker{Call: c.newCall(), Session: session, Job: id},
		&MoveJob{Call: c.newCall(), Job: id, Pool: "p"}, &SetPriority{Call: c.newCall(), Job: id, Priority: job.Priority(in.below(5))},
		&Release{Call: Call(in.below(40))},
	}[in.below(5)]
}
