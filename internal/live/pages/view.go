package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// View observes the clusters that a program starts one after another. Its methods may be
// called by several goroutines.
type View struct {
	store  *history.Store // nil keeps no history
	writes sync.WaitGroup
	mu     struct {
		sync.Mutex
		cluster *local.Cluster // the latest one; nil before the first
		offset  job.ID         // of the numbers of its jobs
		last    job.ID         // the highest number of an ended job
		err     error          // of the history
	}
}

var (
	_ local.Observer = (*View)(nil)
	_ source.Source  = (*View)(nil)
)

// NewView returns a view that keeps the jobs' records in a store, which may be nil. The jobs get
// the numbers behind the numbers in the store. The caller closes the store after Wait.
func NewView(ctx context.Context, store *history.Store) (*View, error) {
	v := &View{store: store}
	if store == nil {
		return v, nil
	}
	var err error
	v.mu.last, err = store.Last(ctx)
	return v, err
}

// Started implements local.Observer.
func (v *View) Started(c *local.Cluster) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Each cluster numbers its jobs from 1. The offset makes the numbers of one program, and of one
	// history, unique.
	v.mu.cluster, v.mu.offset = c, v.mu.last
}

// Ended implements local.Observer.
func (v *View) Ended(t *tracker.Tracker, j *job.Job) {
	v.mu.Lock()
	d := describer(v.mu.cluster, t, v.mu.offset)
	v.mu.last = max(v.mu.last, v.mu.offset+j.ID())
	v.mu.Unlock()
	if v.store == nil {
		return
	}
	// A copy, because the record is written after the tracker may have changed the job.
	request := j.Spec().Request
	h := &slotwisev1.HistoryJob{Job: d.Job(j), Request: protocol.PastRequest(&request), Held: protocol.HeldBack(j, func(job.Wait) bool { return true })}
	for k := range job.Kind(job.Kinds) {
		h.Tasks = slices.AppendSeq(h.Tasks, d.Tasks(j, k, 0))
	}
	// Outside the cluster's loop, which must not wait for the disk.
	v.writes.Go(func() {
		if err := v.store.Put(h); err != nil {
			v.mu.Lock()
			v.mu.err = errors.Join(v.mu.err, err)
			v.mu.Unlock()
		}
	})
}

func describer(c *local.Cluster, t *tracker.Tracker, offset job.ID) protocol.Describer {
	return protocol.Describer{Epoch: c.Epoch(), Nodes: t.Nodes(), Offset: offset}
}

// Wait waits until the records of all ended jobs are durable. It returns the errors of the history,
// joined. It is called after the clusters have been closed.
func (v *View) Wait() error {
	v.writes.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.err
}

// errEnded reports that there is no cluster. Pages show it and ask again: a chain's next step, or
// the next run of a mix, may begin.
var errEnded = connect.NewError(connect.CodeUnavailable, errors.New("the run has ended, or has not begun"))

// inspect runs f in the loop of the cluster.
func (v *View) inspect(f func(t *tracker.Tracker, d protocol.Describer, now time.Duration)) error {
	v.mu.Lock()
	c, offset := v.mu.cluster, v.mu.offset
	v.mu.Unlock()
	if c == nil || !c.Inspect(func(t *tracker.Tracker, now time.Duration) { f(t, describer(c, t, offset), now) }) {
		return errEnded
	}
	return nil
}

// jobs lists the jobs of a tracker in the order of their numbers.
func jobs(t *tracker.Tracker, ended bool) []*job.Job {
	list := t.Jobs()
	all := slices.Concat(list.Live(), list.Finishing())
	if ended {
		all = slices.Concat(list.Ended(), all)
	}
	slices.SortFunc(all, func(a, b *job.Job) int { return int(a.ID() - b.ID()) })
	return all
}

// status describes a job with the reason why it waits.
func status(t *tracker.Tracker, d protocol.Describer, j *job.Job) *slotwisev1.JobStatus {
	s := d.Job(j)
	// Explain asks the policy, so a list explains only jobs of which nothing runs.
	if !j.State().Live() || j.Running(job.Map)+j.Running(job.Reduce) > 0 {
		return s
	}
	for k := range job.Kind(job.Kinds) {
		if j.Pending(k)+j.Delayed(k) > 0 {
			_, s.Waiting = t.Explain(j, k)
			return s
		}
	}
	return s
}

// Use implements source.Source.
func (v *View) Use(context.Context) (u source.Use, err error) {
	err = v.inspect(func(t *tracker.Tracker, _ protocol.Describer, now time.Duration) {
		nodes := t.Nodes()
		// The console takes a sample when the revision has changed, here twice a second.
		u = source.Use{Map: nodes.Slots(job.Map), Reduce: nodes.Slots(job.Reduce), Alive: nodes.Alive(), Nodes: len(nodes.All()), Revision: now.Milliseconds() / 500}
		pools, users := source.Tally{}, source.Tally{}
		for _, j := range t.Jobs().Live() {
			if j.State() == job.Pending {
				u.Waiting++
			} else {
				u.Started++
			}
			waiting := j.Pending(job.Map) + j.Delayed(job.Map) + j.Pending(job.Reduce) + j.Delayed(job.Reduce)
			pools.Add(j.Pool(), j.Running(job.Map), j.Running(job.Reduce), waiting)
			users.Add(j.User(), j.Running(job.Map), j.Running(job.Reduce), waiting)
		}
		u.Closing = len(t.Jobs().Finishing())
		u.Pools, u.Users = pools.List(), users.List()
	})
	return u, err
}

// Jobs implements source.Source.
func (v *View) Jobs(_ context.Context, q source.Query) (out source.Jobs, err error) {
	err = v.inspect(func(t *tracker.Tracker, d protocol.Describer, _ time.Duration) {
		list := jobs(t, !q.Live)
		if !q.Live {
			// The newest first, and live jobs before ended ones.
			slices.Reverse(list)
			slices.SortStableFunc(list, func(a, b *job.Job) int { return ended(a) - ended(b) })
		}
		choose(&out, list, &q, d, func(j *job.Job) *slotwisev1.JobStatus { return status(t, d, j) })
	})
	return out, err
}

// choose takes those jobs of a list, which it changes, that match a query, and of these the query's page.
func choose(out *source.Jobs, list []*job.Job, q *source.Query, d protocol.Describer, show func(*job.Job) *slotwisev1.JobStatus) {
	list = slices.DeleteFunc(list, func(j *job.Job) bool { return !matches(q, j, d) })
	from := min(max(0, q.Offset), len(list))
	for _, j := range list[from:min(from+q.Limit, len(list))] {
		out.List = append(out.List, show(j))
	}
	out.Total = len(list)
}

// ended is 1 for a job that has ended, which a list shows after the others, and else 0.
func ended(j *job.Job) int {
	if j.State().Live() || j.State() == job.Committing {
		return 0
	}
	return 1
}

// matches reports whether a query selects a job.
func matches(q *source.Query, j *job.Job, d protocol.Describer) bool {
	text, submitted := strings.ToLower(q.Text), d.Millis(max(1, j.Submitted()))
	return (q.User == "" || q.User == j.User()) && (q.Pool == "" || q.Pool == j.Pool()) && (q.State == "" || q.State == j.State().String()) &&
		submitted >= q.From && (q.To == 0 || submitted <= q.To) &&
		(text == "" || strings.Contains((j.ID()+d.Offset).String(), text) || strings.Contains(strings.ToLower(j.Name()), text))
}

// find returns the job with a name, or nil.
func find(t *tracker.Tracker, d protocol.Describer, name string) *job.Job {
	id, err := job.ParseID(name)
	// A number of an earlier cluster, or of the history: past looks there.
	if err != nil || id <= d.Offset {
		return nil
	}
	return t.Jobs().Get(id - d.Offset)
}

// past reads a job that this run does not remember, with read.
func (v *View) past(name string, read func(*history.Store, string) (*slotwisev1.HistoryJob, error)) (*slotwisev1.HistoryJob, error) {
	unknown := connect.NewError(connect.CodeNotFound, fmt.Errorf("no job %s", name[:min(len(name), 80)]))
	if _, err := job.ParseID(name); v.store == nil || err != nil {
		return nil, unknown
	}
	h, err := read(v.store, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	return h, err
}

// Job implements source.Source.
func (v *View) Job(_ context.Context, name string) (*source.Job, error) {
	var out *source.Job
	err := v.inspect(func(t *tracker.Tracker, d protocol.Describer, _ time.Duration) {
		if j := find(t, d, name); j != nil {
			out = &source.Job{Status: status(t, d, j), Why: protocol.HeldBack(j, func(job.Wait) bool { return true })}
		}
	})
	if err != nil || out != nil {
		return out, err
	}
	h, err := v.past(name, (*history.Store).Head)
	if err != nil {
		return nil, err
	}
	return &source.Job{Status: h.Job, Why: h.Held, Past: true}, nil
}

// tasksAtOnce is the number of tasks that the loop reads between two other events.
const tasksAtOnce = 4000

// Attempts implements source.Source.
func (v *View) Attempts(_ context.Context, name string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	out, known, err := readAttempts(func(from int) (list []protocol.Execution, next int, known bool, err error) {
		err = v.inspect(func(t *tracker.Tracker, d protocol.Describer, _ time.Duration) {
			j := find(t, d, name)
			if known = j != nil; known {
				list, next = d.Executions(j, from, tasksAtOnce, nil)
			}
		})
		return list, next, known, err
	})
	if err != nil || known {
		return out, nil, err
	}
	h, err := v.past(name, (*history.Store).Get)
	if err != nil {
		return nil, nil, err
	}
	return PastAttempts(h), protocol.SlowPast(h), nil
}

// readAttempts reads the attempts of a job some tasks at a time. read returns the attempts of the
// tasks from an index on, and the next index, which is 0 at the end. If the tracker does not know
// the job, known is false: the tracker may forget an ended job between two calls.
func readAttempts(read func(from int) (list []protocol.Execution, next int, known bool, err error)) (out []source.Attempt, known bool, err error) {
	for from := 0; ; {
		list, next, known, err := read(from)
		if err != nil || !known {
			return nil, false, err
		}
		out = AppendAttempts(out, list)
		if next == 0 {
			return out, true, nil
		}
		from = next
	}
}

// Nodes implements source.Source.
func (v *View) Nodes(_ context.Context, name string) (nodes []*slotwisev1.NodeStatus, running []source.Attempt, err error) {
	var list []protocol.Execution
	err = v.inspect(func(t *tracker.Tracker, d protocol.Describer, now time.Duration) {
		for _, n := range t.Nodes().All() {
			nodes = append(nodes, d.Node(n, now))
			if n.Name() == name {
				for _, a := range n.Attempts() {
					list = append(list, d.Execution(a))
				}
			}
		}
	})
	return nodes, AppendAttempts(nil, list), err
}

// Policy implements source.Source.
func (v *View) Policy(context.Context) (*source.Policy, error) {
	v.mu.Lock()
	c := v.mu.cluster
	v.mu.Unlock()
	if c == nil {
		return nil, errEnded
	}
	name, set, known := c.Installed()
	if name == "" {
		return nil, errEnded
	}
	return source.DescribePolicy(known, name, set), nil
}

// Inspect implements console.Source.
func (v *View) Inspect(context.Context) (name string, in sched.Insight, err error) {
	v.mu.Lock()
	c := v.mu.cluster
	v.mu.Unlock()
	if c == nil {
		return "", in, errEnded
	}
	name, _, _ = c.Installed()
	err = v.inspect(func(t *tracker.Tracker, _ protocol.Describer, now time.Duration) { in = sched.Inspect(t.Policy(), now) })
	return name, in, err
}

// History implements console.Source. Without a store it lists the jobs of this run that have
// ended.
func (v *View) History(ctx context.Context, q source.Query) (source.Jobs, error) {
	if v.store != nil {
		return ListPast(ctx, v.store, q)
	}
	out := source.Jobs{Note: "slotwise run --history DIR keeps the jobs of all runs."}
	err := v.inspect(func(t *tracker.Tracker, d protocol.Describer, _ time.Duration) {
		list := slices.Clone(t.Jobs().Ended())
		slices.Reverse(list)
		choose(&out, list, &q, d, d.Job)
	})
	return out, err
}

// Stack implements source.Source.
func (v *View) Stack(context.Context, string, io.Writer) error {
	return connect.NewError(connect.CodeNotFound, errors.New("the attempts of a run in one process have no processes of their own"))
}

// Log implements console.Source.
func (v *View) Log(context.Context, string, bool, io.Writer) error {
	return connect.NewError(connect.CodeNotFound, errors.New("the attempts of a run in one process have no logs of their own"))
}
