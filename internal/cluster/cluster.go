// Package cluster holds what the tracker knows of nodes, racks and hosts: what
// a node has, what it last reported, and what runs on it.
//
// As in package job, whatever is reached from a *Node or a *List only reads;
// changes go through a *Book that the tracker owns. Nodes, hosts and racks are
// numbered from 0 in order of first mention, so that tables can be slices and
// order never depends on a map.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Level says how close an attempt runs to its input.
type Level = job.Level

// The levels, from best to worst; see package job.
const (
	NODE = job.LevelNode
	RACK = job.LevelRack
	ANY  = job.LevelAny
	NONE = job.LevelNone
)

// DefaultRack is where nodes are that name no rack.
const DefaultRack = "/default-rack"

// Spec is what a node says of itself when it joins.
type Spec struct {
	Name        string  // unique in the cluster
	Host        string  // as it appears in the splits' hosts; Name if empty
	Rack        string  // DefaultRack if empty
	MapSlots    int     // how many maps it runs at once
	ReduceSlots int     // how many reduces it runs at once
	Cores       int     // processors; 0 is unknown
	Speed       float64 // relative to a normal core; 1 if 0
	MemoryBytes int64   // 0 is unknown
}

// Check says what is wrong with a spec, or nil.
func (s *Spec) Check() error {
	switch {
	case s.Name == "":
		return errors.New("node has no name")
	case s.MapSlots < 0 || s.ReduceSlots < 0:
		return fmt.Errorf("node %s: slots %d+%d, must not be negative", s.Name, s.MapSlots, s.ReduceSlots)
	case s.Cores < 0 || s.Speed < 0 || s.MemoryBytes < 0:
		return fmt.Errorf("node %s: cores, speed and memory must not be negative", s.Name)
	}
	return nil
}

// Filled returns the spec with the defaults filled in.
func (s Spec) Filled() Spec {
	s.Host = cmp.Or(s.Host, s.Name)
	s.Rack = cmp.Or(s.Rack, DefaultRack)
	s.Speed = cmp.Or(s.Speed, 1)
	return s
}

// Load is a node's state as it last reported it. Zero values are unknown.
type Load struct {
	LoadAverage float64 // processes that run or wait to, mean of the last minute
	CPU         float64 // busy fraction of all cores, 0 to 1
	MemoryFree  float64 // free fraction, 0 to 1
	DiskRate    float64 // bytes read and written a second
	NetworkRate float64 // bytes received and sent a second
	Processes   int     // on the whole machine
}

// Node is a member of the cluster, or was one. All methods read.
type Node struct {
	spec     Spec
	index    int32
	host     int32
	rack     int32
	alive    bool
	absent   bool
	draining bool
	gray     bool
	faults   []time.Duration
	lastSeen time.Duration
	joined   time.Duration
	load     Load
	on       [job.Kinds][job.Kinds]int
	reported [job.Kinds]int
	running  []*job.Attempt
	// room is where running starts out, beside the rest of the node in memory.
	room [8]*job.Attempt
}

// Name returns the node's unique name.
func (n *Node) Name() string { return n.spec.Name }

// Spec returns what the node said of itself, defaults filled in.
func (n *Node) Spec() Spec { return n.spec }

// Index is the node's dense number; it keeps it when it leaves and comes back.
func (n *Node) Index() int32 { return n.index }

// Host is the dense number of the node's host; several nodes may share one.
func (n *Node) Host() int32 { return n.host }

// Rack is the dense number of the node's rack.
func (n *Node) Rack() int32 { return n.rack }

// Alive reports whether the node is a member now.
func (n *Node) Alive() bool { return n.alive }

// Absent reports whether the node was a member before a restart and has not been
// heard of since. It is not alive, but what ran there may still run.
func (n *Node) Absent() bool { return n.absent }

// Draining reports whether the node is to get no new work. It says so of nodes
// that have left, too.
func (n *Node) Draining() bool { return n.draining }

// Graylisted reports whether the node gets no new work for a while because too
// much has failed there that went well elsewhere.
func (n *Node) Graylisted() bool { return n.gray }

// Faults is when tasks succeeded elsewhere that had failed on the node, oldest
// first: the latest of them, as many as matter. The slice must not be changed.
func (n *Node) Faults() []time.Duration { return n.faults }

// Closed reports whether the node is kept from new work for whatever reason.
func (n *Node) Closed() bool { return n.draining || n.gray }

// LastSeen is when the node last joined or sent a heartbeat.
func (n *Node) LastSeen() time.Duration { return n.lastSeen }

// Joined is when the node last joined.
func (n *Node) Joined() time.Duration { return n.joined }

// Load is the node's last report of itself.
func (n *Node) Load() Load { return n.load }

// Slots is how many slots of a kind the node has.
func (n *Node) Slots(k job.Kind) int {
	if k == job.Map {
		return n.spec.MapSlots
	}
	return n.spec.ReduceSlots
}

// Used counts the slots of a kind that are occupied, by tasks of either kind.
func (n *Node) Used(slot job.Kind) int { return n.on[job.Map][slot] + n.on[job.Reduce][slot] }

// Free counts the slots of a kind that are not occupied, never less than 0.
func (n *Node) Free(slot job.Kind) int { return max(0, n.Slots(slot)-n.Used(slot)) }

// Running counts the running attempts of a kind, on slots of either kind.
func (n *Node) Running(task job.Kind) int { return n.on[task][job.Map] + n.on[task][job.Reduce] }

// RunningOn counts the running attempts of a kind on slots of a kind.
func (n *Node) RunningOn(task, slot job.Kind) int { return n.on[task][slot] }

// Reported is how many attempts of a kind ran just after the reports of the
// node's last heartbeat, before that heartbeat's launches.
func (n *Node) Reported(task job.Kind) int { return n.reported[task] }

// Attempts returns what runs on the node, oldest first. The slice must not be
// changed and holds until the next change.
func (n *Node) Attempts() []*job.Attempt { return n.running }

// Find returns the attempt of that name if it runs on the node, and its place in
// Attempts. It looks from a place on and then at those before it, so that
// finding all, each from the place of the last, costs one look each.
func (n *Node) Find(id job.AttemptID, from int) (*job.Attempt, int) {
	from = min(from, len(n.running))
	for i, a := range n.running[from:] {
		if a.ID() == id {
			return a, from + i
		}
	}
	for i, a := range n.running[:from] {
		if a.ID() == id {
			return a, i
		}
	}
	return nil, from
}
