package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// The queue yields events as sorting would: by time, then in order of scheduling.
func TestQueueAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []event
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 && len(want) > 0 {
				got, ok := q.pop()
				if !ok || got != want[0] {
					t.Fatalf("popped %v, want %v", got, want[0])
				}
				now, want = got.at, want[1:]
				continue
			}
			k := rapid.SampledFrom([]kind{evBeat, evBeat, evTimer, evStation}).Draw(t, "kind")
			at := now + time.Duration(rapid.IntRange(0, 9).Draw(t, "wait"))
			q.push(at, k, 3, 4)
			want = append(want, event{at, q.seq, 4, 3, k})
			slices.SortStableFunc(want, func(a, b event) int { return int(a.at - b.at) })
		}
		real := 0
		for _, e := range want {
			if e.kind > background {
				real++
			}
		}
		if q.real != real {
			t.Fatalf("counts %d that are not background, want %d", q.real, real)
		}
	})
}

// auditor is an observer that checks a run: no slot is occupied twice, every attempt that
// starts ends, and time does not run backwards.
type auditor struct {
	t       *rapid.T
	slots   map[int][job.Kinds]int
	used    map[int][job.Kinds]int
	running map[job.AttemptID]bool
	won     map[job.TaskID]bool
	lost    map[job.TaskID]bool
	at      time.Duration
	jobs    map[int]bool // by index, because a job has no ID before its set-up
}

func newAuditor(t *rapid.T, s *sim) *auditor {
	a := &auditor{t: t, slots: map[int][job.Kinds]int{}, used: map[int][job.Kinds]int{}, running: map[job.AttemptID]bool{},
		won: map[job.TaskID]bool{}, lost: map[job.TaskID]bool{}, jobs: map[int]bool{}}
	for i := range s.nodes {
		a.slots[i] = [job.Kinds]int{s.nodes[i].spec.MapSlots, s.nodes[i].spec.ReduceSlots}
	}
	return a
}

func (a *auditor) Observe(e *Event) {
	if e.At < a.at {
		a.t.Fatalf("%+v after %v", *e, a.at)
	}
	a.at = e.At
	switch e.Kind {
	case AttemptStarted, AttemptEnded:
		by := 1
		if e.Kind == AttemptEnded {
			by = -1
		}
		if a.running[e.Attempt] == (by == 1) || !a.jobs[e.Job] {
			a.t.Fatalf("%+v: starts or ends twice, or not while its job runs", *e)
		}
		a.running[e.Attempt] = by == 1
		u := a.used[e.Node]
		u[e.Slot] += by
		a.used[e.Node] = u
		if u[e.Slot] > a.slots[e.Node][e.Slot] {
			a.t.Fatalf("%+v: %d %v slots in use", *e, u[e.Slot], e.Slot)
		}
		if by < 0 && e.Outcome == job.AttemptSucceeded {
			if a.won[e.Attempt.TaskID] && !a.lost[e.Attempt.TaskID] {
				a.t.Fatalf("%+v: the task has succeeded before", *e)
			}
			a.won[e.Attempt.TaskID], a.lost[e.Attempt.TaskID] = true, false
		}
	case OutputLost:
		a.lost[e.Attempt.TaskID] = true
	case JobSubmitted, JobEnded:
		a.jobs[e.Job] = e.Kind == JobSubmitted
	case NodeDown:
		if a.used[e.Node] != [job.Kinds]int{} {
			a.t.Fatalf("%+v: %v slots in use", *e, a.used[e.Node])
		}
	}
}

// checkShares fails if a resource is used above its capacity, or if a user of a resource
// gets nothing.
func checkShares(t *rapid.T, s *sim) {
	const slack = 1 + 1e-9
	core := 0.
	for r := range s.racks {
		up := 0.
		for _, n := range s.racks[r].nodes {
			nd := &s.nodes[n]
			p := &nd.plant
			total := func(u use) float64 {
				q := &p.station[u]
				if len(q.users) > 0 && !(q.rate > 0) {
					t.Fatalf("%s: %d users of %d at rate %v", nd.name, len(q.users), u, q.rate)
				}
				return q.rate * float64(len(q.users))
			}
			if cpu := total(useCPU); cpu > nd.cores*p.speed*slack {
				t.Fatalf("%s: CPU %v", nd.name, cpu)
			}
			if disk := total(useDisk); disk > limit(p.disk)*slack {
				t.Fatalf("%s: disk %v", nd.name, disk)
			}
			if net := total(useNear) + total(useFar); net > limit(p.nic)*slack {
				t.Fatalf("%s: NIC %v", nd.name, net)
			}
			if far := &p.station[useFar]; len(far.users) > 0 {
				weight := 0.
				for _, u := range far.users {
					weight += u.weight
				}
				up += far.rate * weight
				if math.Abs(weight-far.weight) > 1e-9 {
					t.Fatalf("%s: weight %v, counted %v", nd.name, weight, far.weight)
				}
			}
			if busy := total(useCPU) > 0; busy && p.next == never {
				t.Fatalf("%s: nothing is scheduled", nd.name)
			}
		}
		if up > limit(s.racks[r].uplink)*slack {
			t.Fatalf("rack %d: %v", r, up)
		}
		core += up
	}
	if core > limit(s.net.core)*slack {
		t.Fatalf("core: %v", core)
	}
}

// drawConfig draws a small cluster and some jobs.
func drawConfig(t *rapid.T) Config {
	some := rapid.SampledFrom([]float64{0, 10e6, 50e6, 200e6})
	c := workload.Cluster{Racks: rapid.IntRange(1, 3).Draw(t, "racks"), Heartbeat: "fixed:1s",
		RackUplink: some.Draw(t, "uplink"), CoreLink: some.Draw(t, "core")}
	for g := range rapid.IntRange(1, 2).Draw(t, "groups") {
		c.Groups = append(c.Groups, workload.NodeGroup{Name: fmt.Sprint("g", g, "n"), Count: rapid.IntRange(1, 4).Draw(t, "nodes"),
			Cores: rapid.IntRange(1, 4).Draw(t, "cores"), Speed: rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(t, "speed"),
			MapSlots: rapid.IntRange(1, 3).Draw(t, "maps"), ReduceSlots: rapid.IntRange(1, 2).Draw(t, "reduces"),
			DiskBandwidth: some.Draw(t, "disk"), NICBandwidth: some.Draw(t, "nic"), Memory: rapid.SampledFrom([]int64{0, 4 << 30}).Draw(t, "memory")})
	}
	cfg := Config{Cluster: c, Seed: rapid.Uint64().Draw(t, "seed")}
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		seconds := func(what string) time.Duration {
			return time.Duration(rapid.IntRange(0, 30).Draw(t, what)) * time.Second
		}
		bytes := rapid.SampledFrom([]int64{0, 1, 10e6, 100e6})
		j := workload.Job{Request: job.Request{Pool: fmt.Sprint(i % 2)}, Submit: seconds("submit")}
		j.Resident = rapid.SampledFrom([]int64{0, 1 << 30, 5 << 30}).Draw(t, "resident")
		j.Maps = tasks(rapid.IntRange(0, 8).Draw(t, "maps"), workload.Task{Input: bytes.Draw(t, "input"),
			Output: bytes.Draw(t, "output"), CPU: seconds("cpu")})
		j.Reduces = tasks(rapid.IntRange(0, 3).Draw(t, "reduces"), workload.Task{Input: bytes.Draw(t, "fetched"), CPU: seconds("cpu")})
		if rapid.Bool().Draw(t, "plain") {
			j.Maps = tasks(len(j.Maps), workload.Task{Duration: seconds("map") + 1, Input: 5})
			j.Reduces = tasks(len(j.Reduces), workload.Task{Duration: seconds("reduce") + 1})
		}
		if i > 0 && rapid.Bool().Draw(t, "chain") {
			j.After = []int{rapid.IntRange(0, i-1).Draw(t, "after")}
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

// drawTrouble draws failures, stragglers and crashes for a cluster of n nodes. Node 0
// stays up, so that all jobs can end.
func drawTrouble(t *rapid.T, n int) ModelConfig {
	m := ModelConfig{OutOfBand: rapid.Bool().Draw(t, "oob"), NodeTimeout: time.Minute, FetchRetry: 10 * time.Second,
		SortMemory: 20e6, ShuffleMemory: 20e6, Contention: rapid.Bool().Draw(t, "contention")}
	if rapid.Bool().Draw(t, "overheads") {
		m.Overheads = Hadoop121(rapid.Bool().Draw(t, "reuse"))
		m.Overheads.InitPoll = rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "poll")
	}
	if rapid.Bool().Draw(t, "peace") {
		return m
	}
	m.FailureRate = rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "failures")
	m.Straggler = Straggler{Probability: 0.2, Factor: 4, Alpha: rapid.SampledFrom([]float64{0, 2}).Draw(t, "alpha")}
	for range rapid.IntRange(0, 4).Draw(t, "crashes") {
		if n > 1 {
			at := time.Duration(rapid.IntRange(0, 100).Draw(t, "at")) * time.Second
			m.Crashes = append(m.Crashes, Crash{Node: rapid.IntRange(1, n-1).Draw(t, "node"), At: at,
				Return: at + time.Duration(rapid.IntRange(1, 200).Draw(t, "return"))*time.Second})
		}
	}
	return m
}

// In every run resources stay within their capacity and slots within their number, every
// job ends, and every task succeeds once. Without failures the bytes read are the bytes
// of the input.
func TestRunKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		nodes := 0
		for _, g := range cfg.Cluster.Groups {
			nodes += g.Count
		}
		cfg.Model = drawTrouble(t, nodes)
		cfg.Policy = policy(t, rapid.SampledFrom([]string{"fifo", "fair", "capacity", "fifo,speculate=late"}).Draw(t, "policy"))
		s, err := prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.cfg.Observer = newAuditor(t, s)
		s.cfg.Trace = checkSteps(t, s)
		s.start()
		for s.open > 0 && s.once() {
			checkShares(t, s)
			checkOutputs(t, s)
		}
		if s.err != nil {
			t.Fatal(s.err)
		}
		s.finish()
		checkEnd(t, &cfg, s)
	})
}

// checkSteps fails if a crashed node sends a heartbeat or if progress decreases.
func checkSteps(t *rapid.T, s *sim) func(time.Duration, tracker.Event, []tracker.Effect) {
	progress := map[job.AttemptID]float64{}
	return func(_ time.Duration, ev tracker.Event, _ []tracker.Effect) {
		switch ev := ev.(type) {
		case *tracker.AskCommit:
			if a := s.tr.Jobs().Attempt(ev.Attempt); a != nil && !s.nodes[a.Node()].up {
				t.Fatalf("%v asks to commit on a node that is down", ev.Attempt)
			}
		case *tracker.Heartbeat:
			if !s.nodes[s.byName[ev.Node]].up {
				t.Fatalf("%s sends a heartbeat while it is down", ev.Node)
			}
			for _, r := range ev.Reports {
				if p := progress[r.Attempt]; r.State == job.AttemptRunning && (r.Progress < p-1e-9 || r.Progress > 1) &&
					r.Attempt.Kind == job.Map {
					t.Fatalf("progress of %v is %v after %v", r.Attempt, r.Progress, p)
				}
				progress[r.Attempt] = r.Progress
			}
		}
	}
}

// checkOutputs recounts the map outputs of a job and compares the counts.
func checkOutputs(t *rapid.T, s *sim) {
	for _, live := range s.tr.Jobs().Live() {
		j := s.jobs[live.ID()]
		done, gone, bytes := 0, 0, 0.
		for m, o := range j.outputs {
			if o.state == outputReady {
				done++
				bytes += float64(j.spec.Maps[m].Output)
			} else if o.state == outputGone {
				gone++
			}
			if o.state == outputReady && !s.nodes[o.node].up {
				t.Fatalf("%v: the output of map %d is ready on a node that is down", j.id, m)
			}
		}
		if len(j.outputs) > 0 && (done != j.done || gone != j.gone || bytes != j.bytes) {
			t.Fatalf("%v: %d outputs ready, %d gone, %v bytes; counted %d, %d, %v", j.id, done, gone, bytes, j.done, j.gone, j.bytes)
		}
	}
}

func checkEnd(t *rapid.T, cfg *Config, s *sim) {
	r := s.result
	if r.Tracker.Refused > 0 || r.Succeeded+r.Failed+r.Killed != len(cfg.Jobs) || len(s.jobs) > 0 {
		t.Fatalf("%+v", r)
	}
	for i := range s.nodes {
		if nd := &s.nodes[i]; len(nd.attempts) > 0 || nd.users != 0 || nd.load.runnable > 1e-9 {
			t.Fatalf("%s still runs %d attempts with %d users, load %v", nd.name, len(nd.attempts), nd.users, nd.load.runnable)
		}
	}
	if cfg.Model.FailureRate > 0 || len(cfg.Model.Crashes) > 0 {
		return
	}
	var maps, reduces int64
	var input, fetched float64
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		maps += int64(len(j.Maps))
		reduces += int64(len(j.Reduces))
		for k := range j.Maps {
			input += float64(j.Maps[k].Input)
		}
		if k := newRunning(0, 0, j); len(j.Reduces) > 0 && j.Reduces[0].Duration == 0 {
			for x := range j.Reduces {
				fetched += k.wants(int32(x))
			}
			if k.all > 0 && fetched == 0 {
				t.Fatalf("nothing to fetch of %v", k.all)
			}
		}
	}
	read := 0.
	for _, b := range r.BytesRead {
		read += float64(b)
	}
	if r.Attempts[job.Map][job.AttemptSucceeded] != maps || r.Attempts[job.Reduce][job.AttemptSucceeded] != reduces {
		t.Fatalf("%v attempts of %d maps and %d reduces", r.Attempts, maps, reduces)
	}
	if read != input || r.BytesFetched < fetched*(1-1e-9)-1 || r.BytesFetched > fetched*(1+1e-9)+1 {
		t.Fatalf("read %v of %v, fetched %v of %v", read, input, r.BytesFetched, fetched)
	}
}
