package master

import (
	"context"
	"maps"
	"slices"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// jobIDs returns the numbers of all jobs in memory, in order.
func (m *Master) jobIDs() []job.ID { return slices.Sorted(maps.Keys(m.jobs)) }

// Tasks lists a job's tasks.
func (c clientService) Tasks(ctx context.Context, r *slotwisev1.TasksRequest) (*slotwisev1.TasksResponse, error) {
	resp, err := ask(ctx, c.m, func() (*slotwisev1.TasksResponse, error) {
		j, err := c.m.job(r.Job)
		if err != nil {
			return nil, err
		}
		resp := &slotwisev1.TasksResponse{}
		for k := range job.Kind(job.Kinds) {
			if r.Kind == slotwisev1.Kind_KIND_UNSPECIFIED || r.Kind == wireKind(k) {
				resp.Tasks = append(resp.Tasks, c.m.tasksOf(j, k, r.State)...)
			}
		}
		return resp, nil
	})
	return orPast(c.m, r.Job, resp, err, func(j *slotwisev1.HistoryJob) *slotwisev1.TasksResponse {
		resp := &slotwisev1.TasksResponse{}
		for _, t := range j.Tasks {
			id, err := job.ParseTask(t.Id)
			if err == nil && (r.Kind == slotwisev1.Kind_KIND_UNSPECIFIED || r.Kind == wireKind(id.Kind)) && (r.State == "" || r.State == t.State) {
				resp.Tasks = append(resp.Tasks, t)
			}
		}
		return resp
	})
}

// tasksOf describes a job's tasks of a kind, those in a state if one is named.
func (m *Master) tasksOf(j *jobInfo, k job.Kind, state string) (out []*slotwisev1.TaskStatus) {
	t := j.core
	if t == nil {
		return nil
	}
	for i := range t.Total(k) {
		task := t.Task(k, int32(i))
		if state != "" && task.State().String() != state {
			continue
		}
		s := &slotwisev1.TaskStatus{Id: task.ID().String(), State: task.State().String(), Hosts: task.Split().Hosts}
		for try := range task.Attempts() {
			s.Attempts = append(s.Attempts, m.attemptStatus(task.Attempt(int32(try))))
		}
		out = append(out, s)
	}
	return out
}

func (m *Master) attemptStatus(a *job.Attempt) *slotwisev1.AttemptStatus {
	s := &slotwisev1.AttemptStatus{
		Id: a.ID().String(), State: a.State().String(), Node: m.nodeOf(a), Speculative: a.Speculative(),
		Progress: a.Progress(), StartedMs: m.millis(a.Started()), EndedMs: m.millis(a.Ended()), Error: a.Error(),
	}
	if a.Level() != 0 {
		s.Level = a.Level().String()
	}
	return s
}

// Nodes lists the workers that ever came.
func (c clientService) Nodes(ctx context.Context, _ *slotwisev1.NodesRequest) (*slotwisev1.NodesResponse, error) {
	return ask(ctx, c.m, func() (*slotwisev1.NodesResponse, error) {
		resp := &slotwisev1.NodesResponse{}
		for _, n := range c.m.tracker.Nodes().All() {
			resp.Nodes = append(resp.Nodes, c.m.nodeStatus(n))
		}
		slices.SortFunc(resp.Nodes, func(a, b *slotwisev1.NodeStatus) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		return resp, nil
	})
}

func (m *Master) nodeStatus(n *cluster.Node) *slotwisev1.NodeStatus {
	spec, load := n.Spec(), n.Load()
	st := &slotwisev1.NodeStatus{
		Name: n.Name(), Host: spec.Host, Rack: spec.Rack, State: m.nodeState(n),
		MapSlots: int32(spec.MapSlots), ReduceSlots: int32(spec.ReduceSlots),
		Maps: int32(n.Running(job.Map)), Reduces: int32(n.Running(job.Reduce)),
		SeenMs: (m.now() - n.LastSeen()).Milliseconds(), Cpu: load.CPU,
	}
	if load.MemoryFree > 0 {
		st.Memory = 1 - load.MemoryFree
	}
	s := m.nodes[n.Name()]
	if s != nil {
		st.Address, st.Version = s.address, s.version
	}
	return st
}

// nodeState names a worker's state.
func (m *Master) nodeState(n *cluster.Node) string {
	s := m.nodes[n.Name()]
	closed := n.Draining() || s != nil && s.draining
	switch {
	case n.Absent():
		return "absent" // since the master was started again
	case !n.Alive():
		return "lost"
	case closed && len(n.Attempts()) > 0:
		return "draining"
	case closed:
		return "drained"
	case n.Graylisted():
		return "graylisted"
	}
	return "alive"
}
