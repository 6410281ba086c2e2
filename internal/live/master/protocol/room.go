package protocol

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// room counts the jobs, tasks, chains, descriptions and held calls of each user. The rule of package bounds gives
// each user his part.
//
// A job counts from its Submit until the history has it: while its output is being staged,
// too, so that a job whose output is staged is never refused for want of room. Jobs and
// chains of a journal count even if they exceed a limit that has been lowered.
type room struct {
	jobs, tasks, chains *bounds.Pool // that have not ended, by their owner
	specs               *bounds.Pool // bytes of the descriptions of these jobs and chains
	watches             *bounds.Pool // held WatchJob and WatchChain calls, by their sender
}

func newRoom(l Limits) room {
	pool := func(n int) *bounds.Pool { return bounds.NewPool(int64(n)) }
	return room{pool(l.Jobs), pool(l.Tasks), pool(l.Jobs), pool(cmp.Or(l.Specs, bounds.Specs)), pool(l.Waiting)}
}

// hasRoom checks the limits for one more job.
func (c *Core) hasRoom(j *jobEntry) error {
	if err := refusedBy(c.room.jobs, "jobs", j.spec.User, 1); err != nil {
		return err
	}
	if err := refusedBy(c.room.tasks, "tasks", j.spec.User, int64(j.tasksOf())); err != nil {
		return err
	}
	return refusedBy(c.room.specs, specBytes, j.spec.User, j.size)
}

// specBytes names the units of room.specs in errors.
const specBytes = "bytes of descriptions of jobs and chains"

// hasRoomForChain checks the limits for one more chain. Their number is the limit of jobs.
func (c *Core) hasRoomForChain(spec *slotwisev1.ChainSpec) error {
	if err := refusedBy(c.room.chains, "chains", spec.Job.User, 1); err != nil {
		return err
	}
	return refusedBy(c.room.specs, specBytes, spec.Job.User, int64(proto.Size(spec)))
}

// refusedBy returns an error if n more do not fit.
func refusedBy(p *bounds.Pool, what, user string, n int64) error {
	// The sum of all users first: if it is reached, no share helps, and the user waits for others'
	// jobs, too.
	switch {
	case p.Full(n):
		return errorf(ResourceExhausted, "all users' %s that have not ended would be more than %d, which is the limit: wait until a job ends", what, p.Total())
	case !p.Fits(user, n):
		return errorf(ResourceExhausted, "user %s has %d %s that have not ended and asks for %d more; his share is %d now, half of what other users leave of %d: wait until one of his jobs ends",
			user, p.Held(user), what, n, p.Share(user), p.Total())
	}
	return nil
}

// count counts a job, once.
func (r *room) count(j *jobEntry) {
	// A job passes here when it is submitted, when it is accepted and when it is restored.
	if !j.counted {
		j.counted = true
		r.jobs.Add(j.spec.User, 1)
		r.tasks.Add(j.spec.User, int64(j.tasksOf()))
		r.specs.Add(j.spec.User, j.size)
	}
}

// uncount ends the count of a job, if it was counted.
func (r *room) uncount(j *jobEntry) {
	if j.counted {
		j.counted = false
		r.jobs.Add(j.spec.User, -1)
		r.tasks.Add(j.spec.User, -int64(j.tasksOf()))
		r.specs.Add(j.spec.User, -j.size)
	}
}

// check compares the counts with the core's tables.
func (r *room) check(c *Core) error {
	want := newRoom(c.cfg.Limits)
	for _, list := range [][]*jobEntry{c.live, c.staging} {
		for _, j := range list {
			want.jobs.Add(j.spec.User, 1)
			want.tasks.Add(j.spec.User, int64(j.tasksOf()))
			want.specs.Add(j.spec.User, j.size)
			for _, w := range j.watchers {
				want.watches.Add(w.m.User, 1)
			}
		}
	}
	for _, ch := range c.chains.live {
		want.chains.Add(ch.job().User, 1)
		want.specs.Add(ch.job().User, ch.size)
		for _, w := range ch.watchers {
			want.watches.Add(w.m.User, 1)
		}
	}
	for _, p := range []struct {
		what      string
		got, want *bounds.Pool
	}{{"jobs", r.jobs, want.jobs}, {"tasks", r.tasks, want.tasks}, {"chains", r.chains, want.chains}, {"descriptions", r.specs, want.specs}, {"watchers", r.watches, want.watches}} {
		if !p.got.Equal(p.want) {
			return fmt.Errorf("%s of users: %v are counted as %v", p.what, p.want, p.got)
		}
	}
	return nil
}
