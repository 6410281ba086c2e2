package job

import "math/bits"

// hostLists holds, for each host that a job's splits name, the tasks with data there, in
// ascending order. All lists share one slice. The indices of hosts are dense. A job with
// data on many hosts has a table indexed by host: heartbeats of successive nodes then read
// successive entries. A job with data on few hosts of many has a small hash table with
// open addressing.
type hostLists struct {
	table []hostList
	items []int32
	count int  // hosts
	shift uint // of the hash, 0 if the table is indexed by hosts
}

// hostList is a cursor into the shared slice: head moves past tasks that have
// been launched.
type hostList struct {
	key       int32 // the host's index plus 1; 0 marks an unused entry
	head, end int32
}

// listHosts builds the lists. at holds the hosts of all splits in order.
func listHosts(splits []Split, at []int32) hostLists {
	if len(at) == 0 {
		return hostLists{}
	}
	// The numbers of hosts are given in the order in which they were first named, over all jobs. A job's
	// own may be anywhere among them.
	highest := int32(0)
	for _, h := range at {
		highest = max(highest, h)
	}
	l := hostLists{items: make([]int32, len(at))}
	// A table by host is at most four times as long as its entries. Beyond that most entries would
	// be unused, and a hash table is smaller.
	if size := int(highest) + 1; size <= 4*len(at) {
		l.table = make([]hostList, size)
	} else {
		width := bits.Len(uint(2 * len(at))) // at most half of the entries are used
		l.table, l.shift = make([]hostList, 1<<width), 32-uint(width)
	}
	for _, h := range at {
		s := l.entry(h)
		// The first pass counts and the second fills: lists that grew one by one would be an allocation for
		// each host.
		if s.key == 0 {
			s.key = h + 1
			l.count++
		}
		s.end++ // the number of entries, for now
	}
	// The lists lie one behind the other in items. end counts up again as their tasks are added.
	next := int32(0)
	for i := range l.table {
		s := &l.table[i]
		n := s.end
		s.head, s.end = next, next
		next += n
	}
	for i := range splits {
		for range splits[i].Hosts {
			l.add(l.entry(at[0]), int32(i))
			at = at[1:]
		}
	}
	return l
}

// add appends a task to a host's list unless it is there already: a split may
// name a host twice.
func (l *hostLists) add(s *hostList, task int32) {
	if s.end == s.head || l.items[s.end-1] != task {
		l.items[s.end] = task
		s.end++
	}
}

// entry returns the entry of a host, or its unused entry. With shift 0 the host
// must be within the table.
func (l *hostLists) entry(host int32) *hostList {
	if l.shift == 0 {
		return &l.table[host]
	}
	i := uint32(host) * 0x9e3779b1 >> l.shift // multiplicative hashing by the golden ratio
	// Half of the entries are unused, so a search ends after a few steps, also for a host that the job does
	// not name.
	for l.table[i].key != host+1 && l.table[i].key != 0 {
		i = (i + 1) & uint32(len(l.table)-1)
	}
	return &l.table[i]
}

// find returns the list of a host, or nil if it has none.
func (l *hostLists) find(host int32) *hostList {
	if len(l.table) == 0 || host < 0 || l.shift == 0 && int(host) >= len(l.table) {
		return nil
	}
	if s := l.entry(host); s.key != 0 {
		return s
	}
	return nil
}

// first returns the first fresh task of a host's list, or -1.
func (l *hostLists) first(host int32, fresh taskSet) int32 {
	s := l.find(host)
	if s == nil {
		return -1
	}
	// A launched task is never fresh again, so no later search passes it once more.
	for ; s.head < s.end; s.head++ {
		if i := l.items[s.head]; fresh.has(i) {
			return i
		}
	}
	return -1
}

// nearJobs has a bit for each host and each live job, by seat: whether the job may have fresh
// tasks with data on the host. So a heartbeat that asks many jobs in turn reads two cache
// lines for a thousand jobs, and not one of each job's own table. A job whose seat has no
// bits may have tasks anywhere.
type nearJobs struct {
	bits          []uint64 // stride words for each host
	hosts, stride int
	most          int // words of all hosts, normally maxNear
}

// maxNear are 16 MiB.
const maxNear = 2 << 20

// has reports whether the job in a seat may have fresh tasks with data on the host.
func (n *nearJobs) has(host int32, seat int) bool {
	// No bits for such a seat: its job may have tasks anywhere.
	if seat>>6 >= n.stride {
		return true
	}
	return host >= 0 && int(host) < n.hosts && n.bits[int(host)*n.stride+seat>>6]>>(seat&63)&1 != 0
}

// add sets the bits of a job for all hosts of its lists.
func (n *nearJobs) add(l *hostLists, seat int) {
	for i := range l.table {
		if host := int(l.table[i].key) - 1; host >= 0 {
			if host >= n.hosts || seat>>6 >= n.stride {
				n.fit(host+1, seat>>6+1)
			}
			// fit may have stopped at n.most. has then answers true for the seat, and the job's own
			// lists decide.
			if seat>>6 < n.stride {
				n.bits[host*n.stride+seat>>6] |= 1 << (seat & 63)
			}
		}
	}
}

// fit makes room for hosts, and for words of each as far as n.most permits. The sizes double,
// so that growing costs little in all.
func (n *nearJobs) fit(hosts, words int) {
	if hosts = max(hosts, n.hosts); hosts > n.hosts {
		hosts = max(hosts, 2*n.hosts)
	}
	if words = max(words, n.stride); words > n.stride {
		words = max(words, 2*n.stride)
	}
	// More hosts leave fewer words for each. Jobs in high seats then have no bits.
	words = min(words, n.most/hosts)
	if hosts == n.hosts && words == n.stride {
		return
	}
	// A new array, because with another stride each row begins elsewhere.
	bits := make([]uint64, hosts*words)
	for h := range n.hosts {
		copy(bits[h*words:(h+1)*words], n.bits[h*n.stride:(h+1)*n.stride])
	}
	n.bits, n.hosts, n.stride = bits, hosts, words
}

// remove clears the bits of a job that is not live any more.
func (n *nearJobs) remove(l *hostLists, seat int) {
	for i := range l.table {
		n.clear(l.table[i].key-1, seat)
	}
}

// clear records that a job has no fresh task with data on the host any more. A launched task
// never becomes fresh again.
func (n *nearJobs) clear(host int32, seat int) {
	if host >= 0 && int(host) < n.hosts && seat>>6 < n.stride {
		n.bits[int(host)*n.stride+seat>>6] &^= 1 << (seat & 63)
	}
}
