// Package cluster holds the state of nodes, racks and hosts: the slots of each node, its
// last report, and the attempts that run on it.
//
// As in package job, the methods of Node and List only read, and all changes go through
// a Book that the tracker owns. Nodes, hosts and racks are numbered from 0 in the order
// in which they are first named, so that tables can be slices and no order depends on a
// map.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Level is the distance of an attempt from its input.
type Level = job.Level

// The levels, from best to worst; see package job.
const (
	NODE = job.LevelNode
	RACK = job.LevelRack
	ANY  = job.LevelAny
	NONE = job.LevelNone
)

// DefaultRack is the rack of nodes that name none.
const DefaultRack = "/default-rack"

// Spec is a node's description of itself when it joins.
type Spec struct {
	Name        string  // unique in the cluster
	Host        string  // as it appears in the splits' hosts; Name if empty
	Rack        string  // DefaultRack if empty
	MapSlots    int     // number of map slots
	ReduceSlots int     // number of reduce slots
	Cores       int     // processors; 0 is unknown
	Speed       float64 // relative to a normal core; 1 if 0
	MemoryBytes int64   // for all attempts together; 0 is unknown
}

// SlotMemory returns the memory of one slot in bytes: an equal share for each slot of
// either kind. 0 is unknown.
func (s *Spec) SlotMemory() int64 {
	if slots := int64(s.MapSlots) + int64(s.ReduceSlots); slots > 0 && s.MemoryBytes > 0 {
		return max(1, s.MemoryBytes/slots)
	}
	return 0
}

// Width returns how many slots a task occupies that asks for the given memory in bytes
// and number of processors: the fewest slots that together have both. 0 asks for one
// slot's share. What the spec does not state does not limit the task.
//
//	width = max(1, ⌈memory / slot memory⌉, ⌈cpus / slot cpus⌉)
//
// This is the rule of Hadoop 1's CapacityScheduler for jobs with high memory demands,
// extended to processors. The slots of both kinds share the node's memory and processors
// equally.
func (s *Spec) Width(memory int64, cpus int) int {
	width := int64(1)
	if slot := s.SlotMemory(); slot > 0 && memory > 0 {
		// The ceiling in a form that does not overflow for the largest memory.
		width = max(width, (memory-1)/slot+1)
	}
	if s.Cores > 0 && cpus > 0 {
		slots, cores := int64(s.MapSlots)+int64(s.ReduceSlots), int64(s.Cores)
		// A slot's share is cores/slots processors, which need not be a whole number: the ceiling
		// of cpus/(cores/slots).
		width = max(width, (int64(cpus)*slots+cores-1)/cores)
	}
	return int(min(width, maxWidth))
}

// maxWidth bounds widths. No node has as many slots.
const maxWidth = 1 << 24

// Check returns an error that names the first invalid field of a spec, or nil.
func (s *Spec) Check() error {
	switch {
	case s.Name == "":
		return errors.New("node has no name")
	case s.MapSlots < 0 || s.ReduceSlots < 0:
		return fmt.Errorf("node %s: slots %d+%d, must not be negative", s.Name, s.MapSlots, s.ReduceSlots)
	case s.MapSlots > maxSlots || s.ReduceSlots > maxSlots:
		return fmt.Errorf("node %s: slots %d+%d, must be at most %d of a kind", s.Name, s.MapSlots, s.ReduceSlots, maxSlots)
	case s.Cores < 0 || s.Speed < 0 || s.MemoryBytes < 0:
		return fmt.Errorf("node %s: cores, speed and memory must not be negative", s.Name)
	}
	return nil
}

// maxSlots bounds the slots of a kind, below maxWidth.
const maxSlots = 1 << 20

// Filled returns the spec with the defaults filled in.
func (s Spec) Filled() Spec {
	s.Host = cmp.Or(s.Host, s.Name)
	s.Rack = cmp.Or(s.Rack, DefaultRack)
	s.Speed = cmp.Or(s.Speed, 1)
	return s
}

// Load is a node's state as it last reported it. Zero values are unknown.
type Load struct {
	LoadAverage float64 // runnable processes, mean of the last minute
	CPU         float64 // busy fraction of all cores, 0 to 1
	MemoryFree  float64 // free fraction, 0 to 1
	DiskRate    float64 // bytes read and written a second
	NetworkRate float64 // bytes received and sent a second
	Processes   int     // on the whole machine
	SwapFree    float64 // free fraction of the swap space, 0 to 1; 0 without swap
	DiskFree    int64   // free bytes where the node stores its files
	Machine     Machine
}

// Machine holds the properties of a node's machine that do not change. 0 is unknown.
type Machine struct {
	Memory int64 // bytes of the whole machine
	Swap   int64 // bytes
	Disks  int
	Arch   Arch
	Kernel int32 // version of the operating system; see KernelOf
}

// Measured reports whether the load holds anything that changes. A node that does not
// measure its load may still know its machine.
func (l Load) Measured() bool {
	l.Machine = Machine{}
	return l != Load{}
}

// KernelOf returns the number of an operating system's version such as "6.8.0-45-generic": 1000
// times the first number, plus the second, here 6008. It returns 0, unknown, for other texts.
func KernelOf(version string) int32 {
	major, rest, _ := strings.Cut(version, ".")
	minor := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	a, err := strconv.ParseUint(major, 10, 16)
	if err != nil || len(minor) == 0 {
		return 0
	}
	b, err := strconv.ParseUint(minor[0], 10, 16)
	if err != nil {
		return 0
	}
	// A greater second number would count as the next first one.
	return int32(1000*a + min(b, 999))
}

// Arch is a processor architecture, an index into archNames.
type Arch uint8

// archNames are Go's names of the architectures that schedulers distinguish. The order is
// part of saved state: append only.
var archNames = [...]string{"", "amd64", "arm64", "ppc64le", "riscv64", "s390x", "loong64"}

// ArchOf returns the architecture that Go calls name, or 0 for any other.
func ArchOf(name string) Arch {
	return Arch(max(0, slices.Index(archNames[:], name)))
}

// String returns Go's name of the architecture, "" if it is unknown.
func (a Arch) String() string { return archNames[a] }

// Node is a present or former member of the cluster. All methods only read.
type Node struct {
	spec     Spec
	index    int32 // in List.nodes
	host     int32 // index of the host
	rack     int32 // index of the rack
	alive    bool
	absent   bool
	draining bool
	gray     bool
	faults   []Fault

	// condition and conditionWhy repeat the worker's last report. Each time says when its
	// state last changed; leftAt and leftWhy belong to lost and absent nodes.
	condition                            Condition
	conditionWhy, leftWhy                string
	drainAt, grayAt, conditionAt, leftAt time.Duration

	lastSeen time.Duration  // last heartbeat, join or Miss
	parked   *time.Duration // of a parked node: the time of its last heartbeat, which the shell keeps
	joined   time.Duration  // last join
	load     Load
	on       [job.Kinds][job.Kinds]int // running attempts, by kind of task and kind of slot
	occupied [job.Kinds][job.Kinds]int // slots, as on counts attempts
	reserved [job.Kinds]Reservation    // by kind of slot
	reported [job.Kinds]int            // slots occupied after the reports of the last heartbeat, by kind of task
	running  []*job.Attempt            // oldest first
	// room backs running while it is short, so that both share cache lines.
	room [8]*job.Attempt
}

// Reservation keeps the free slots of one kind on a node for a job whose tasks occupy
// several slots, until enough are free at the same time. The zero value is none.
type Reservation struct {
	Job   *job.Job
	Width int // slots that the job's task occupies on the node
}

// Name returns the node's unique name.
func (n *Node) Name() string { return n.spec.Name }

// Spec returns the node's description of itself, with the defaults filled in.
func (n *Node) Spec() Spec { return n.spec }

// Forgotten reports whether Book.Forget has removed the node. List.All then contains this
// empty node in its place.
func (n *Node) Forgotten() bool { return n.spec.Name == "" }

// Index returns the node's number, which it keeps when it leaves and joins again, until it
// is forgotten.
func (n *Node) Index() int32 { return n.index }

// Host returns the number of the node's host, which several nodes may share.
func (n *Node) Host() int32 { return n.host }

// Rack returns the number of the node's rack.
func (n *Node) Rack() int32 { return n.rack }

// Alive reports whether the node is a member now.
func (n *Node) Alive() bool { return n.alive }

// Absent reports whether the node was a member before the tracker's restart and has not
// joined since. It is not alive, but its attempts may still run.
func (n *Node) Absent() bool { return n.absent }

// Draining reports whether somebody has drained the node: it gets no new work. The mark
// stays when the node leaves.
func (n *Node) Draining() bool { return n.draining }

// Graylisted reports whether the node gets no new work for a while, because too many
// tasks failed there that succeeded elsewhere.
func (n *Node) Graylisted() bool { return n.gray }

// Fault is a job's accusation of a node: a task of the job that had failed there succeeded
// elsewhere.
type Fault struct {
	At   time.Duration // when the task succeeded
	Job  job.ID
	User string // the job's owner
}

// Faults returns the latest faults of the node, oldest first. The slice must not be changed.
func (n *Node) Faults() []Fault { return n.faults }

// Condition returns what the worker last reported about its ability to take work.
func (n *Node) Condition() Condition { return n.condition }

// DrainedAt returns when the node was last drained or its drain was ended; 0 if never.
func (n *Node) DrainedAt() time.Duration { return n.drainAt }

// GrayAt returns when the node was last put on the graylist or taken off; 0 if never.
func (n *Node) GrayAt() time.Duration { return n.grayAt }

// LeftAt returns when a node that is no member stopped being one.
func (n *Node) LeftAt() time.Duration { return n.leftAt }

// Closed reports whether the node gets no new work: it is drained or graylisted, or its
// worker reports that it cannot work. See State.
func (n *Node) Closed() bool { return n.draining || n.gray || n.condition != Ready }

// LastSeen returns when the node last joined or sent a heartbeat.
func (n *Node) LastSeen() time.Duration {
	if n.parked != nil {
		return *n.parked
	}
	return n.lastSeen
}

// Joined returns when the node last joined.
func (n *Node) Joined() time.Duration { return n.joined }

// Load returns the load that the node last reported.
func (n *Node) Load() Load { return n.load }

// Slots returns the number of the node's slots of a kind.
func (n *Node) Slots(k job.Kind) int {
	if k == job.Map {
		return n.spec.MapSlots
	}
	return n.spec.ReduceSlots
}

// Used counts the slots of a kind that are occupied, by tasks of either kind.
func (n *Node) Used(slot job.Kind) int {
	return n.occupied[job.Map][slot] + n.occupied[job.Reduce][slot]
}

// Occupied counts the slots, of either kind, that running attempts of a kind occupy.
func (n *Node) Occupied(task job.Kind) int {
	return n.occupied[task][job.Map] + n.occupied[task][job.Reduce]
}

// Width returns how many slots a task of the job occupies on the node, at least 1; see
// Spec.Width.
func (n *Node) Width(j *job.Job) int {
	if !j.Asks() {
		return 1
	}
	return n.spec.Width(j.TaskMemory(), j.TaskCPUs())
}

// Reserved returns the reservation of the node's slots of a kind.
func (n *Node) Reserved(slot job.Kind) Reservation { return n.reserved[slot] }

// Free counts the free slots of a kind. It is never negative.
func (n *Node) Free(slot job.Kind) int { return max(0, n.Slots(slot)-n.Used(slot)) }

// Running counts the running attempts of a kind, on slots of either kind.
func (n *Node) Running(task job.Kind) int { return n.on[task][job.Map] + n.on[task][job.Reduce] }

// RunningOn counts the running attempts of a kind on slots of a kind.
func (n *Node) RunningOn(task, slot job.Kind) int { return n.on[task][slot] }

// Reported returns how many slots attempts of a kind occupied on the node after the reports of its
// last heartbeat, and before the launches that the heartbeat led to.
func (n *Node) Reported(task job.Kind) int { return n.reported[task] }

// Attempts returns the running attempts on the node, oldest first. The slice must not be
// changed and is valid until the next change.
func (n *Node) Attempts() []*job.Attempt { return n.running }

// Find returns an attempt if it runs on the node, and its position in Attempts. The
// search starts at position from and wraps around. If reports come in the order of
// Attempts, each search that starts where the last one ended costs one comparison.
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
