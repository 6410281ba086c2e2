package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// List is the read view of all nodes. Counts of nodes include live nodes only, counts of
// slots only live nodes that take work.
type List struct {
	nodes    []*Node // by index
	byName   map[string]*Node
	racks    []string         // names by index
	hostIDs  map[string]int32 // index by name of the host
	rackOf   []int32          // by host index, -1 while unknown
	alive    int              // nodes
	open     int              // live nodes that are not closed
	slots    [job.Kinds]int   // of open nodes, by kind
	with     [job.Kinds]int   // open nodes with a slot of the kind
	reported [job.Kinds]int   // sum of Node.reported
}

// All returns every node that ever joined, by index, dead ones included. A forgotten node
// is a dead one without a name. The slice must not be changed.
func (l *List) All() []*Node { return l.nodes }

// Node returns the node of that index.
func (l *List) Node(index int32) *Node { return l.nodes[index] }

// Get returns the node of that name, or nil.
func (l *List) Get(name string) *Node { return l.byName[name] }

// Alive counts the live nodes.
func (l *List) Alive() int { return l.alive }

// Open counts the live nodes that are not closed.
func (l *List) Open() int { return l.open }

// Slots counts the slots of a kind of nodes that are not closed.
func (l *List) Slots(k job.Kind) int { return l.slots[k] }

// With counts the nodes not closed that have a slot of a kind.
func (l *List) With(k job.Kind) int { return l.with[k] }

// Reported sums Node.Reported.
func (l *List) Reported(k job.Kind) int { return l.reported[k] }

// RackName returns the name of a rack.
func (l *List) RackName(rack int32) string { return l.racks[rack] }

// Racks counts the racks that were ever named.
func (l *List) Racks() int { return len(l.racks) }

// LevelOf says how close a task would run to its input on a node: 0 for a
// reduce. The index in package job finds the closest task that was never launched.
func (l *List) LevelOf(t *job.Task, n *Node) Level {
	if t.Kind() == job.Reduce {
		return 0
	}
	best := NONE
	for _, host := range t.Hosts() {
		switch {
		// No other location can be closer.
		case host == n.host:
			return NODE
		case l.rackOf[host] == n.rack:
			best = RACK
		case best == NONE:
			best = ANY
		}
	}
	return best
}

// Fitting reports whether a node for which ok returns true has as many slots of a kind as
// a task that asks for the given memory and processors occupies there. best is the node that comes closest to it, by the
// share of the needed slots that it has; nil if ok returns false for all nodes, or if none
// has a slot of the kind. It costs a walk over the nodes.
func (l *List) Fitting(memory int64, cpus int, k job.Kind, ok func(*Node) bool) (fits bool, best *Node) {
	share := 0.0
	for _, n := range l.nodes {
		// A node without slots of the kind is no answer to which node comes closest.
		if n.Slots(k) == 0 || !ok(n) {
			continue
		}
		has := float64(n.Slots(k)) / float64(n.spec.Width(memory, cpus))
		if has >= 1 {
			return true, n
		}
		if has > share {
			share, best = has, n
		}
	}
	return false, best
}

// Book is the write port of the cluster, owned by the tracker. It is also the
// job.Topology that numbers hosts.
type Book struct {
	list    List
	rackIDs map[string]int32
	free    []int32 // indices of forgotten nodes
}

var _ job.Topology = (*Book)(nil)

// NewBook returns a cluster without nodes.
func NewBook() *Book {
	return &Book{
		list:    List{byName: make(map[string]*Node), hostIDs: make(map[string]int32)},
		rackIDs: make(map[string]int32),
	}
}

// List returns the read view, the same one each time.
func (b *Book) List() *List { return &b.list }

// Host returns the number of a host, new if it was never mentioned.
func (b *Book) Host(name string) int32 {
	id, ok := b.list.hostIDs[name]
	if !ok {
		id = int32(len(b.list.rackOf))
		b.list.hostIDs[name] = id
		// Hosts of splits need no node. Their rack is unknown until one joins.
		b.list.rackOf = append(b.list.rackOf, -1)
	}
	return id
}

// RackOf returns the rack of a host, or -1 while no node has joined from it.
func (b *Book) RackOf(host int32) int32 { return b.list.rackOf[host] }

// rack returns the index of a rack, which it adds if it is new. Racks are never removed.
func (b *Book) rack(name string) int32 {
	id, ok := b.rackIDs[name]
	if !ok {
		id = int32(len(b.list.racks))
		b.rackIDs[name] = id
		b.list.racks = append(b.list.racks, name)
	}
	return id
}

// Join makes a node a live member; if it was one before it must have left
// first. A node that was never a member may get the index of a forgotten one. Join reports
// whether the host's rack became known or changed by it.
func (b *Book) Join(spec Spec, now time.Duration) (n *Node, placed bool) {
	spec = spec.Filled()
	n = b.list.byName[spec.Name]
	if n == nil {
		n = &Node{index: int32(len(b.list.nodes))}
		n.running = n.room[:0]
		// Tables of policies and of jobs are indexed by node. Without reuse they would grow for
		// ever on an autoscaled cluster.
		if last := len(b.free) - 1; last >= 0 {
			n.index, b.free = b.free[last], b.free[:last]
			b.list.nodes[n.index] = n
		} else {
			b.list.nodes = append(b.list.nodes, n)
		}
		b.list.byName[spec.Name] = n
	}
	n.spec, n.host, n.rack = spec, b.Host(spec.Host), b.rack(spec.Rack)
	n.alive, n.absent, n.lastSeen, n.joined, n.load = true, false, now, now, Load{}
	n.condition, n.conditionWhy, n.conditionAt = Ready, "", 0
	// After all fields are set: the counts are by the new spec, which may have other slots than the last.
	b.members(n, 1)
	placed = b.list.rackOf[n.host] != n.rack
	b.list.rackOf[n.host] = n.rack
	return n, placed
}

// Leave makes a node a dead one, for a reason that operators see. Unless the node is
// absent, its attempts must have been ended.
func (b *Book) Leave(n *Node, why string, now time.Duration) {
	// A node that is away reports nothing, and its last report would stay in the cluster's sums.
	b.report(n, [job.Kinds]int{})
	b.Release(n)
	// While the node is alive: members counts live nodes only.
	b.members(n, -1)
	n.alive, n.absent, n.leftAt, n.leftWhy = false, false, now, why
}

// Forget forgets a former member, with its marks and faults. No attempt may name the
// node's index any more, because another node may get it. Until then List.All has an empty
// node in its place.
func (b *Book) Forget(n *Node) {
	// A node of that name that joins later is a new one, with another index and without marks.
	delete(b.list.byName, n.Name())
	b.list.nodes[n.index] = &Node{index: n.index}
	b.free = append(b.free, n.index)
}

// Miss makes a member absent, with what runs there in order of its launch.
func (b *Book) Miss(n *Node, now time.Duration) {
	b.Leave(n, "", now)
	// After Leave, which clears absent. The time restarts the wait until the node is given up.
	n.absent, n.lastSeen = true, now
	slices.SortFunc(n.running, func(x, y *job.Attempt) int { return cmp.Compare(x.Seq(), y.Seq()) })
}

// Drain keeps new work from a node, or no longer, and reports whether that is a
// change.
func (b *Book) Drain(n *Node, on bool, now time.Duration) bool {
	changed := n.draining != on
	if changed {
		b.change(n, func() { n.draining, n.drainAt = on, now })
	}
	return changed
}

// Gray puts a node on the graylist, or takes it off, and reports whether that is a
// change.
func (b *Book) Gray(n *Node, on bool, now time.Duration) bool {
	changed := n.gray != on
	if changed {
		b.change(n, func() { n.gray, n.grayAt = on, now })
	}
	return changed
}

// SetCondition records what a worker reports about its ability to take work, and why, and
// reports whether the condition has changed.
func (b *Book) SetCondition(n *Node, c Condition, why string, now time.Duration) bool {
	n.conditionWhy = why
	changed := n.condition != c
	if changed {
		b.change(n, func() { n.condition, n.conditionAt = c, now })
	}
	return changed
}

// SetFaults replaces the faults of a node. The slice is the book's from then on.
func (b *Book) SetFaults(n *Node, faults []Fault) { n.faults = faults }

// change does something to a node that may close or open it.
func (b *Book) change(n *Node, do func()) {
	// Out of the counts in the old state and into them in the new one. An adjustment by each kind of change
	// would have to know all others.
	b.members(n, -1)
	do()
	if n.Closed() {
		b.Release(n)
	}
	b.members(n, 1)
}

// members adds a node to the counts over live nodes, or with -1 takes it out.
func (b *Book) members(n *Node, by int) {
	if !n.alive {
		return
	}
	b.list.alive += by
	// Closed nodes count as alive, and their slots as none.
	if n.Closed() {
		return
	}
	b.list.open += by
	for k := range job.Kind(job.Kinds) {
		b.list.slots[k] += by * n.Slots(k)
		if n.Slots(k) > 0 {
			b.list.with[k] += by
		}
	}
}

// Seen notes a heartbeat.
func (b *Book) Seen(n *Node, load Load, now time.Duration) { n.lastSeen, n.load = now, load }

// Park lets the shell keep the time of the node's last heartbeat in *lastSeen.
func (b *Book) Park(n *Node, lastSeen *time.Duration) { n.parked = lastSeen }

// Unpark ends Park.
func (b *Book) Unpark(n *Node) { n.lastSeen, n.parked = *n.parked, nil }

// Report notes what runs on the node once its reports are worked in.
func (b *Book) Report(n *Node) {
	if now := [job.Kinds]int{n.Occupied(job.Map), n.Occupied(job.Reduce)}; now != n.reported {
		b.report(n, now)
	}
}

// report replaces the counts that a node has reported, and keeps the cluster's sums.
func (b *Book) report(n *Node, counts [job.Kinds]int) {
	for k := range counts {
		b.list.reported[k] += counts[k] - n.reported[k]
	}
	n.reported = counts
}

// Reserve keeps the node's free slots of a kind for a job, or with the zero Reservation
// for no job any more.
func (b *Book) Reserve(n *Node, slot job.Kind, r Reservation) { n.reserved[slot] = r }

// Release removes the node's reservations.
func (b *Book) Release(n *Node) { n.reserved = [job.Kinds]Reservation{} }

// Start notes that an attempt runs on a node.
func (b *Book) Start(n *Node, a *job.Attempt) {
	n.on[a.Kind()][a.Slot()]++
	n.occupied[a.Kind()][a.Slot()] += a.Width()
	n.running = append(n.running, a)
}

// Stop notes that an attempt runs no more.
func (b *Book) Stop(n *Node, a *job.Attempt) {
	n.on[a.Kind()][a.Slot()]--
	n.occupied[a.Kind()][a.Slot()] -= a.Width()
	// A node runs a few dozen attempts, in one piece of memory. The list stays in the order of launches, in
	// which nodes report.
	if at := slices.Index(n.running, a); at >= 0 {
		n.running = slices.Delete(n.running, at, at+1)
	}
}
