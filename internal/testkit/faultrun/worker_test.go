package faultrun

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// worker is a machine with a worker process, which may be killed and started again.
// The process is the real protocol agent in a shell with a virtual clock.
type worker struct {
	r        *cluster
	name     string
	up       bool
	gone     bool // never starts again
	life     int  // counts starts and kills
	frozen   bool
	deferred []func() // what the frozen process does as soon as it wakes up

	agent       *agent.Agent
	highestTerm uint64        // of which this life has heard
	termAt      time.Duration // when it last accepted an answer
	session     string        // the current one; "" while the worker must register
	lastSent    int64         // number of the latest registration
	running     map[job.AttemptID]*attempt
	drivers     map[agent.DriverID]*driver
	outputs     map[job.AttemptID]bool
	disk        map[job.AttemptID]bool // outputs that a killed process has left
	readers     map[job.ID]*outputReader
	jobs        map[job.ID]bool // whose description the master has sent

	// granted and lastHeard are about the master: the session that it has granted last,
	// and when it last accepted a message of this life.
	granted    string
	grantedBy  int   // the life of the master
	registered int64 // number of the registration that it has taken in last, in this life
	lastHeard  time.Duration
}

// outputReader polls the map outputs of a job for the reduces on a worker.
type outputReader struct {
	cursor  string
	known   map[int32]*slotwisev1.MapOutput
	polling bool
}

func newWorker(r *cluster, name string) *worker {
	return &worker{r: r, name: name}
}

// heard reports whether the master has no reason to give the worker up, however fast its clock
// is.
func (w *worker) heard() bool { return w.up && w.r.now-w.lastHeard < nodeTimeout*9/10 }

// inSession reports whether the master that runs accepts messages of a session. Once the
// master has given a worker up, it rejects the worker's messages until the next registration.
func (w *worker) inSession(session string) bool {
	if session != w.granted || w.grantedBy != w.r.lives || w.r.serving != w.r.master {
		return false
	}
	n := w.r.master.core.Tracker().Nodes().Get(w.name)
	return n != nil && n.Alive()
}

// later has this life of the worker do something after a delay, or when it wakes up.
func (w *worker) later(d time.Duration, do func()) {
	life := w.life
	w.r.after(d, func() { w.inLife(life, do) })
}

// inLife does something in a life of the worker, if that has not ended; if it is
// frozen, when it wakes up.
func (w *worker) inLife(life int, do func()) {
	switch {
	case life != w.life || !w.up:
	case w.frozen:
		w.deferred = append(w.deferred, func() { w.inLife(life, do) })
	default:
		do()
	}
}

// start begins a life that finds map outputs on its disk.
func (w *worker) start(outputs map[job.AttemptID]bool) {
	w.up, w.life = true, w.life+1
	w.agent, w.session, w.registered, w.highestTerm, w.termAt = agent.New(), "", 0, 0, 0
	w.drivers = map[agent.DriverID]*driver{}
	w.running, w.readers, w.jobs = map[job.AttemptID]*attempt{}, map[job.ID]*outputReader{}, map[job.ID]bool{}
	if w.outputs = outputs; outputs == nil {
		w.outputs = map[job.AttemptID]bool{}
	}
	w.r.logf("%s starts with %d outputs", w.name, len(w.outputs))
	w.report()
}

// kill ends a life. The outputs are lost with the machine, or stay on the disk.
func (w *worker) kill() {
	if !w.up {
		return
	}
	w.r.counts.WorkerKills++
	w.up, w.life = false, w.life+1
	if w.disk = nil; w.r.chance(50) {
		w.disk = w.outputs
	}
	w.r.logf("%s is killed", w.name)
	w.deferred, w.frozen = nil, false
	w.r.after(second+w.r.randomUpTo(50*second), func() {
		if !w.up && !w.gone {
			w.start(w.disk)
		}
	})
}

// freeze stops the process for a while.
func (w *worker) freeze() {
	if !w.up || w.frozen {
		return
	}
	w.r.counts.Freezes++
	w.frozen = true
	w.r.logf("%s freezes", w.name)
	life := w.life
	w.r.after(second+w.r.randomUpTo(60*second), func() {
		if life == w.life {
			w.wake()
		}
	})
}

// wake has a frozen process do at once everything that it would have done meanwhile.
func (w *worker) wake() {
	if !w.frozen {
		return
	}
	w.r.logf("%s wakes up", w.name)
	w.frozen = false
	deferred := w.deferred
	w.deferred = nil
	for _, do := range deferred {
		do()
	}
}

// runningInOrder lists the attempts that run, by name.
func (w *worker) runningInOrder() (list []*attempt) {
	if !w.up {
		return nil
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.running), job.AttemptID.Compare) {
		list = append(list, w.running[id])
	}
	return list
}

// report registers or sends a heartbeat, every second.
func (w *worker) report() {
	w.later(second, w.report)
	if w.session == "" {
		w.register()
	} else {
		w.heartbeat()
	}
}

// register sends a registration with what the agent lists and the disk holds.
func (w *worker) register() {
	req := &slotwisev1.RegisterRequest{
		Worker: w.name, Address: w.name + ":1", MapSlots: 2, ReduceSlots: 1, DriverSlots: 2, Incarnation: fmt.Sprint("life ", w.life),
	}
	var held []*slotwisev1.HeldOutput
	for _, id := range slices.SortedFunc(maps.Keys(w.outputs), job.AttemptID.Compare) {
		held = append(held, &slotwisev1.HeldOutput{Attempt: id.String(), Bytes: 1})
	}
	w.agent.Registration(req, w.agent.Listed(), held)
	w.lastSent = req.Number
	life := w.life
	w.r.register(w, func(c protocol.Call) protocol.Message {
		msg, err := protocol.ParseRegister(req, 100, func(string) string { return "" })
		if err != nil {
			panic(err)
		}
		msg.Call, msg.Session = c, fmt.Sprintf("%s/%d/%d", w.name, w.r.lives, c)
		if req.Number > w.registered && w.r.serving == w.r.master {
			w.registered, w.granted, w.grantedBy, w.lastHeard = req.Number, msg.Session, w.r.lives, w.r.now
		}
		return msg
	}, func(reply protocol.Reply) {
		w.inLife(life, func() { w.registrationAnswered(req, reply) })
	})
}

// registrationAnswered begins a session. Like the real worker it ignores the answer
// to a registration once it has sent another one.
func (w *worker) registrationAnswered(req *slotwisev1.RegisterRequest, reply protocol.Reply) {
	if reply.Err != nil || w.session != "" || req.Number != w.lastSent {
		return
	}
	resp := reply.Message.(*slotwisev1.RegisterResponse)
	if !w.accept(resp.Term) {
		return
	}
	if w.r.masterID == "" {
		w.r.masterID = resp.Master
	}
	if resp.Master != w.r.masterID {
		w.r.violate("the master is %s and was %s", resp.Master, w.r.masterID)
	}
	w.session = resp.Session
	w.carryOut(w.agent.Registered(resp, false))
	for _, rd := range w.readers {
		rd.cursor = ""
	}
}

// heartbeat sends what the agent composes.
func (w *worker) heartbeat() {
	for _, a := range w.runningInOrder() {
		a.ticks++
		w.agent.Progress(a.id, a.progress, a.ticks)
	}
	wait := int64(0)
	if w.r.chance(70) {
		wait = 1 + w.r.rng.Int64N(2000)
	}
	req := w.agent.Heartbeat(wait, nil)
	life := w.life
	w.r.toMaster(true, func(c protocol.Call) protocol.Message {
		msg, err := protocol.ParseHeartbeat(req)
		if err != nil {
			panic(err)
		}
		msg.Call = c
		if w.life == life && w.inSession(req.Session) {
			w.lastHeard = w.r.now
		}
		if wait > 0 {
			w.r.after(time.Duration(wait)*time.Millisecond, func() { w.r.release(c) })
		}
		return msg
	}, func(reply protocol.Reply) {
		w.inLife(life, func() { w.heartbeatAnswered(req, reply.Message.(*slotwisev1.HeartbeatResponse)) })
	})
}

// heartbeatAnswered takes in an answer of the current session.
func (w *worker) heartbeatAnswered(req *slotwisev1.HeartbeatRequest, resp *slotwisev1.HeartbeatResponse) {
	switch {
	case !w.accept(resp.Term) || w.session != req.Session:
	case resp.RegisterAgain:
		w.session = ""
		w.register()
	default:
		w.agent.Acknowledge(req)
		w.noteSuccesses(req)
		w.carryOut(w.agent.Act(resp.Actions, w.r.now.Milliseconds()))
	}
}

// accept reports whether an answer is of the leader of the highest term that the worker has heard
// of. A leader's answers may arrive after its successor's.
func (w *worker) accept(term uint64) bool {
	ok := w.agent.Accept(term, w.r.now.Milliseconds())
	// An agent forgets the term after a minute of silence.
	if w.highestTerm = max(w.highestTerm, term); ok && term < w.highestTerm && w.r.now < w.termAt+59*second {
		w.r.violate("%s acts upon an answer of term %d after one of term %d", w.name, term, w.highestTerm)
	}
	if ok {
		w.highestTerm, w.termAt = term, w.r.now
	}
	if !ok {
		w.r.counts.FormerTerms++
	}
	return ok
}

// noteSuccesses notes the tasks that the worker now knows to be done for the master.
func (w *worker) noteSuccesses(req *slotwisev1.HeartbeatRequest) {
	for _, report := range req.Reports {
		id := attemptID(report.Attempt)
		if m := w.r.master; report.State == agent.Succeeded && m != nil && m.counts(id) {
			w.r.succeeded[id.TaskID] = success{id, w, w.life}
		}
	}
}

func attemptID(name string) job.AttemptID {
	id, err := job.ParseAttempt(name)
	if err != nil {
		panic(err)
	}
	return id
}

// carryOut carries out the agent's orders.
func (w *worker) carryOut(orders []agent.Instruction) {
	for _, o := range orders {
		switch o.Kind {
		case agent.Start:
			w.launch(o.Attempt, o.Launch)
		case agent.Stop:
			if a := w.running[o.Attempt]; a != nil {
				a.end(agent.Killed)
			}
		case agent.Discard:
			w.discard(o.Attempt)
		case agent.DropJob:
			for id := range w.outputs {
				if id.Job == o.Job {
					delete(w.outputs, id)
				}
			}
			delete(w.readers, o.Job)
			delete(w.jobs, o.Job)
		case agent.StartDriver:
			w.startDriver(o.Driver, o.Drive)
		case agent.StopDriver:
			if d := w.drivers[o.Driver]; d != nil {
				d.end(agent.Killed, o.Reason, false)
			}
		case agent.Refuse:
			w.r.violate("%s refuses an action: %s", w.name, o.Reason)
		}
	}
}

// discard removes a map output.
func (w *worker) discard(id job.AttemptID) {
	if s, ok := w.r.succeeded[id.TaskID]; ok && s.attempt == id && w.outputs[id] {
		delete(w.r.succeeded, id.TaskID) // the master knows that it must run again
		if m := w.r.master; m != nil && m.counts(id) && m.core.Tracker().Jobs().Get(id.Job).State().Live() {
			w.r.violate("the output of %v is to be removed, although the attempt counts", id)
		}
	}
	delete(w.outputs, id)
}

// attempt is a running process of an attempt.
type attempt struct {
	w        *worker
	id       job.AttemptID
	token    string // of the job's staging directory
	ticks    uint64
	progress float64
	fetched  map[int32]bool
	tries    map[job.AttemptID]int
	decided  bool // the master has answered whether the attempt may commit
}

// launch starts an attempt.
func (w *worker) launch(id job.AttemptID, l *slotwisev1.Launch) {
	r := w.r
	if r.started[id] {
		r.violate("%v is launched again, on %s", id, w.name)
	}
	r.started[id] = true
	r.counts.Launches++
	if l.Speculative {
		r.counts.Copies++
	}
	if s, ok := r.succeeded[id.TaskID]; ok {
		commits := id.Kind == job.Reduce || r.reduces[id.Job] == 0
		if m := r.master; commits && m != nil && m.counts(id) {
			r.violate("%v runs again, although %v has succeeded", id.TaskID, s.attempt)
		}
	}
	a := &attempt{w: w, id: id, token: l.Staging, progress: r.rng.Float64(), fetched: map[int32]bool{}, tries: map[job.AttemptID]int{}}
	w.running[id] = a
	r.logf("%s starts %v", w.name, id)
	if l.Job != nil {
		w.described(id.Job, l.Job, l.Staging)
	}
	w.describe(id.Job, l.Staging)
	a.later(time.Duration(1+r.rng.IntN(12))*second, a.work)
}

// describe asks the master for a job's description, once, and compares the staging
// tokens.
func (w *worker) describe(id job.ID, token string) {
	if w.jobs[id] {
		return
	}
	life, session := w.life, w.session
	w.r.toMaster(true, func(c protocol.Call) protocol.Message {
		return &protocol.JobForWorker{Call: c, Session: session, Job: id}
	}, func(reply protocol.Reply) {
		w.inLife(life, func() {
			if reply.Err == nil {
				w.described(id, reply.Message.(*slotwisev1.JobForWorkerResponse), token)
			}
		})
	})
}

// described takes in a job's description, the first time.
func (w *worker) described(id job.ID, info *slotwisev1.JobForWorkerResponse, token string) {
	if w.jobs[id] {
		return
	}
	if info.Staging != token || int(info.Maps) != w.r.maps[id] {
		w.r.violate("%v has the token %s and %d maps, an attempt was launched for %s", id, info.Staging, info.Maps, token)
	}
	w.jobs[id] = true
	w.agent.JobKnown(id, info.Staging)
}

// later has the attempt continue after a delay, if it still runs then.
func (a *attempt) later(d time.Duration, do func()) {
	a.w.later(d, func() {
		if a.w.running[a.id] == a {
			do()
		}
	})
}

// work is the end of the attempt's own work: it fails, waits for maps, leaves a map
// output, or commits.
func (a *attempt) work() {
	r := a.w.r
	switch {
	case r.fault(6):
		a.end(agent.Failed)
	case a.id.Kind == job.Reduce && !a.fetch():
		a.later(second, a.work)
	case a.id.Kind == job.Map && r.reduces[a.id.Job] > 0:
		a.w.outputs[a.id] = true
		a.end(agent.Succeeded)
	default:
		a.commit()
	}
}

// fetch fetches the map outputs that the worker knows of, and reports whether the
// attempt has all.
func (a *attempt) fetch() bool {
	r := a.w.r
	reader := a.w.pollOutputs(a.id.Job)
	for _, i := range slices.Sorted(maps.Keys(reader.known)) {
		o := reader.known[i]
		if a.fetched[i] || o.Lost {
			continue
		}
		id, from := attemptID(o.Attempt), r.workerNamed(o.Worker)
		if from.up && !from.frozen && from.outputs[id] && !r.fault(3) {
			a.fetched[i] = true
			continue
		}
		if a.tries[id]++; a.tries[id]%3 == 0 {
			r.suspect[id] = true
			a.w.agent.FetchFailed(&slotwisev1.FetchFailure{
				Reduce: a.id.String(), Map: o.Attempt, Worker: o.Worker, Error: "no answer",
				Corrupt: from.up && !from.frozen && !from.outputs[id], // it answers that it has none
			})
		}
	}
	return len(a.fetched) == r.maps[a.id.Job]
}

func (r *cluster) workerNamed(name string) *worker {
	i := slices.IndexFunc(r.workers, func(w *worker) bool { return w.name == name })
	return r.workers[i]
}

// pollOutputs keeps a long poll for the map outputs of a job under way.
func (w *worker) pollOutputs(id job.ID) *outputReader {
	rd := w.readers[id]
	if rd == nil {
		rd = &outputReader{known: map[int32]*slotwisev1.MapOutput{}}
		w.readers[id] = rd
	}
	if rd.polling || w.session == "" {
		return rd
	}
	rd.polling = true
	life, session, cursor, wait := w.life, w.session, rd.cursor, w.r.chance(70)
	w.later(5*second, func() { rd.polling = false }) // then the request or the reply is lost
	w.r.toMaster(false, func(c protocol.Call) protocol.Message {
		if wait {
			w.r.after(w.r.randomUpTo(4*second), func() { w.r.release(c) })
		}
		return &protocol.MapOutputs{Call: c, Session: session, Job: id, Cursor: cursor, Wait: wait}
	}, func(reply protocol.Reply) {
		w.inLife(life, func() {
			if reply.Err != nil || session != w.session || cursor != rd.cursor || w.readers[id] != rd {
				return
			}
			rd.polling = false
			w.r.counts.MapOutputReads++
			resp := reply.Message.(*slotwisev1.MapOutputsResponse)
			rd.cursor = resp.Cursor
			if resp.Reset_ {
				clear(rd.known)
			}
			for _, o := range resp.Outputs {
				rd.known[o.Map] = o
			}
		})
	})
	return rd
}

// commit asks the master for permission until there is an answer.
func (a *attempt) commit() {
	a.later(2*second, func() {
		if !a.decided {
			a.commit()
		}
	})
	w, life, session := a.w, a.w.life, a.w.session
	w.r.toMaster(true, func(c protocol.Call) protocol.Message {
		return &protocol.AskCommit{Call: c, Session: session, Attempt: a.id}
	}, func(reply protocol.Reply) {
		w.inLife(life, func() {
			var refused *protocol.Error
			if errors.As(reply.Err, &refused) {
				return // the session was over: the next try uses another one
			}
			a.permitted(reply.Message.(*slotwisev1.AskCommitResponse).Granted)
		})
	})
}

// permitted makes the attempt's output a part of the job's, which takes a moment, or
// ends the attempt.
func (a *attempt) permitted(granted bool) {
	if a.decided || a.w.running[a.id] != a {
		return
	}
	a.decided = true
	if !granted {
		a.end(agent.Killed)
		return
	}
	moment := a.w.r.randomUpTo(second)
	if a.w.r.chance(35) {
		moment = a.w.r.randomUpTo(40 * second)
	}
	a.later(moment, func() {
		r := a.w.r
		if m := r.master; m != nil && !m.counts(a.id) {
			r.counts.LateCommits++
		}
		if r.storage.commitPart(a.token, a.id) {
			a.end(agent.Succeeded)
		} else {
			a.end(agent.Failed)
		}
	})
}

// end ends the attempt's process and hands the result to the agent.
func (a *attempt) end(state slotwisev1.AttemptState) {
	a.w.r.logf("%s: %v ends as %v", a.w.name, a.id, state)
	delete(a.w.running, a.id)
	done := &slotwisev1.Done{OutputBytes: 1, Counters: &slotwisev1.Counters{InputRecords: 1}}
	text := "x"
	if state == agent.Failed {
		causes := []slotwisev1.FailureCause{slotwisev1.FailureCause_FAILURE_CAUSE_TASK, slotwisev1.FailureCause_FAILURE_CAUSE_STORAGE,
			slotwisev1.FailureCause_FAILURE_CAUSE_NODE, slotwisev1.FailureCause_FAILURE_CAUSE_DENIED, slotwisev1.FailureCause_FAILURE_CAUSE_PERMANENT}
		k, c := a.w.r.rng.IntN(len(causes)), &a.w.r.counts
		done.Cause = causes[k]
		switch k {
		case 1:
			c.StorageFailures++
		case 2:
			c.NodeFailures++
		case 3:
			c.DeniedFailures++
		case 4:
			c.PermanentFailures++
		}
	}
	if a.w.r.fault(5) { // more than a master keeps
		text = strings.Repeat("€", bounds.Text)
		a.w.r.counts.LargeReports++
	}
	a.w.carryOut(a.w.agent.End(a.id, state, text, text, done))
}
