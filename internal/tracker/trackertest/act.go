package trackertest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The values to draw from. Some hosts of splits never join, so that locality cannot
// always be had.
var (
	nodeNames  = []string{"n1", "n2", "n3", "n4", "n5", "n6"}
	splitHosts = []string{"h1", "h2", "h5", "h9"}
	pools      = []string{"", "", "p1", "p2", "p3"}
	users      = []string{"", "ann", "bob"}
)

// Act draws and takes one random action: nodes that join, leave and send
// heartbeats, jobs that come, are killed and change priority, attempts that
// report anything, also falsely.
func (w *FakeCluster) Act() {
	t := w.t
	node := rapid.SampledFrom(nodeNames).Draw(t, "node")
	w.now += time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second
	switch what := rapid.IntRange(0, 27).Draw(t, "what"); {
	case what < 2:
		w.Join(node, rapid.IntRange(0, 3).Draw(t, "maps"), rapid.IntRange(0, 2).Draw(t, "reduces"))
	case what == 2 && w.live[node]:
		w.dropNode(node)
		w.step(&tracker.Lose{Node: node})
	case what < 5:
		w.submit()
	case what < 10:
		w.step(&tracker.Heartbeat{Node: node, Load: drawLoad(t)})
	case what < 16:
		w.actOnAttempt(node)
	case what == 16:
		w.tick()
	case what == 17 && len(w.jobs) > 0:
		w.step(&tracker.SetPriority{Job: rapid.SampledFrom(w.jobs).Draw(t, "job"),
			Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))})
	// Kills are rarer than other actions. Most scripts would otherwise end their jobs before
	// anything happens to their tasks.
	case what == 18 && len(w.jobs) > 0 && rapid.IntRange(0, 4).Draw(t, "kill") == 0:
		w.step(&tracker.KillJob{Job: rapid.SampledFrom(w.jobs).Draw(t, "job")})
	// A report about an attempt that the node may never have run, in any state: the tracker must
	// not trust it.
	case what == 19:
		w.step(&tracker.Heartbeat{Node: node, NoWork: true, Reports: []tracker.Report{{
			Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1, Index: int32(rapid.IntRange(0, 3).Draw(t, "index"))}},
			State:   job.AttemptState(rapid.IntRange(0, 3).Draw(t, "state"))}}})
		w.resync()
	case what > 19:
		w.actMore(node, what)
	}
}

// actMore takes the rarer actions.
func (w *FakeCluster) actMore(node string, what int) {
	t := w.t
	switch {
	case what == 20 && slices.Contains(w.nodes, node):
		w.rejoin(node, func() bool { return rapid.IntRange(0, 3).Draw(t, "keep") > 0 })
	case what == 21:
		w.drain(node, rapid.Bool().Draw(t, "undo"))
	case what == 22 && len(w.jobs) > 0:
		w.step(&tracker.MoveJob{Job: rapid.SampledFrom(w.jobs).Draw(t, "job"), Pool: rapid.SampledFrom(pools).Draw(t, "pool")})
	case what == 23 && len(w.runs[node]) > 0:
		w.step(&tracker.KillAttempt{Attempt: rapid.SampledFrom(w.runs[node]).Draw(t, "attempt").id})
	case what == 24 && w.live[node]:
		w.beatAll(node)
	case what == 27:
		w.Offer()
	case what > 24 && len(w.waiting) > 0:
		failure := rapid.SampledFrom([]string{"", "", "the storage is down"}).Draw(t, "failure")
		w.finishOutput(rapid.IntRange(0, len(w.waiting)-1).Draw(t, "output"), failure)
	}
}

// Offer offers all nodes to the tracker as long as it wants that.
func (w *FakeCluster) Offer() {
	for _, due := w.Tracker.OfferDue(); due; _, due = w.Tracker.OfferDue() {
		w.step(&tracker.Offer{Nodes: slices.Clone(w.nodes)})
	}
}

// beatAll lets a node name all that it runs but for some launches, of which one
// kind is on its way and the other was lost.
func (w *FakeCluster) beatAll(node string) {
	hb := &tracker.Heartbeat{Node: node, NoWork: true, All: true}
	for _, r := range slices.Clone(w.runs[node]) {
		switch rapid.IntRange(0, 4).Draw(w.t, "heard") {
		case 0:
			hb.Unheard = append(hb.Unheard, r.id)
		case 1:
			w.gone(node, r.id)
		default:
			hb.Reports = append(hb.Reports, tracker.Report{Attempt: r.id})
		}
	}
	w.step(hb)
}

func drawLoad(t *rapid.T) cluster.Load {
	x := rapid.Float64Range(0, 1)
	return cluster.Load{CPU: x.Draw(t, "cpu"), MemoryFree: x.Draw(t, "memory"), LoadAverage: 4 * x.Draw(t, "load")}
}

// resync takes over what the tracker thinks runs, after a report that was made
// up and may have named a running attempt.
func (w *FakeCluster) resync() {
	for _, name := range w.nodes {
		for _, r := range slices.Clone(w.runs[name]) {
			if a := w.Tracker.Jobs().Attempt(r.id); a == nil || a.State() != job.AttemptRunning {
				w.gone(name, r.id)
				if a != nil && a.State() == job.AttemptSucceeded {
					w.output[r.id.TaskID] = r.id
				}
			}
		}
	}
}

func (w *FakeCluster) tick() {
	w.step(&tracker.Tick{})
	for _, n := range w.Tracker.Nodes().All() {
		if !n.Alive() && !n.Absent() && w.live[n.Name()] {
			w.dropNode(n.Name())
		}
	}
}

func (w *FakeCluster) submit() {
	t := w.t
	s := job.Spec{Splits: make([]job.Split, rapid.IntRange(0, 6).Draw(t, "splits")),
		Reduces: rapid.IntRange(0, 3).Draw(t, "reduces"), Request: job.Request{SlowStart: rapid.SampledFrom([]float64{-1, 0, 0.5, 1}).Draw(t, "slowstart"),
			// Short, so that the ticks of a script let attempts time out.
			TaskTimeout: time.Minute, MaxAttempts: rapid.IntRange(1, 4).Draw(t, "attempts"),
			Pool: rapid.SampledFrom(pools).Draw(t, "pool"), User: rapid.SampledFrom(users).Draw(t, "user"),
			Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))}}
	for i := range s.Splits {
		s.Splits[i].Hosts = rapid.SliceOfN(rapid.SampledFrom(splitHosts), 0, 3).Draw(t, "hosts")
		s.Splits[i].Bytes = 1 << rapid.IntRange(0, 30).Draw(t, "bytes")
	}
	if !w.NoWide {
		s.TaskMemory = max(0, int64(rapid.IntRange(-2, maxWidth).Draw(t, "width"))) * SlotMemory
	}
	w.step(&tracker.Submit{Spec: s})
}

func (w *FakeCluster) actOnAttempt(node string) {
	t := w.t
	if len(w.runs[node]) == 0 {
		return
	}
	id := rapid.SampledFrom(w.runs[node]).Draw(t, "attempt").id
	// Four of ten succeed, so that jobs end within the sixty steps of a script.
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0:
		w.tell(node, id, job.AttemptFailed)
	case 1:
		w.tell(node, id, job.AttemptKilled)
	case 2, 3:
		w.step(&tracker.AskCommit{Attempt: id})
	case 4:
		w.step(&tracker.Heartbeat{Node: node, NoWork: true, Reports: []tracker.Report{{Attempt: id,
			Progress: rapid.Float64Range(0, 1).Draw(t, "progress")}}})
	case 5:
		if id.Kind == job.Reduce {
			w.fetchFailed(id)
		}
	default:
		w.succeed(node, id)
	}
}

// fetchFailed reports that a reduce could not fetch a map's output, sometimes the output
// of an attempt that was given up long ago.
func (w *FakeCluster) fetchFailed(reduce job.AttemptID) {
	t := w.t
	id := job.TaskID{Job: reduce.Job, Index: int32(rapid.IntRange(0, 5).Draw(t, "map"))}
	of := job.AttemptID{TaskID: id, Number: int32(rapid.IntRange(0, 2).Draw(t, "try"))}
	// Mostly the present output: a report about another one changes nothing.
	if done, ok := w.output[id]; ok && rapid.IntRange(0, 3).Draw(t, "stale") > 0 {
		of = done
	}
	w.step(&tracker.FetchFailed{Reduce: reduce, Map: of, SourceGone: rapid.Bool().Draw(t, "gone")})
}

// succeed finishes an attempt as an honest node would: a reduce needs all maps,
// and it asks to commit.
func (w *FakeCluster) succeed(node string, id job.AttemptID) {
	if id.Kind == job.Reduce && !w.Tracker.Jobs().Get(id.Job).MapsDone() {
		return
	}
	w.step(&tracker.AskCommit{Attempt: id})
	if slices.ContainsFunc(w.runs[node], func(r running) bool { return r.id == id }) {
		w.tell(node, id, job.AttemptSucceeded)
	}
}
