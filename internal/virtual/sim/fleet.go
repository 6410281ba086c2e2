package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// scaleEvery is the time between two decisions of Config.Autoscale. machines.Loop has the
// same by default.
const scaleEvery = 2 * time.Second

// fleet starts and stops nodes with the work. It decides by the autoscaler of a master. The
// simulated provider makes a machine that is a worker after Config.StartUp, and
// removes one at once.
type fleet struct {
	cfg      autoscale.Config
	scaler   *autoscale.Scaler
	replicas int
	machines []machine // by node
	in       autoscale.Input
}

// machine is the state of a node in the fleet. A node that is not requested costs nothing.
type machine struct{ requested, marked bool }

// newFleet returns the fleet of a cluster with n nodes, or nil if cfg is nil.
func newFleet(cfg *autoscale.Config, n int) (*fleet, error) {
	if cfg == nil {
		return nil, nil
	}
	if cfg.Max != n {
		return nil, fmt.Errorf("autoscale: max=%d: must be the number of nodes of the cluster, which is %d", cfg.Max, n)
	}
	scaler, err := autoscale.New(*cfg)
	if err != nil {
		return nil, fmt.Errorf("autoscale: %w", err)
	}
	return &fleet{cfg: *cfg, scaler: scaler, replicas: cfg.Min, machines: make([]machine, n)}, nil
}

// begin decides at the start of a run whether a node is up. The first Min nodes are.
func (f *fleet) begin(s *sim, n int32) bool {
	s.nodes[n].up = int(n) < f.cfg.Min
	if s.nodes[n].up {
		f.machines[n].requested = true
		s.notifyNode(NodeRequested, n)
	}
	return s.nodes[n].up
}

// scale makes one decision and carries it out, in the order of machines.Loop.
func (f *fleet) scale(s *sim) {
	out := f.scaler.Step(s.now, f.input(s))
	for _, name := range out.Stay {
		f.machines[s.byName[name]].marked = false
		s.step(&tracker.Drain{Node: name, Undo: true})
	}
	for _, name := range out.Leave {
		f.machines[s.byName[name]].marked = true
		s.disturb(s.byName[name]) // a drained node holds no rounds
		s.step(&tracker.Drain{Node: name})
	}
	for _, name := range out.GiveBack {
		f.giveBack(s, s.byName[name])
		f.replicas--
	}
	for ; f.replicas < out.Replicas; f.replicas++ {
		f.request(s)
	}
	s.queue.push(s.now+scaleEvery, evScale, 0, 0)
}

// input describes the fleet and the work to the scaler.
func (f *fleet) input(s *sim) autoscale.Input {
	jobs := s.tr.Jobs()
	f.in.Demand, f.in.Busy, f.in.Replicas = autoscale.DemandOf(jobs), len(jobs.Live()) > 0, f.replicas
	f.in.Workers = f.in.Workers[:0]
	for i, m := range f.machines {
		if !m.requested {
			continue
		}
		nd := &s.nodes[i]
		w := autoscale.Worker{Name: nd.name, Marked: m.marked, Unready: !nd.up}
		// By the tracker, and not by nd.up: the scaler of a master knows a crash no sooner than its
		// tracker.
		if n := s.tr.Nodes().Get(nd.name); n != nil && n.Alive() {
			w.Registered, w.Drained = true, n.Draining()
			w.Slots = autoscale.Slots{n.Spec().MapSlots, n.Spec().ReduceSlots}
			w.Running, w.Outputs = len(n.Attempts()), jobs.MapOutputs(n.Index())
		}
		f.in.Workers = append(f.in.Workers, w)
	}
	return f.in
}

// request asks for a machine: the first node that is not requested.
func (f *fleet) request(s *sim) {
	n := int32(slices.IndexFunc(f.machines, func(m machine) bool { return !m.requested }))
	f.machines[n] = machine{requested: true}
	s.notifyNode(NodeRequested, n)
	s.queue.push(s.now+f.cfg.StartUp, evBoot, n, s.nodes[n].life)
}

// boot makes a machine that has started a member of the cluster.
func (f *fleet) boot(s *sim, n int32) {
	if old := s.tr.Nodes().Get(s.nodes[n].name); old != nil && old.Draining() {
		s.step(&tracker.Drain{Node: old.Name(), Undo: true}) // the drain of an earlier machine
	}
	s.restart(n)
}

// giveBack removes a machine. Attempts of a crash that the tracker has not noticed yet are
// lost with it.
func (f *fleet) giveBack(s *sim, n int32) {
	nd := &s.nodes[n]
	s.disturb(n)
	nd.up = false
	// A machine of the same node that is requested later has the next life.
	nd.life++ // cancels its start, crash or return
	nd.beatGen++
	nd.holds, nd.idle = nil, nil
	delete(s.stopped, n)
	s.silent = slices.DeleteFunc(s.silent, func(x int32) bool { return x == n })
	if old := s.tr.Nodes().Get(nd.name); old != nil && old.Alive() {
		// The outputs were kept for Config.Hold at most. The rest is lost now, and its maps run
		// again.
		if s.tr.Jobs().MapOutputs(old.Index()) > 0 {
			for _, j := range s.tr.Jobs().Live() {
				s.hideOutputs(s.jobs[j.ID()], n)
			}
		}
		s.step(&tracker.Lose{Node: nd.name})
		s.dropAll(n)
		s.pace()
	}
	f.machines[n] = machine{}
	s.notifyNode(NodeReturned, n)
}
