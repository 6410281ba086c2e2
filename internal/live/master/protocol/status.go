package protocol

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The methods of this file describe the state to users and never change it. The shell
// must not let an answer leave before the records of the batch are durable.

// Owner returns the user that a job belongs to and the pool that it is in now.
func (c *Core) Owner(id job.ID) (user, pool string, err error) {
	j := c.jobs[id]
	if j == nil {
		return "", "", noJob(id)
	}
	pool = j.spec.Pool
	if j.core != nil {
		pool = j.core.Pool()
	}
	return j.spec.User, pool, nil
}

// NodeOf returns the node on which an attempt runs or ran.
func (c *Core) NodeOf(id job.AttemptID) (string, error) {
	a := c.tracker.Jobs().Attempt(id)
	if a == nil {
		return "", noJob(id.Job)
	}
	return c.nodeOf(a), nil
}

// Address returns the address that a worker has registered and the id of its session. Both
// are "" if it has no session.
func (c *Core) Address(name string) (address, session string) {
	if s := c.sessionOf(name); s != nil {
		return s.address, s.id
	}
	return "", ""
}

// LogOwner returns the user of the job or chain of an attempt or driver that runs or ran in
// a session's worker. It returns an error if the session is over, and false if the attempt
// or driver is unknown or ran elsewhere. Of a chain it knows the last driver only.
func (c *Core) LogOwner(session, name string) (user string, ranHere bool, err error) {
	s := c.sessions[session]
	if s == nil {
		return "", false, errSessionOver
	}
	// A log's owner decides who may read it, so a worker is believed only about attempts that
	// the master has launched there.
	if run, _, _ := strings.Cut(name, "_"); IsChain(run) {
		id, err := ParseChain(run)
		if err != nil {
			return "", false, nil
		}
		last, worker, err := c.LastDriver(id)
		if err != nil || last != name || worker != s.worker.name {
			return "", false, nil
		}
		user, _, err = c.ChainOwner(id)
		return user, err == nil, nil
	}
	id, err := job.ParseAttempt(name)
	if err != nil {
		return "", false, nil
	}
	if node, err := c.NodeOf(id); err != nil || node != s.worker.name {
		return "", false, nil
	}
	user, _, err = c.Owner(id.Job)
	return user, err == nil, nil
}

// MapBuffer returns the smallest sort buffer of a map on any worker in bytes, 0 if
// it is unknown.
func (c *Core) MapBuffer() (least int64) {
	for _, w := range c.list {
		// The least, because a split is planned before it is known which worker gets it, and it should fit
		// everywhere.
		if s := w.session; s != nil && s.mapBuffer > 0 && (least == 0 || s.mapBuffer < least) {
			least = s.mapBuffer
		}
	}
	return least
}

// Held returns how many calls of users and of workers wait for their reply.
func (c *Core) Held() (users, heartbeats int) {
	for _, w := range c.list {
		if w.session != nil && w.session.held != 0 {
			heartbeats++
		}
	}
	return int(c.room.watches.Used()), heartbeats
}

// JobStates counts the jobs without a final status by state.
func (c *Core) JobStates() map[string]int {
	states := map[string]int{"waiting": 0, "running": 0, "committing": 0}
	for _, j := range c.live {
		// For users an unsaved job has ended.
		if !j.unsaved {
			states[StateWord(j.state())]++
		}
	}
	return states
}

// Unsaved returns the numbers of jobs and chains that have ended and that the history could
// not take yet.
func (c *Core) Unsaved() (jobs, chains int) {
	for _, j := range c.live {
		if j.unsaved {
			jobs++
		}
	}
	for _, ch := range c.chains.live {
		if ch.unsaved {
			chains++
		}
	}
	return jobs, chains
}

// ListPosition returns a job's or chain's position in lists: jobs by number, chains behind
// them. It is above 0, or 0 if the name is neither's.
func ListPosition(name string) int64 {
	if id, err := ParseChain(name); err == nil {
		return math.MaxInt32 + int64(id)
	}
	id, _ := job.ParseID(name)
	return int64(id)
}

// Jobs lists jobs and chains behind a position, up to bounds.Page bytes.
func (c *Core) Jobs(r *slotwisev1.JobsRequest, after int64) *slotwisev1.JobsResponse {
	resp := &slotwisev1.JobsResponse{}
	page := Page{}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[id]
		if int64(id) <= after || j.final != nil && !r.Ended || r.User != "" && j.spec.User != r.User {
			continue
		}
		s := c.status(j)
		if r.Pool != "" && s.Pool != r.Pool {
			continue
		}
		// Beyond the bound jobs are listed without a reason: each reason walks through the order
		// of all jobs, so a full list would take quadratic time in the loop.
		if j.final == nil && len(resp.Jobs) < reasonsAtOnce {
			s.Waiting = c.waitReason(j)
		}
		if !page.Add(proto.Size(s)) {
			resp.Next = resp.Jobs[len(resp.Jobs)-1].Id
			return resp
		}
		resp.Jobs = append(resp.Jobs, s)
	}
	c.appendChains(r, after, resp, &page)
	return resp
}

// Page counts the bytes of an answer to a user.
type Page struct{ bytes int }

// Add adds an element of some bytes. It reports whether the element belongs to the page: it
// is the first one, or the page has at most bounds.Page bytes with it.
func (p *Page) Add(bytes int) bool {
	first := p.bytes == 0
	p.bytes += bytes + 1
	return first || p.bytes <= bounds.Page
}

// status describes a job, without the reason why it waits.
func (c *Core) status(j *jobEntry) *slotwisev1.JobStatus {
	if j.final != nil {
		return j.final
	}
	s := &slotwisev1.JobStatus{
		Id: j.id.String(), Name: j.spec.Name, User: j.spec.User, Pool: j.spec.Pool, Priority: j.spec.Priority,
		Output: j.spec.Output, Chain: j.spec.Chain, InputBytes: j.input, Revision: j.revision, State: j.state(),
		Maps: &slotwisev1.TaskCounts{}, Reduces: &slotwisev1.TaskCounts{},
		MapCounters: &slotwisev1.Counters{}, ReduceCounters: &slotwisev1.Counters{}, Locality: make([]int32, cluster.NONE),
	}
	if s.Chain != "" {
		s.Step = j.spec.Program.GetStep()
	}
	if j.core != nil {
		c.describer().fill(s, j.core)
	}
	return s
}

// describer describes the tracker's jobs and nodes.
func (c *Core) describer() Describer { return Describer{Epoch: c.epoch, Nodes: c.tracker.Nodes()} }

// state returns the state that users see of a job that is not final. A job counts as
// committing until the history has it.
func (j *jobEntry) state() slotwisev1.JobState {
	if j.decided() {
		return slotwisev1.JobState_JOB_STATE_COMMITTING
	}
	return wireState(j.core.State())
}

// Tasks lists a job's tasks, maps first, up to bounds.Page bytes.
func (c *Core) Tasks(id job.ID, r *slotwisev1.TasksRequest) (*slotwisev1.TasksResponse, error) {
	j := c.jobs[id]
	if j == nil {
		return nil, noJob(id)
	}
	kind, from := job.Kind(0), int32(0)
	if r.After != "" {
		after, err := job.ParseTask(r.After)
		if err != nil {
			return nil, invalid(err)
		}
		// The page begins behind the last task of the one before, which stays right while tasks
		// change their state.
		kind, from = after.Kind, after.Index+1
	}
	resp := &slotwisev1.TasksResponse{}
	page := Page{}
	// from applies to the kind of the last task only; reduces begin with their first.
	for ; kind < job.Kinds; kind, from = kind+1, 0 {
		if r.Kind != slotwisev1.Kind_KIND_UNSPECIFIED && r.Kind != WireKind(kind) {
			continue
		}
		for s := range c.taskStatuses(j, kind, from) {
			if !InState(s, r.State) {
				continue
			}
			if !page.Add(proto.Size(s)) {
				resp.Next = resp.Tasks[len(resp.Tasks)-1].Id
				return resp, nil
			}
			resp.Tasks = append(resp.Tasks, s)
		}
	}
	return resp, nil
}

// InState reports whether a task or one of its attempts is in a state; "" is any. A task that succeeds in
// the end hides its failed and killed attempts, and a user who asks for these states asks for the attempts.
func InState(t *slotwisev1.TaskStatus, state string) bool {
	return state == "" || t.State == state ||
		slices.ContainsFunc(t.Attempts, func(a *slotwisev1.AttemptStatus) bool { return a.State == state })
}

// taskStatuses describes a job's tasks of a kind, beginning with an index.
func (c *Core) taskStatuses(j *jobEntry, k job.Kind, from int32) iter.Seq[*slotwisev1.TaskStatus] {
	if j.core == nil {
		return func(func(*slotwisev1.TaskStatus) bool) {}
	}
	return c.describer().Tasks(j.core, k, from)
}

// Nodes describes all workers that have registered and are not forgotten, by name.
func (c *Core) Nodes(now time.Duration) *slotwisev1.NodesResponse {
	resp := &slotwisev1.NodesResponse{}
	for _, n := range c.tracker.Nodes().All() {
		if !n.Forgotten() {
			resp.Nodes = append(resp.Nodes, c.nodeStatus(n, now))
		}
	}
	slices.SortFunc(resp.Nodes, func(a, b *slotwisev1.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return resp
}

// nodeStatus describes a node at a time, which is later than the core's if no message
// came meanwhile.
func (c *Core) nodeStatus(n *cluster.Node, now time.Duration) *slotwisev1.NodeStatus {
	st := c.describer().Node(n, now)
	if s := c.sessionOf(n.Name()); s != nil {
		st.Address, st.Version, st.Limits = s.address, s.version, s.limits
	}
	return st
}

// reasonsAtOnce is for how many jobs a list names wait reasons. Each costs a walk
// through the order of all jobs.
const reasonsAtOnce = 200

// waitReason says in words why nothing of a job runs, or why its output is not in
// place yet. It is "" if neither is so.
func (c *Core) waitReason(j *jobEntry) string {
	// The job has no tasks left to wait for: only the storage's error holds it up.
	if j.delayed != "" {
		return j.delayed
	}
	t := j.core
	// A job with a running attempt makes progress, even if other tasks wait.
	if j.decided() || t.Running(job.Map)+t.Running(job.Reduce) > 0 {
		return ""
	}
	for k := range job.Kind(job.Kinds) {
		// Maps first: reduces that wait for slow start wait for the maps, whose reason is the
		// cause.
		if t.Pending(k)+t.Delayed(k) > 0 {
			_, words := c.tracker.Explain(t, k)
			return words
		}
	}
	return ""
}

// Explain says why a job gets no task now and what kept it waiting so far.
func (c *Core) Explain(id job.ID) (*slotwisev1.ExplainResponse, error) {
	j := c.jobs[id]
	if j == nil {
		return nil, noJob(id)
	}
	resp := &slotwisev1.ExplainResponse{Job: id.String(), Why: c.explanations(j)}
	if t := c.tracker.Jobs().Get(id); t != nil {
		if due, ok := t.Due(); ok {
			resp.DeadlineMs = c.millis(due)
		}
	}
	return resp, nil
}

// explanations returns the current wait reason of each kind of task that waits,
// then the earlier ones, longest first.
func (c *Core) explanations(j *jobEntry) (out []*slotwisev1.Explanation) {
	type key struct {
		kind job.Kind
		code sched.Code
	}
	current := map[key]*slotwisev1.Explanation{}
	if t := j.core; !j.decided() {
		for k := range job.Kind(job.Kinds) {
			if t.Total(k) == 0 {
				continue
			}
			why, words := c.tracker.Explain(t, k)
			e := &slotwisev1.Explanation{Kind: WireKind(k), Reason: why.Code.Name(), Words: words, Advice: c.advice(t, k, why), Now: true}
			current[key{k, why.Code}] = e
			out = append(out, e)
		}
	}
	return append(out, heldBack(j, func(w job.Wait) bool {
		// The reason holds now and has held before. One line with the sum is clearer than two with
		// the same words.
		if e := current[key{w.Kind, sched.Code(w.Reason)}]; e != nil {
			e.HeldMs = w.For.Milliseconds()
			return false
		}
		return true
	})...)
}

// heldBack lists a job's wait reasons that pass a filter, longest first.
func heldBack(j *jobEntry, want func(job.Wait) bool) []*slotwisev1.Explanation {
	if j.core == nil {
		return nil
	}
	return HeldBack(j.core, want)
}
