package tyrex

import (
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// plan is a job of a play: when it comes, and how long its tasks take, in
// seconds.
type plan struct {
	at            int
	maps, reduces []int
}

// play is one machine with all the slots under the real tracker. Time jumps from
// event to event; what ends at one instant is reported in one heartbeat.
type play struct {
	t    *testing.T
	tr   *tracker.Tracker
	tags *Tags // nil under another order
	now  int
	jobs []plan
	runs map[job.AttemptID]int // when a running attempt will end
	logs []launch
	done []int // when each job ended
	in   []int // and in which partition
	most [job.Kinds]map[int]int
}

// launch says that a task ran in a partition.
type launch struct {
	task     job.TaskID
	part     int
	from, to int
}

func seconds(s int) time.Duration { return time.Duration(s) * time.Second }

func newPlay(t *testing.T, o sched.Order, mapSlots, reduceSlots int) *play {
	p := &play{t: t, runs: map[job.AttemptID]int{}, most: [job.Kinds]map[int]int{{}, {}}}
	switch o := o.(type) {
	case *Tags:
		p.tags = o
	case *Learner:
		p.tags = o.Tags
	}
	p.tr = tracker.New(tracker.Config{NodeTimeout: -1}, sched.Compose(hadoop.NewStatic(hadoop.StaticConfig{}), o,
		hadoop.NewGreedy(false), &hadoop.None{}))
	p.step(&tracker.Join{Node: node(mapSlots, reduceSlots)})
	return p
}

// run plays until all jobs have ended.
func (p *play) run(plans ...plan) *play {
	p.jobs, p.done, p.in = plans, make([]int, len(plans)), make([]int, len(plans))
	for next := 0; next < len(plans) || len(p.runs) > 0; {
		p.now = p.soonest(next)
		for ; next < len(plans) && plans[next].at == p.now; next++ {
			p.submit(next)
		}
		p.beat()
	}
	if live := p.tr.Jobs().Live(); len(live) > 0 {
		p.t.Fatalf("%d jobs are stuck at %d s", len(live), p.now)
	}
	return p
}

func (p *play) submit(i int) {
	p.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, len(p.jobs[i].maps)),
		Reduces: len(p.jobs[i].reduces), Request: job.Request{SlowStart: 1, TaskTimeout: -1}}})
}

// soonest returns the time of the next submission or end of an attempt.
func (p *play) soonest(next int) int {
	at := 1 << 60
	if next < len(p.jobs) {
		at = p.jobs[next].at
	}
	for _, end := range p.runs {
		at = min(at, end)
	}
	return at
}

// beat reports the attempts that end now, in order of launch, and records the
// new ones.
func (p *play) beat() {
	hb := &tracker.Heartbeat{Node: "n1"}
	for _, a := range p.tr.Nodes().Get("n1").Attempts() {
		if p.runs[a.ID()] == p.now {
			hb.Reports = append(hb.Reports, tracker.Report{Attempt: a.ID(), State: job.AttemptSucceeded})
			delete(p.runs, a.ID())
		}
	}
	was := make([]int, len(p.jobs))
	for _, j := range p.tr.Jobs().Live() {
		was[j.ID()-1] = p.partition(j)
	}
	p.step(hb)
	for i, part := range was {
		if j := p.tr.Jobs().Get(job.ID(i + 1)); part > 0 && j.State() == job.Succeeded {
			p.done[i], p.in[i] = p.now, part
		}
	}
}

func (p *play) partition(j *job.Job) int {
	if p.tags == nil {
		return 1
	}
	return p.tags.Partition(j)
}

func (p *play) step(ev tracker.Event) {
	for _, e := range p.tr.Step(seconds(p.now), ev) {
		switch e.Kind {
		case tracker.Launch:
			p.launch(e.Attempt)
		case tracker.Kill:
			p.t.Fatalf("at %d s: %v", p.now, e)
		}
	}
}

func (p *play) launch(id job.AttemptID) {
	times := p.jobs[id.Job-1].maps
	if id.Kind == job.Reduce {
		times = p.jobs[id.Job-1].reduces
	}
	a := p.tr.Jobs().Attempt(id)
	if id.Number > 0 || p.tags != nil && int(a.Label()) != p.tags.Partition(a.Job()) {
		p.t.Errorf("%v is labelled %d", id, a.Label())
	}
	p.runs[id] = p.now + times[id.Index]
	p.logs = append(p.logs, launch{id.TaskID, int(a.Label()), p.now, p.runs[id]})
	if p.tags == nil {
		return
	}
	used, limit := p.tags.Slots(int(a.Label()), id.Kind)
	if used > limit && p.tags.cfg.Lend == LendNone {
		p.t.Errorf("%v: partition %d uses %d slots of %d", id, a.Label(), used, limit)
	}
	p.most[id.Kind][int(a.Label())] = max(p.most[id.Kind][int(a.Label())], used)
}

// service is the time that a job's tasks took in each partition.
func (p *play) service(id job.ID) (sums [4]int) {
	for _, l := range p.logs {
		if l.task.Job == id {
			sums[l.part] += l.to - l.from
		}
	}
	return sums
}

func (p *play) want(done []int, in []int) {
	p.t.Helper()
	if !slices.Equal(p.done, done) || !slices.Equal(p.in, in) {
		p.t.Errorf("done at %v in partitions %v, want %v in %v", p.done, p.in, done, in)
	}
}

func (p *play) wantService(id job.ID, want ...int) {
	p.t.Helper()
	if got := p.service(id); !slices.Equal(got[1:1+len(want)], want) {
		p.t.Errorf("%v had %v s in the partitions, want %v", id, got[1:], want)
	}
}

// wantTask checks when and where a map ran.
func (p *play) wantTask(id job.ID, index int32, part, from, to int) {
	p.t.Helper()
	task := job.TaskID{Job: id, Index: index}
	at := slices.IndexFunc(p.logs, func(l launch) bool { return l.task == task })
	if want := (launch{task, part, from, to}); at < 0 || p.logs[at] != want {
		p.t.Errorf("%v: %+v, want %+v", task, p.logs[max(0, at)], want)
	}
}

// shares makes capacities for both kinds.
func shares(x ...float64) Config {
	return Config{Capacities: [job.Kinds][]float64{x, x}, ReduceGate: 1}
}

func staticTags(t testing.TB, c Config, timers ...int) *Tags {
	cfg := StaticConfig{Config: c}
	for _, s := range timers {
		cfg.Timers = append(cfg.Timers, seconds(s))
	}
	o, err := NewStatic(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func dynamicTags(t testing.TB, c Config, sample string) *Learner {
	of, err := sampleValues.Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewDynamic(DynamicConfig{Config: c, Threshold: 2, Sample: of})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func fifo(testing.TB) sched.Order { return hadoop.NewFIFO() }

func times(n, each int) []int { return slices.Repeat([]int{each}, n) }
