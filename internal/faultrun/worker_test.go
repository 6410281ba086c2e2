package faultrun

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// worker is a machine's worker process, which may die and be started again: life
// counts that.
type worker struct {
	r       *run
	name    string
	up      bool
	gone    bool // for good
	life    int
	frozen  bool
	waiting []func() // what a frozen process does as soon as it wakes

	session    int
	seq        int
	acked      int
	running    map[job.AttemptID]*attempt
	ended      []tracker.Report // not known to have arrived
	failures   []tracker.FetchFailed
	outputs    map[job.AttemptID]bool
	disk       map[job.AttemptID]bool // outputs that a dead worker left
	registrars int

	// registered and lastHeard are the master's: the latest registration, and when
	// it heard of this life.
	registered int
	lastHeard  time.Duration
}

func newWorker(r *run, name string) *worker {
	return &worker{r: r, name: name, running: map[job.AttemptID]*attempt{}, outputs: map[job.AttemptID]bool{}}
}

func (w *worker) spec() cluster.Spec {
	return cluster.Spec{Name: w.name, MapSlots: 2, ReduceSlots: 1}
}

// heard reports whether the master has no reason to give the worker up.
func (w *worker) heard() bool { return w.up && w.r.now-w.lastHeard < nodeTimeout }

// soon has this life of the worker do something later, or when it is awake again.
func (w *worker) soon(d time.Duration, do func()) {
	life := w.life
	w.r.after(d, func() { w.awake(life, do) })
}

// awake does something in a life of the worker that may be over or frozen.
func (w *worker) awake(life int, do func()) {
	switch {
	case life != w.life || !w.up:
	case w.frozen:
		w.waiting = append(w.waiting, func() { w.awake(life, do) })
	default:
		do()
	}
}

// start begins a life with the outputs that are left.
func (w *worker) start(left map[job.AttemptID]bool) {
	w.up, w.life = true, w.life+1
	w.session, w.running, w.ended, w.failures = 0, map[job.AttemptID]*attempt{}, nil, nil
	if w.outputs = left; left == nil {
		w.outputs = map[job.AttemptID]bool{}
	}
	w.r.logf("%s starts with %d outputs", w.name, len(w.outputs))
	w.beat()
}

// crash ends a life. The outputs are lost with the machine, or not.
func (w *worker) crash() {
	if !w.up {
		return
	}
	w.r.did.Crashes++
	w.up, w.life = false, w.life+1
	if w.disk = nil; w.r.chance(50) {
		w.disk = w.outputs
	}
	w.r.logf("%s dies", w.name)
	w.waiting, w.frozen = nil, false
	w.r.after(second+w.r.upTo(50*second), func() {
		if !w.up && !w.gone {
			w.start(w.disk)
		}
	})
}

func (w *worker) freeze() {
	if !w.up || w.frozen {
		return
	}
	w.r.did.Freezes++
	w.frozen = true
	w.r.logf("%s freezes", w.name)
	life := w.life
	w.r.after(second+w.r.upTo(60*second), func() {
		if life == w.life {
			w.thaw()
		}
	})
}

// thaw lets a frozen worker do, at once, all that it would have done.
func (w *worker) thaw() {
	if !w.frozen {
		return
	}
	w.r.logf("%s wakes", w.name)
	w.frozen = false
	waiting := w.waiting
	w.waiting = nil
	for _, do := range waiting {
		do()
	}
}

// inOrder lists what runs, by name.
func (w *worker) inOrder() (list []*attempt) {
	if !w.up {
		return nil
	}
	//house:sorted sorted below
	for _, a := range w.running {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *attempt) int { return a.id.Compare(b.id) })
	return list
}

// beat registers or sends a heartbeat, for ever.
func (w *worker) beat() {
	w.soon(second, w.beat)
	if w.session == 0 {
		w.register()
	} else {
		w.heartbeat()
	}
}

// register says what the worker has: what runs, what has ended and was not
// answered yet, what lies on its disk.
func (w *worker) register() {
	g := registration{worker: w, join: tracker.Join{Node: w.spec()}}
	w.registrars++
	g.number = w.registrars
	for _, a := range w.inOrder() {
		g.join.Running = append(g.join.Running, a.id)
	}
	for i := range w.ended {
		g.join.Running = append(g.join.Running, w.ended[i].Attempt)
	}
	for _, id := range sortedIDs(w.outputs) {
		g.join.Outputs = append(g.join.Outputs, tracker.Output{Attempt: id})
	}
	life := w.life
	g.answer = func(session int, kill []tracker.Effect) {
		w.awake(life, func() {
			if w.session != 0 || g.number != w.registrars {
				return
			}
			w.session, w.acked, w.seq = session, 0, 0
			for _, e := range kill {
				w.carryOut(e)
			}
		})
	}
	w.r.send(false, func() {
		if m := w.r.master; m != nil && w.up && life == w.life {
			m.register(g)
		}
	})
}

func sortedIDs(set map[job.AttemptID]bool) (ids []job.AttemptID) {
	//house:sorted sorted below
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, job.AttemptID.Compare)
	return ids
}

// heartbeat reports all that runs and has ended. What is answered need not be said
// again.
func (w *worker) heartbeat() {
	w.seq++
	b := beat{worker: w, session: w.session, seq: w.seq, acked: w.acked, reports: slices.Clone(w.ended), failures: slices.Clone(w.failures)}
	for _, a := range w.inOrder() {
		a.ticks++
		b.reports = append(b.reports, tracker.Report{Attempt: a.id, Ticks: a.ticks, Progress: a.progress})
	}
	w.failures = nil
	life := w.life
	b.answer = func(again bool, actions []action) {
		w.awake(life, func() {
			if w.session != b.session {
				return
			}
			if again {
				w.session = 0
				w.register()
				return
			}
			w.answered(b.reports)
			for _, a := range actions {
				if a.number > w.acked {
					w.acked = a.number
					w.carryOut(a.effect)
				}
			}
		})
	}
	w.r.send(true, func() {
		if m := w.r.master; m != nil && life == w.life {
			m.heartbeat(b)
		}
	})
}

// answered forgets ends that have arrived, and notes what is now known to be done.
func (w *worker) answered(reports []tracker.Report) {
	for i := range reports {
		r := &reports[i]
		if r.State == job.AttemptRunning {
			continue
		}
		w.ended = slices.DeleteFunc(w.ended, func(e tracker.Report) bool { return e.Attempt == r.Attempt })
		if m := w.r.master; r.State == job.AttemptSucceeded && m != nil && m.valid(r.Attempt) {
			w.r.done[r.Attempt.TaskID] = success{r.Attempt, w, w.life}
		}
	}
}

// carryOut does what the master wants.
func (w *worker) carryOut(e tracker.Effect) {
	switch e.Kind {
	case tracker.Launch:
		if e.Speculative {
			w.r.did.Copies++
		}
		w.launch(e.Attempt)
	case tracker.Kill, tracker.CommitDenied:
		w.drop(e.Attempt)
	case tracker.JobDone:
		for _, a := range w.inOrder() {
			if a.id.Job == e.Job {
				w.drop(a.id)
			}
		}
		for _, id := range sortedIDs(w.outputs) {
			if id.Job == e.Job {
				delete(w.outputs, id)
			}
		}
	}
}

// drop stops an attempt and removes what it has left.
func (w *worker) drop(id job.AttemptID) {
	if d, ok := w.r.done[id.TaskID]; ok && d.attempt == id && id.Kind == job.Map && w.outputs[id] {
		delete(w.r.done, id.TaskID) // by order: what follows is no breach
		if m := w.r.master; m != nil && m.valid(id) && m.verdicts[id.Job] == 0 {
			w.r.breaks("%v, whose output counts, is to be removed", id)
		}
	}
	delete(w.running, id)
	delete(w.outputs, id)
	w.ended = slices.DeleteFunc(w.ended, func(e tracker.Report) bool { return e.Attempt == id })
}

// attempt is a task under way in a process of its own.
type attempt struct {
	w        *worker
	id       job.AttemptID
	ticks    uint64
	progress float64
	fetched  map[int32]bool
	tries    map[job.AttemptID]int
	asked    bool
}

func (w *worker) launch(id job.AttemptID) {
	r := w.r
	if r.started[id] {
		r.breaks("%v is launched again, on %s", id, w.name)
	}
	r.started[id] = true
	r.did.Launches++
	if d, ok := r.done[id.TaskID]; ok {
		commits := id.Kind == job.Reduce || r.specs[id.Job].Reduces == 0
		if m := r.master; commits && m != nil && m.valid(id) {
			r.breaks("%v was done by %v and is done again", id.TaskID, d.attempt)
		}
	}
	a := &attempt{w: w, id: id, progress: r.rng.Float64(), fetched: map[int32]bool{}, tries: map[job.AttemptID]int{}}
	w.running[id] = a
	r.logf("%s starts %v", w.name, id)
	a.soon(time.Duration(1+r.rng.IntN(12))*second, a.work)
}

// soon has the attempt go on later, if it still runs then.
func (a *attempt) soon(d time.Duration, do func()) {
	a.w.soon(d, func() {
		if a.w.running[a.id] == a {
			do()
		}
	})
}

// work is the attempt at the end of its own work: it fails, waits for maps, has
// its output lying there, or wants to commit.
func (a *attempt) work() {
	r := a.w.r
	j := r.specs[a.id.Job]
	switch {
	case !r.calm && r.chance(6):
		a.end(job.AttemptFailed)
	case a.id.Kind == job.Reduce && !a.fetch(len(j.Splits)):
		a.soon(second, a.work)
	case a.id.Kind == job.Map && j.Reduces > 0:
		a.w.outputs[a.id] = true
		a.end(job.AttemptSucceeded)
	default:
		a.commit()
	}
}

// fetch gets what map outputs there are, and reports whether it has all.
func (a *attempt) fetch(maps int) bool {
	r := a.w.r
	if r.master == nil {
		return len(a.fetched) == maps
	}
	for i := range int32(maps) {
		t := r.master.tracker.Jobs().Task(job.TaskID{Job: a.id.Job, Index: i})
		if t == nil || a.fetched[i] || t.Success() == nil {
			continue
		}
		from := t.Success()
		w := r.named(r.master.tracker.Nodes().Node(from.Node()).Name())
		cut := !r.calm && r.chance(3)
		if w.up && !w.frozen && !cut && w.outputs[from.ID()] {
			a.fetched[i] = true
			continue
		}
		if a.tries[from.ID()]++; a.tries[from.ID()]%3 == 0 {
			r.refused[from.ID()] = true
			a.w.failures = append(a.w.failures, tracker.FetchFailed{Reduce: a.id, Map: from.ID(),
				SourceGone: w.up && !w.frozen && !w.outputs[from.ID()]})
		}
	}
	return len(a.fetched) == maps
}

func (r *run) named(name string) *worker {
	for _, w := range r.workers {
		if w.name == name {
			return w
		}
	}
	return nil
}

// commit asks until there is an answer, then makes the output visible, which takes
// a moment.
func (a *attempt) commit() {
	a.soon(2*second, func() {
		if !a.asked {
			a.commit()
		}
	})
	w := a.w
	life := w.life
	w.r.send(true, func() {
		if m := w.r.master; m != nil {
			m.askCommit(w, a.id, func(granted bool) { w.awake(life, func() { a.decided(granted) }) })
		}
	})
}

func (a *attempt) decided(granted bool) {
	if a.asked || a.w.running[a.id] != a {
		return
	}
	a.asked = true
	if !granted {
		a.end(job.AttemptKilled)
		return
	}
	moment := a.w.r.upTo(second)
	if a.w.r.chance(35) {
		moment = a.w.r.upTo(40 * second)
	}
	a.soon(moment, func() {
		r := a.w.r
		if m := r.master; m != nil && !m.valid(a.id) {
			r.did.Zombies++
		}
		if r.storage.commit(a.id) {
			a.end(job.AttemptSucceeded)
		} else {
			a.end(job.AttemptFailed)
		}
	})
}

// end is the end of the attempt's process, to be reported.
func (a *attempt) end(state job.AttemptState) {
	a.w.r.logf("%s: %v has %v", a.w.name, a.id, state)
	delete(a.w.running, a.id)
	a.w.ended = append(a.w.ended, tracker.Report{Attempt: a.id, State: state, Error: "x"})
}
