package faultrun

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/sched/job"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// user submits a job under one request id, as often as needed, and watches it until
// it has ended.
type user struct {
	r       *cluster
	number  int
	spec    *slotwisev1.JobSpec
	job     job.ID              // 0 until the master has answered
	outcome slotwisev1.JobState // the final state, 0 until the user knows it
	last    int64               // the latest revision seen
	// gone is set when the user has stopped to submit without an answer. The master may have
	// accepted the job, which then runs unwatched.
	gone bool
}

func newUser(r *cluster, number int) *user {
	u := &user{r: r, number: number}
	u.spec = &slotwisev1.JobSpec{
		User: fmt.Sprint("u", number), Program: &slotwisev1.Program{App: "x"}, Synthetic: int32(r.rng.IntN(6)), Reduces: int32(r.rng.IntN(3)),
		SlowStart: proto.Float64(0.5), TaskTimeoutMs: 60_000, MaxAttempts: int32(1 + r.rng.IntN(6)), Output: fmt.Sprint("out", number),
	}
	if r.chance(10) {
		r.after(r.randomUpTo(80*second), func() { u.gone = u.job == 0 })
	}
	return u
}

// submit sends the job until there is an answer.
func (u *user) submit() {
	if u.job != 0 || u.gone {
		return
	}
	u.r.after(2*second+u.r.randomUpTo(second), u.submit)
	u.r.toMaster(true, func(c protocol.Call) protocol.Message {
		core, err := protocol.CoreSpec(u.spec)
		if err != nil {
			panic(err)
		}
		spec := &slotwisev1.JobSpec{}
		copySpec(spec, u.spec)
		return &protocol.Submit{Call: c, Request: fmt.Sprint("request ", u.number), Spec: spec, Core: core, Secret: []byte{byte(u.number)}}
	}, func(reply protocol.Reply) {
		if reply.Err != nil {
			u.r.logf("user %d: %v", u.number, reply.Err) // of storage: the user tries again
			return
		}
		id, err := job.ParseID(reply.Message.(*slotwisev1.SubmitResponse).Job)
		if err != nil {
			panic(err)
		}
		u.accepted(id)
	})
}

// copySpec copies the fields that newUser sets: the master keeps and changes the
// specs that it gets.
func copySpec(to, from *slotwisev1.JobSpec) {
	to.User, to.Program, to.Synthetic, to.Reduces = from.User, from.Program, from.Synthetic, from.Reduces
	to.SlowStart, to.TaskTimeoutMs, to.MaxAttempts, to.Output = from.SlowStart, from.TaskTimeoutMs, from.MaxAttempts, from.Output
}

// accepted takes in the job's number, which must be the same each time.
func (u *user) accepted(id job.ID) {
	if u.gone {
		return
	}
	if u.job != 0 && u.job != id {
		u.r.violate("request %d was answered with %v and %v", u.number, u.job, id)
	}
	if u.job == 0 {
		u.job = id
		u.r.after(second, u.watch)
	}
}

// watch asks for the job's status again and again, and now and then after the job
// has ended.
func (u *user) watch() {
	if u.outcome == 0 || u.r.chance(50) {
		u.r.after(second+u.r.randomUpTo(3*second), u.watch)
	}
	wait := u.r.chance(50)
	u.r.toMaster(false, func(c protocol.Call) protocol.Message {
		if wait {
			u.r.after(u.r.randomUpTo(5*second), func() { u.r.release(c) })
		}
		return &protocol.WatchJob{Call: c, Job: u.job, After: u.last, Wait: wait}
	}, func(reply protocol.Reply) {
		st, known := look(reply.Err, func(p past) map[job.ID]*slotwisev1.JobStatus { return p.jobs }, u.job)
		switch {
		case st != nil:
			u.learn(st)
		case !known:
		case reply.Err != nil:
			u.r.violate("%v was accepted, but the master answers: %v", u.job, reply.Err)
		default:
			u.learn(reply.Message.(*slotwisev1.JobResponse).Job)
		}
	})
}

// learn takes in the job's status. A final state must never change.
func (u *user) learn(s *slotwisev1.JobStatus) {
	u.last = max(u.last, s.Revision)
	if s.EndedMs == 0 {
		return // replies overtake each other, so this one may be older than the end
	}
	switch {
	case u.outcome == 0:
		u.outcome = s.State
		u.r.logf("user %d learns that %v has ended: %v", u.number, u.job, u.outcome)
	case s.State != u.outcome:
		u.r.violate("%v ended as %v and now as %v", u.job, u.outcome, s.State)
	}
}

// check compares the outcome with the output.
func (u *user) check() {
	if u.gone {
		u.r.counts.GaveUp++
		return
	}
	published := u.r.storage.published(u.spec.Output)
	switch u.outcome {
	case slotwisev1.JobState_JOB_STATE_SUCCEEDED:
		u.r.counts.Succeeded++
		if !published {
			u.r.violate("%v succeeded, but its output was not published", u.job)
		}
	case slotwisev1.JobState_JOB_STATE_FAILED:
		u.r.counts.Failed++
	case slotwisev1.JobState_JOB_STATE_KILLED:
		u.r.counts.Killed++
	default:
		u.r.violate("%v ended as %v", u.job, u.outcome)
	}
	if published && u.outcome != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		u.r.violate("%v ended as %v, but its output was published", u.job, u.outcome)
	}
}
