package forecast

import (
	"fmt"
	"slices"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/sched/job"
)

// crowd is a machine that present nodes share with nodes which a Variant has added. The times that the model knows
// were measured without the added nodes. With them, attempts wait for processors.
//
// An attempt that used u processors computes for a part u of its time. If each second of computing takes 1 + x
// seconds, the attempt takes 1 + u·x times as long, and uses u / (1 + u·x) processors. The least x from 0 on at which
// all attempts together use no more than the machine has is the machine's:
//
//	Σ u / (1 + u·x) + others / (1 + x) ≤ processors
//
// Attempts that sleep or read take no longer therefore, and with n equal attempts on a machine that is busy
// already each takes n' / n times as long when there are n'.
type crowd struct {
	nodes []int32 // of the machine
	cores int     // of the machine; 0 is unknown
	// processors is cores, or what the present attempts use if that is more: uses are means, and the times of the
	// present attempts were measured in this crowd.
	processors float64
	others     float64 // processors that other work of the machine uses now
}

// newCrowds returns the crowds by node.
func (r *Run) newCrowds() []*crowd {
	list := make([]*crowd, len(r.state.Nodes))
	// Without added nodes the measured times contain the crowd that there is.
	if r.state.Added == 0 {
		return list
	}
	hosts := map[string]*crowd{}
	for i := range r.state.Nodes {
		n := &r.state.Nodes[i]
		c := hosts[n.host()]
		if c == nil {
			c = &crowd{}
			hosts[n.host()] = c
		}
		c.nodes = append(c.nodes, int32(i))
		list[i] = c
	}
	for i := range list {
		if c := list[i]; c.nodes[0] == int32(i) {
			r.measure(c)
		}
	}
	for i, c := range list {
		// A machine of which the processors are unknown, or with no added node beside a present one, is no crowd.
		added := slices.ContainsFunc(c.nodes, func(k int32) bool { return r.state.Nodes[k].Index < 0 })
		if c.cores == 0 || len(c.nodes) == 1 || !added {
			list[i] = nil
		}
	}
	return list
}

// measure sets the numbers of a machine's processors: all, and the busy ones.
func (r *Run) measure(c *crowd) {
	names, busy := map[string]bool{}, 0.
	for _, i := range c.nodes {
		n := &r.state.Nodes[i]
		names[n.Spec.Name] = true
		c.cores, busy = max(c.cores, n.Spec.Cores), max(busy, n.Load.CPU)
	}
	own := 0.
	for i := range r.state.Running {
		if a := &r.state.Running[i]; names[a.Node] {
			if src := r.model.jobs[a.ID.Job]; src != nil {
				own += src[a.ID.Kind].processors
			}
		}
	}
	c.others, c.processors = max(0, float64(busy*float64(c.cores))-own), max(float64(c.cores), own)
}

// crowding returns how many times as long an attempt that starts now takes because added nodes use the processors of
// its machine.
func (w *future) crowding(a *job.Attempt) float64 {
	c := w.run.crowds[a.Node()]
	if c == nil {
		return 1
	}
	id := a.ID()
	own := w.processors(id.Job, id.Kind)
	if own == 0 {
		return 1
	}
	var uses []float64
	free := 0
	for _, i := range c.nodes {
		n := w.t.Nodes().All()[i]
		for _, x := range n.Attempts() {
			uses = append(uses, w.processors(x.ID().Job, x.ID().Kind))
		}
		free += n.Free(id.Kind)
	}
	// Tasks that start within the next heartbeat take processors for most of its time, too.
	if j := w.t.Jobs().Get(id.Job); j != nil {
		for range min(free, j.Pending(id.Kind)) {
			uses = append(uses, own)
		}
	}
	return 1 + float64(own*c.wait(uses))
}

// processors returns the number of processors that an attempt of a job uses.
func (w *future) processors(id job.ID, k job.Kind) float64 {
	if src := w.run.model.jobs[id]; src != nil {
		return src[k].processors
	}
	return 0
}

// wait returns by how many seconds each second of computing is longer when attempts with these uses run.
func (c *crowd) wait(uses []float64) float64 {
	used := func(x float64) float64 {
		sum := c.others / (1 + x)
		for _, u := range uses {
			sum += u / (1 + float64(u*x))
		}
		return sum
	}
	if used(0) <= c.processors {
		return 0
	}
	low, high := 0., 1.
	// It ends: each term falls towards 0 as x grows.
	for used(high) > c.processors {
		low, high = high, 2*high
	}
	for high-low > 0.01*high {
		if mid := (low + high) / 2; used(mid) > c.processors {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// machines says as an assumption where the added nodes run.
func (r *Run) machines() string {
	last := &r.state.Nodes[len(r.state.Nodes)-1]
	switch c := r.crowds[len(r.crowds)-1]; {
	case c != nil:
		return fmt.Sprintf("on %s, whose %s they share with %s", last.host(), terminal.Plural(c.cores, "processor"), terminal.Plural(len(c.nodes)-r.state.Added, "other"))
	case last.Spec.Host != "":
		return fmt.Sprintf("on %s, whose processors are unknown", last.host())
	}
	return "each on a machine of its own"
}
