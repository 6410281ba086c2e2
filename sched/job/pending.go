package job

import (
	"math/bits"
	"slices"
)

// cursor walks a list of task indices in ascending order and drops from its
// front the tasks that have been launched. A launched task never becomes fresh
// again (it goes to the retry list), so the head only moves forward and all
// calls together cost the length of the list.
type cursor struct {
	list []int32
	head int
}

// first returns the first fresh task of the list, or -1.
func (c *cursor) first(fresh taskSet) int32 {
	for ; c.head < len(c.list); c.head++ {
		if i := c.list[c.head]; fresh.has(i) {
			return i
		}
	}
	return -1
}

// taskSet is a set of task indices with one bit for each task. It stays in the processor's
// cache, where the tasks themselves would not fit.
type taskSet []uint64

// first returns the least task of the set, no less than the one at *head, or -1; and moves *head there. The head
// of a set of fresh tasks only moves forward, like a cursor's.
func (s taskSet) first(head *int32) int32 {
	// A word at a time: 64 launched tasks cost one comparison.
	for w := int(*head >> 6); w < len(s); w++ {
		if s[w] != 0 {
			*head = int32(w<<6 + bits.TrailingZeros64(s[w]))
			return *head
		}
	}
	// Behind the end, so the next call of an empty set looks at nothing.
	*head = int32(len(s) << 6)
	return -1
}

// allTasks is the set of the first n tasks.
func allTasks(n int) taskSet {
	s := make(taskSet, (n+63)/64)
	for i := range n {
		s[i/64] |= 1 << (i % 64)
	}
	return s
}

func (s taskSet) has(i int32) bool { return s[i>>6]>>(i&63)&1 != 0 }

func (s taskSet) remove(i int32) { s[i>>6] &^= 1 << (i & 63) }

// pendingIndex finds the pending tasks of one kind of a job. A fresh task, which was never
// launched, is in up to two kinds of lists: one for each host of its split, and one for each
// rack of those hosts. A task to retry is in retry only.
type pendingIndex struct {
	unlocated int32     // fresh tasks whose split names no host
	head      int32     // no task before it is fresh
	fresh     taskSet   // never launched
	retry     []*Task   // most failures first, then index
	racks     []*cursor // by rack
	hosts     hostLists
}

// Topology maps hosts to dense indices and to racks.
type Topology interface {
	// Host returns the index of a host. A new host gets the next index.
	Host(name string) int32
	// RackOf returns the index of a host's rack, or -1 while no node has
	// joined from that host.
	RackOf(host int32) int32
}

// splitHosts holds the numbers of the hosts of a job's splits. Split i has the hosts
// list[from[i]:from[i+1]].
type splitHosts struct{ from, list []int32 }

// of returns the numbers of a split's hosts.
func (h *splitHosts) of(split int32) []int32 { return h.list[h.from[split]:h.from[split+1]] }

// fill makes the lists by host and rack of a job's splits, and returns the numbers of their hosts.
// Hosts whose rack is not known yet get their rack's list from place.
func (p *pendingIndex) fill(splits []Split, topo Topology) splitHosts {
	entries := 0
	for i := range splits {
		entries += len(splits[i].Hosts)
	}
	if entries == 0 {
		p.unlocated = int32(len(splits))
		return splitHosts{}
	}
	at, from := make([]int32, 0, entries), make([]int32, 1, len(splits)+1)
	for i, s := range splits {
		if len(s.Hosts) == 0 {
			p.unlocated++
		}
		for _, name := range s.Hosts {
			h := topo.Host(name)
			at = append(at, h)
			// Tasks come in ascending order here, which cursor.add and first rely on.
			if r := topo.RackOf(h); r >= 0 {
				p.addRack(r).add(int32(i))
			}
		}
		from = append(from, int32(len(at)))
	}
	p.hosts = listHosts(splits, at)
	return splitHosts{from, at}
}

// rack returns the list of a rack, or nil if it has none.
func (p *pendingIndex) rack(rack int32) *cursor {
	if rack < 0 || int(rack) >= len(p.racks) {
		return nil
	}
	return p.racks[rack]
}

// addRack returns the list of a rack, new if there was none.
func (p *pendingIndex) addRack(rack int32) *cursor {
	for int(rack) >= len(p.racks) {
		p.racks = append(p.racks, nil)
	}
	if p.racks[rack] == nil {
		p.racks[rack] = &cursor{}
	}
	return p.racks[rack]
}

// add appends a task to the list unless it is there already: a split has several
// hosts in one rack.
func (c *cursor) add(task int32) {
	if n := len(c.list); n == 0 || c.list[n-1] != task {
		c.list = append(c.list, task)
	}
}

// place adds the tasks of a host to the list of its rack, once the rack is known. It
// costs the length of both lists, once for each host and job. If a host moves to another
// rack, its tasks also stay in the old rack's list; the only effect is a wrong level.
func (p *pendingIndex) place(host, rack int32) {
	h := p.hosts.find(host)
	if h == nil {
		return
	}
	r := p.addRack(rack)
	r.list = append(r.list, p.hosts.items[h.head:h.end]...)
	slices.Sort(r.list)
	// A task with two hosts in the rack would be there twice. The head goes back, because the new
	// tasks may come before it.
	r.list, r.head = slices.Compact(r.list), 0
}

// again puts a task on the retry list.
func (p *pendingIndex) again(t *Task) {
	at, _ := slices.BinarySearchFunc(p.retry, t, compareRetry)
	p.retry = slices.Insert(p.retry, at, t)
	// Kept as a flag, because take is called for every launch and a search of the list would find nothing
	// for most.
	t.inRetry = true
}

// take removes a task that is being launched.
func (p *pendingIndex) take(t *Task) {
	if t.inRetry {
		at, _ := slices.BinarySearchFunc(p.retry, t, compareRetry)
		p.retry = slices.Delete(p.retry, at, at+1)
		t.inRetry = false
	}
	// A retry. Lists by host and rack never had it after its first launch.
	if !p.fresh.has(t.id.Index) {
		return
	}
	p.fresh.remove(t.id.Index)
	if t.id.Kind == Map && len(t.job.spec.Splits[t.id.Index].Hosts) == 0 {
		p.unlocated--
	}
}

// compareRetry orders the task with most failures first: if it is going to fail the job,
// it should do so early.
func compareRetry(a, b *Task) int {
	if x, y := a.readSetbacks().failures, b.readSetbacks().failures; x != y {
		return int(y - x)
	}
	return int(a.id.Index - b.id.Index)
}
