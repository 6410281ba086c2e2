package faultrun

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// chainUser submits a chain under one request id, as often as needed, and watches it
// until it has ended.
type chainUser struct {
	r       *cluster
	number  int
	spec    *slotwisev1.ChainSpec
	steps   int                 // that the chain's function submits one after the other
	chain   protocol.ChainID    // 0 until the master has answered
	outcome slotwisev1.JobState // the final state, 0 until the user knows it
	last    int64               // the latest revision seen
	jobs    map[string]string   // of the steps, by output, as drivers have learned them
}

func newChainUser(r *cluster, number int) *chainUser {
	return &chainUser{r: r, number: number, steps: 1 + r.rng.IntN(4), jobs: map[string]string{}, spec: &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{
		User: fmt.Sprint("c", number), Program: &slotwisev1.Program{App: "x"}, Output: fmt.Sprintf("file:///d/chain%d", number),
	}}}
}

// submit sends the chain until there is an answer.
func (u *chainUser) submit() {
	if u.chain != 0 {
		return
	}
	u.r.after(2*second+u.r.randomUpTo(second), u.submit)
	u.r.toMaster(true, func(c protocol.Call) protocol.Message {
		return &protocol.SubmitChain{Call: c, Request: fmt.Sprint("chain request ", u.number), Spec: proto.CloneOf(u.spec)}
	}, func(reply protocol.Reply) {
		if reply.Err != nil {
			u.r.violate("chain %d is refused: %v", u.number, reply.Err)
			return
		}
		id, err := protocol.ParseChain(reply.Message.(*slotwisev1.SubmitChainResponse).Chain)
		if err != nil || u.chain != 0 && u.chain != id {
			u.r.violate("chain request %d was answered with %v and %v, %v", u.number, u.chain, id, err)
		}
		if u.chain == 0 {
			u.chain = id
			u.r.after(second, u.watch)
		}
	})
}

// watch asks for the chain's status again and again, and now and then after its end.
func (u *chainUser) watch() {
	if u.outcome == 0 || u.r.chance(50) {
		u.r.after(second+u.r.randomUpTo(3*second), u.watch)
	}
	wait := u.r.chance(50)
	u.r.toMaster(false, func(c protocol.Call) protocol.Message {
		if wait {
			u.r.after(u.r.randomUpTo(5*second), func() { u.r.release(c) })
		}
		return &protocol.WatchChain{Call: c, Chain: u.chain, After: u.last, Wait: wait, Steps: u.r.chance(50)}
	}, func(reply protocol.Reply) {
		st, known := look(reply.Err, func(p past) map[protocol.ChainID]*slotwisev1.JobStatus { return p.chains }, u.chain)
		switch {
		case st != nil:
			u.learn(st)
		case !known:
		case reply.Err != nil:
			u.r.violate("%v was accepted, but the master answers: %v", u.chain, reply.Err)
		default:
			u.learn(reply.Message.(*slotwisev1.JobResponse).Job)
		}
	})
}

// learn takes in the chain's status. A final state must never change.
func (u *chainUser) learn(s *slotwisev1.JobStatus) {
	u.last = max(u.last, s.Revision)
	switch s.State {
	case slotwisev1.JobState_JOB_STATE_SUCCEEDED, slotwisev1.JobState_JOB_STATE_FAILED, slotwisev1.JobState_JOB_STATE_KILLED:
	default:
		return
	}
	switch {
	case u.outcome == 0:
		u.outcome = s.State
		u.r.logf("user of %v learns that it has ended: %v %s", u.chain, u.outcome, s.Message)
	case s.State != u.outcome:
		u.r.violate("%v ended as %v and now as %v", u.chain, u.outcome, s.State)
	}
}

// check compares the chain's outcome with its output, and finds drivers that still run
// and steps that have not ended.
func (u *chainUser) check(m *master) {
	published := u.r.storage.published(u.spec.Job.Output)
	if succeeded := u.outcome == slotwisev1.JobState_JOB_STATE_SUCCEEDED; succeeded {
		u.r.counts.ChainsSucceeded++
		if !published || len(u.jobs) != u.steps {
			u.r.violate("%v succeeded; its output is published: %v; it has %d steps of %d", u.chain, published, len(u.jobs), u.steps)
		}
	} else {
		u.r.counts.ChainsFailed++
	}
	for _, w := range u.r.workers {
		for id := range w.drivers {
			if w.up && id.Chain == u.chain.String() {
				u.r.violate("driver %v still runs on %s", id, w.name)
			}
		}
	}
	for _, output := range slices.Sorted(maps.Keys(u.jobs)) {
		if id, err := job.ParseID(u.jobs[output]); err != nil || u.r.history.jobs[id] == nil {
			u.r.violate("%s, a step of %v, has not ended", u.jobs[output], u.chain)
		}
	}
}

// output returns the output of a step: the last one writes the chain's.
func (u *chainUser) output(dir string, step int) string {
	if step == u.steps-1 {
		return u.spec.Job.Output
	}
	return fmt.Sprintf("%s/t%d", dir, step)
}

// driver is a running process that runs the function of a chain.
type driver struct {
	w    *worker
	id   agent.DriverID
	user *chainUser
	dir  string
	// token authenticates the driver; the shell refuses requests with another one.
	token string
	step  int
	job   string // of the step; "" until the master has answered
}

// startDriver starts a driver.
func (w *worker) startDriver(id agent.DriverID, d *slotwisev1.Drive) {
	w.r.counts.Drivers++
	if d.Driver.Try > 1 {
		w.r.counts.DriversAgain++
	}
	p := &driver{w: w, id: id, dir: d.Dir, token: d.Token}
	for _, u := range w.r.chainUsers {
		if u.spec.Job.User == d.Spec.Job.User {
			p.user = u
		}
	}
	w.drivers[id] = p
	w.r.logf("%s starts driver %v", w.name, id)
	p.later(p.work)
}

// later has the driver continue after a while, if it still runs then.
func (p *driver) later(do func()) {
	p.w.later(second/2+p.w.r.randomUpTo(second), func() {
		if p.w.drivers[p.id] == p {
			do()
		}
	})
}

// end ends the process and hands the result to the agent.
func (p *driver) end(state slotwisev1.AttemptState, text string, final bool) {
	p.w.r.logf("%s: driver %v ends as %v: %s", p.w.name, p.id, state, text)
	delete(p.w.drivers, p.id)
	p.w.agent.EndDriver(p.id, state, text, "", final)
}

// request sends a request with the driver's token.
func (p *driver) request(message func(protocol.Call, *protocol.Core) protocol.Message, answer func(protocol.Reply)) {
	w, life := p.w, p.w.life
	w.r.toMaster(true, func(c protocol.Call) protocol.Message {
		core := w.r.serving.core
		if rights, ok := core.Driver(p.token); !ok || rights.Chain.String() != p.id.Chain {
			w.r.send(false, func() {
				w.inLife(life, func() {
					if w.drivers[p.id] == p {
						p.end(agent.Failed, "the token is refused", false)
					}
				})
			})
			return &protocol.Release{Call: c} // the guard has answered
		}
		return message(c, core)
	}, func(reply protocol.Reply) {
		w.inLife(life, func() {
			if w.drivers[p.id] == p {
				answer(reply)
			}
		})
	})
}

// work plays the chain's function: it submits the next step or waits for its job.
func (p *driver) work() {
	r := p.w.r
	switch {
	case p.step == p.user.steps:
		p.end(agent.Succeeded, "", false)
		return
	case r.fault(3):
		p.end(agent.Failed, "it crashes", false)
		return
	}
	p.later(p.work) // the request or the answer may be lost
	if p.job == "" {
		p.submit()
	} else {
		p.watch()
	}
}

// submit submits the step. If several drivers submit one step, they all get the same job.
func (p *driver) submit() {
	step, u := p.step, p.user
	p.request(func(c protocol.Call, _ *protocol.Core) protocol.Message {
		spec := &slotwisev1.JobSpec{
			Program: &slotwisev1.Program{App: "x", Step: fmt.Sprint("s", step)}, Synthetic: int32(1 + (u.number+step)%3), Reduces: int32(step % 2),
			SlowStart: proto.Float64(0.5), TaskTimeoutMs: 60_000, MaxAttempts: 6, Chain: p.id.Chain, Digest: fmt.Sprint(step), Output: u.output(p.dir, step),
		}
		core, err := protocol.CoreSpec(spec)
		if err != nil {
			panic(err)
		}
		return &protocol.Submit{Call: c, Request: "any", Spec: spec, Core: core, Secret: []byte("s")}
	}, func(reply protocol.Reply) {
		if p.step != step || p.job != "" {
			return
		}
		var refused *protocol.Error
		if errors.As(reply.Err, &refused) {
			p.end(agent.Failed, refused.Text, true) // the chain has ended
			return
		}
		if reply.Err != nil {
			return // of storage: the driver tries again
		}
		p.job = reply.Message.(*slotwisev1.SubmitResponse).Job
		output := u.output(p.dir, step)
		if before := u.jobs[output]; before != "" && before != p.job {
			p.w.r.violate("step %d of %s ran as %s and again as %s", step, p.id.Chain, before, p.job)
		}
		u.jobs[output] = p.job
	})
}

// watch asks for the state of the step's job.
func (p *driver) watch() {
	name := p.job
	id, err := job.ParseID(name)
	if err != nil {
		panic(err)
	}
	var ended *slotwisev1.JobStatus
	p.request(func(c protocol.Call, core *protocol.Core) protocol.Message {
		if ended, err = core.EndedStep(p.id.Chain, name); err != nil && p.w.r.serving == p.w.r.master {
			p.w.r.violate("%s was a step of %s: %v", name, p.id.Chain, err)
		}
		return &protocol.WatchJob{Call: c, Job: id}
	}, func(reply protocol.Reply) {
		st := ended
		if st == nil {
			if reply.Err != nil {
				p.w.r.violate("%s is a step that has not ended, but the master answers: %v", name, reply.Err)
				return
			}
			st = reply.Message.(*slotwisev1.JobResponse).Job
		}
		switch st.State {
		case slotwisev1.JobState_JOB_STATE_SUCCEEDED:
			if p.job == name {
				p.step, p.job = p.step+1, ""
			}
		case slotwisev1.JobState_JOB_STATE_FAILED, slotwisev1.JobState_JOB_STATE_KILLED:
			if p.job == name {
				p.end(agent.Failed, "a step has failed", true)
			}
		}
	})
}

// removeChainDir removes the directory of a chain's intermediate outputs. Nothing may be
// written below it afterwards.
func (s *storage) removeChainDir(dir string) error {
	for _, d := range s.staged {
		if strings.HasPrefix(d.uri, dir+"/") {
			d.state, d.parts = removed, nil
		}
	}
	s.gone[dir] = true
	return nil
}

// checkGone reports a write below a directory that was removed.
func (s *storage) checkGone(uri string) {
	for dir := range s.gone {
		if strings.HasPrefix(uri, dir+"/") {
			s.r.violate("%s is written after the directory of its chain was removed", uri)
		}
	}
}
