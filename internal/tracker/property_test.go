package tracker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// world is what a shell and its nodes would know, built from effects alone, and
// checks the promises that effects make.
type world struct {
	t      *rapid.T
	tr     *Tracker
	now    time.Duration
	slots  map[string][job.Kinds]int
	nodes  []string
	live   map[string]bool
	runs   map[string][]running // by node, in order of launch
	grants map[job.TaskID]job.AttemptID
	output map[job.TaskID]job.AttemptID
	ended  map[job.ID]job.State
	jobs   []job.ID
	log    []string
}

type running struct {
	id   job.AttemptID
	slot job.Kind
}

func newWorld(t *rapid.T, policy string) *world {
	return &world{t: t, tr: New(Config{MaxNodeFailures: 3}, testPolicy(nil, policy)),
		slots: map[string][job.Kinds]int{}, live: map[string]bool{}, runs: map[string][]running{},
		grants: map[job.TaskID]job.AttemptID{}, output: map[job.TaskID]job.AttemptID{}, ended: map[job.ID]job.State{}}
}

func (w *world) step(ev Event) {
	effects := w.tr.Step(w.now, ev)
	w.log = append(w.log, FormatEvent(ev))
	launched, ended := false, false
	for _, e := range effects {
		w.log = append(w.log, "  "+e.String())
		if e.Kind == Kill && launched || e.Kind != JobDone && ended {
			w.t.Fatalf("effects out of order: %v", effects)
		}
		launched, ended = launched || e.Kind == Launch, ended || e.Kind == JobDone
		w.apply(e)
	}
	if err := recount(w.tr); err != nil {
		w.t.Fatalf("after %s: %v", FormatEvent(ev), err)
	}
	if s := w.tr.Stats(); s.Refused > 0 {
		w.t.Fatalf("after %s: refused: %s", FormatEvent(ev), s.LastRefusal)
	}
}

func (w *world) apply(e Effect) {
	if _, over := w.ended[e.Job]; over && (e.Kind == Launch || e.Kind == JobDone || e.Kind == CommitGranted) {
		w.t.Fatalf("%v after the job's end", e)
	}
	switch e.Kind {
	case JobAccepted:
		w.jobs = append(w.jobs, e.Job)
	case Launch:
		w.runs[e.Node] = append(w.runs[e.Node], running{e.Attempt, e.Slot})
		used := 0
		for _, r := range w.runs[e.Node] {
			if r.slot == e.Slot {
				used++
			}
		}
		if !w.live[e.Node] || used > w.slots[e.Node][e.Slot] {
			w.t.Fatalf("%v: slots over-committed", e)
		}
		if _, done := w.output[e.Attempt.TaskID]; done {
			w.t.Fatalf("%v: the task is done", e)
		}
	case Kill, CommitDenied:
		w.gone(e.Node, e.Attempt)
	case CommitGranted:
		if g, ok := w.grants[e.Attempt.TaskID]; ok && g != e.Attempt {
			w.t.Fatalf("%v while %v holds the grant", e, g)
		}
		w.grants[e.Attempt.TaskID] = e.Attempt
	case MapLost:
		if w.output[e.Attempt.TaskID] != e.Attempt {
			w.t.Fatalf("%v: not the task's output", e)
		}
		delete(w.output, e.Attempt.TaskID)
	case JobDone:
		w.ended[e.Job] = e.State
	}
}

// gone forgets a running attempt and the grant that it held.
func (w *world) gone(node string, id job.AttemptID) {
	w.runs[node] = slices.DeleteFunc(w.runs[node], func(r running) bool { return r.id == id })
	if w.grants[id.TaskID] == id {
		delete(w.grants, id.TaskID)
	}
}

// tell reports an attempt's end and checks that a success counts once.
func (w *world) tell(node string, id job.AttemptID, state job.AttemptState) {
	w.gone(node, id)
	w.step(&Heartbeat{Node: node, Reports: []Report{{Attempt: id, State: state, Error: "x"}}, NoWork: true})
	a := w.tr.Jobs().Attempt(id)
	if a == nil || a.State() != job.AttemptSucceeded || state != job.AttemptSucceeded {
		return
	}
	if before, ok := w.output[id.TaskID]; ok && before != id {
		w.t.Fatalf("%v succeeded after %v had", id, before)
	}
	if g, ok := w.grants[id.TaskID]; ok && g != id {
		w.t.Fatalf("%v succeeded while %v held the grant", id, g)
	}
	w.output[id.TaskID] = id
}

func (w *world) join(name string, maps, reduces int) {
	w.dropNode(name)
	w.slots[name], w.live[name] = [job.Kinds]int{maps, reduces}, true
	if !slices.Contains(w.nodes, name) {
		w.nodes = append(w.nodes, name)
	}
	w.step(&Join{Node: cluster.Spec{Name: name, Host: "h" + name[1:], Rack: "/r" + name[len(name)-1:],
		MapSlots: maps, ReduceSlots: reduces}})
}

func (w *world) dropNode(name string) {
	for _, r := range slices.Clone(w.runs[name]) {
		w.gone(name, r.id)
	}
	w.live[name] = false
}

// act draws and takes one random action.
func (w *world) act() {
	t := w.t
	node := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "n5", "n6"}).Draw(t, "node")
	w.now += time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second
	switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
	case what < 2:
		w.join(node, rapid.IntRange(0, 3).Draw(t, "maps"), rapid.IntRange(0, 2).Draw(t, "reduces"))
	case what == 2 && w.live[node]:
		w.dropNode(node)
		w.step(&Lose{Node: node})
	case what < 5:
		w.submit()
	case what < 10:
		w.step(&Heartbeat{Node: node})
	case what < 16:
		w.actOnAttempt(node)
	case what == 16:
		w.tick()
	case what == 17 && len(w.jobs) > 0:
		w.step(&SetPriority{Job: rapid.SampledFrom(w.jobs).Draw(t, "job"),
			Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))})
	case what == 18 && len(w.jobs) > 0 && rapid.IntRange(0, 4).Draw(t, "kill") == 0:
		w.step(&KillJob{Job: rapid.SampledFrom(w.jobs).Draw(t, "job")})
	case what == 19:
		w.step(&Heartbeat{Node: node, NoWork: true, Reports: []Report{{
			Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1, Index: int32(rapid.IntRange(0, 3).Draw(t, "index"))}},
			State:   job.AttemptState(rapid.IntRange(0, 3).Draw(t, "state"))}}})
		w.resync()
	}
}

// resync takes over what the tracker thinks runs, after a report that was made
// up and may have named a running attempt.
func (w *world) resync() {
	for _, name := range w.nodes {
		for _, r := range slices.Clone(w.runs[name]) {
			if a := w.tr.Jobs().Attempt(r.id); a == nil || a.State() != job.AttemptRunning {
				w.gone(name, r.id)
				if a != nil && a.State() == job.AttemptSucceeded {
					w.output[r.id.TaskID] = r.id
				}
			}
		}
	}
}

func (w *world) tick() {
	w.step(&Tick{})
	for _, n := range w.tr.Nodes().All() {
		if !n.Alive() && w.live[n.Name()] {
			w.dropNode(n.Name())
		}
	}
}

func (w *world) submit() {
	t := w.t
	s := job.Spec{Splits: make([]job.Split, rapid.IntRange(0, 6).Draw(t, "splits")),
		Reduces: rapid.IntRange(0, 3).Draw(t, "reduces"), SlowStart: rapid.SampledFrom([]float64{-1, 0, 0.5, 1}).Draw(t, "slowstart"),
		TaskTimeout: time.Minute, MaxAttempts: rapid.IntRange(1, 4).Draw(t, "attempts")}
	for i := range s.Splits {
		s.Splits[i].Hosts = rapid.SliceOfN(rapid.SampledFrom([]string{"h1", "h2", "h5", "h9"}), 0, 3).Draw(t, "hosts")
	}
	w.step(&Submit{Spec: s})
}

func (w *world) actOnAttempt(node string) {
	t := w.t
	if len(w.runs[node]) == 0 {
		return
	}
	id := rapid.SampledFrom(w.runs[node]).Draw(t, "attempt").id
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0:
		w.tell(node, id, job.AttemptFailed)
	case 1:
		w.tell(node, id, job.AttemptKilled)
	case 2, 3:
		w.step(&AskCommit{Attempt: id})
	case 4:
		w.step(&Heartbeat{Node: node, NoWork: true, Reports: []Report{{Attempt: id,
			Progress: rapid.Float64Range(0, 1).Draw(t, "progress")}}})
	case 5:
		if id.Kind == job.Reduce {
			w.step(&FetchFailed{Reduce: id, Map: job.TaskID{Job: id.Job, Index: int32(rapid.IntRange(0, 5).Draw(t, "map"))},
				SourceGone: rapid.Bool().Draw(t, "gone")})
		}
	default:
		w.succeed(node, id)
	}
}

// succeed finishes an attempt as an honest node would: a reduce needs all maps,
// and commits are asked for.
func (w *world) succeed(node string, id job.AttemptID) {
	if id.Kind == job.Reduce && !w.tr.Jobs().Get(id.Job).MapsDone() {
		return
	}
	w.step(&AskCommit{Attempt: id})
	if slices.ContainsFunc(w.runs[node], func(r running) bool { return r.id == id }) {
		w.tell(node, id, job.AttemptSucceeded)
	}
}

// settle lets every node behave well until all jobs have ended.
func (w *world) settle() {
	w.join("n1", 1, 1)
	for round := 0; len(w.tr.Jobs().Live()) > 0; round++ {
		if round > 200 {
			w.t.Fatalf("jobs do not end: %v", w.tr.Jobs().Live())
		}
		w.now += 10 * time.Second
		w.tick() // time-outs first: they make tasks pending
		for _, n := range w.nodes {
			if w.live[n] {
				w.step(&Heartbeat{Node: n})
			}
		}
		if idle := idleWork(w.tr); idle != "" {
			w.t.Fatal(idle)
		}
		for _, n := range w.nodes {
			for _, r := range slices.Clone(w.runs[n]) {
				if slices.Contains(w.runs[n], r) {
					w.succeed(n, r.id)
				}
			}
		}
	}
}

// Safety: slots are never over-committed, a task succeeds at most once (again
// only if its output was lost), at most one grant is out per task, every count
// equals a recount, each job ends exactly once. Liveness: no task waits while it
// could run, and with well-behaved nodes every job ends.
func TestTrackerKeepsItsPromises(t *testing.T) {
	for _, policy := range []string{"fifo", "copies", "lending"} {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, policy)
				w.join("n1", 2, 1)
				for range rapid.IntRange(1, 120).Draw(t, "steps") {
					w.act()
				}
				w.settle()
				for _, id := range w.jobs {
					if _, ok := w.ended[id]; !ok {
						t.Fatalf("%v never ended", id)
					}
				}
			})
		})
	}
}

// The same events give the same effects, whatever the order of maps in memory.
func TestStepIsDeterministic(t *testing.T) {
	play := func() []string {
		var log []string
		rng := uint64(1)
		draw := func(n int) int { rng = rng*6364136223846793005 + 1442695040888963407; return int(rng>>33) % n }
		tr := New(Config{}, testPolicy(t, "copies"))
		var last []job.AttemptID
		for i := range 3000 {
			var ev Event = &Heartbeat{Node: fmt.Sprint("n", draw(8))}
			switch draw(10) {
			case 0:
				ev = joinEvent(fmt.Sprint("n", draw(8)), draw(4), draw(3))
			case 1:
				s := job.Spec{Splits: make([]job.Split, draw(9)), Reduces: draw(3)}
				for i := range s.Splits {
					s.Splits[i].Hosts = []string{fmt.Sprint("n", draw(8)), fmt.Sprint("n", draw(8))}
				}
				ev = &Submit{Spec: s}
			case 2:
				ev = &Lose{Node: fmt.Sprint("n", draw(8))}
			case 3, 4, 5, 6:
				if len(last) > 0 {
					a := last[draw(len(last))]
					at := tr.Jobs().Attempt(a)
					if at != nil {
						ev = &Heartbeat{Node: tr.Nodes().Node(at.Node()).Name(), Reports: []Report{{Attempt: a, State: job.AttemptState(1 + draw(3))}}}
					}
				}
			}
			log = append(log, FormatEvent(ev))
			for _, e := range tr.Step(time.Duration(i)*time.Second, ev) {
				log = append(log, e.String())
				if e.Kind == Launch {
					last = append(last, e.Attempt)
				}
			}
		}
		return log
	}
	if a, b := play(), play(); !slices.Equal(a, b) {
		t.Fatal("two runs of one script differ")
	} else if len(a) < 4000 {
		t.Fatalf("the script did little: %d lines", len(a))
	}
}
