package faultrun

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/master/replica"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// member is one machine of the group of masters, with its process.
type member struct {
	r          *cluster
	id         uint64 // of its directory
	joins      bool   // the directory was begun with --join
	ready      bool   // this process has read a leader's history
	left       bool   // its process has ended because the member was removed
	address    string
	disk       *faultfs.Disk
	clockError time.Duration // of the wall clock
	speed      time.Duration // of the monotonic clock, in milliseconds a second
	booted     time.Duration
	life       int
	up         bool
	frozen     bool
	deferred   []func()
	store      *journal.Store
	replica    *replica.Replica
	master     *master       // nil unless it leads, or does not know better
	faulty     bool          // the disk fails soon, or is full
	slowUntil  time.Duration // each sync of the disk takes long until then
	wellSince  time.Duration // when it last started, woke, or had a faulty disk or connection
	syncing    time.Duration // that the syncs of this run have taken
	leader     uint64        // that the member has heard of last
	past       past          // its history, which every process of the member finds
}

// startMembers starts the masters: one, or three.
func (r *cluster) startMembers() {
	n := *masters
	if n == 0 {
		n = 1
		if r.chance(75) {
			n = 3
		}
	}
	for i := range n {
		b := &member{r: r, id: uint64(i + 1), address: fmt.Sprint("m", i+1), disk: faultfs.NewDisk(), speed: 1000, past: newPast()}
		if n > 1 {
			b.speed = 900 + time.Duration(r.rng.IntN(200))
			b.clockError = r.randomUpTo(20*second) - 10*second
		}
		r.members = append(r.members, b)
		r.machines[b.id] = b
		r.first = append(r.first, &slotwisev1.Member{Id: b.id, Address: b.address})
	}
	for _, b := range r.members {
		b.start()
	}
}

// now returns the time of the member's monotonic clock.
func (b *member) now() time.Duration { return (b.r.now - b.booted) * b.speed / 1000 }

// later runs f after a time of the member's clock if this process still lives then, and, if
// it is frozen, when it wakes up.
func (b *member) later(d time.Duration, f func()) {
	life := b.life
	b.r.after(d*1000/b.speed, func() { b.inLife(life, f) })
}

func (b *member) inLife(life int, f func()) {
	switch {
	case life != b.life || !b.up:
	case b.frozen:
		b.deferred = append(b.deferred, func() { b.inLife(life, f) })
	default:
		f()
	}
}

// start opens the journal. If that fails for want of a disk it is tried again later.
func (b *member) start() {
	r := b.r
	if b.up || b.left {
		return
	}
	fresh := &slotwisev1.RaftBase{Group: "g", Self: b.id}
	if !b.joins {
		fresh = &slotwisev1.RaftBase{Index: 1, Term: 1, Group: "g", Self: b.id, Members: r.first, First: r.first}
	}
	s, err := journal.OpenStore("j", journal.Options{FS: b.disk, SegmentBytes: 4 << 10}, fresh)
	if err != nil {
		var damage *journal.DamageError
		if errors.As(err, &damage) {
			r.violate("the journal is refused: %v", err)
		}
		r.logf("%s cannot start: %v", b.address, err)
		b.loseDisk()
		return
	}
	if s.Cut() != nil {
		r.counts.TornJournals++
	}
	if s.Self() != b.id {
		r.violate("%s has the journal of member %d, and is member %d", b.address, s.Self(), b.id)
	}
	b.life++
	b.wellSince = r.now
	b.up, b.booted, b.store = true, r.now, s
	if r.fault(20) {
		b.clockError = r.randomUpTo(48*3600*second) - 24*3600*second
		r.counts.ClockJumps++
	}
	b.replica, err = replica.New(replica.Config{ID: b.id, Election: election, Heartbeat: election / 5, Seed: r.rng.Uint64(), Committed: b.committed,
		Log: func(_ bool, text string) { r.logf("%s: raft: %s", b.address, text) }}, slowStore{s, b}, 0)
	if err != nil {
		r.violate("%s cannot start: %v", b.address, err)
		return
	}
	r.logf("%s runs", b.address)
	b.tick()
}

// entry is a committed entry.
type entry struct {
	term uint64
	kind raftpb.EntryType
	data string
}

// committed compares an entry with the one that other members have committed at its index.
func (b *member) committed(e *raftpb.Entry) {
	now, index := entry{e.GetTerm(), e.GetType(), string(e.Data)}, e.GetIndex()
	if before, ok := b.r.entries[index]; ok && before != now {
		b.r.violate("%s commits another entry %d than others have", b.address, index)
	}
	b.r.entries[index] = now
}

// slowStore is the journal on a disk that is slow at times.
type slowStore struct {
	*journal.Store
	b *member
}

// Save implements replica.Storage. Messages that are sent after it leave when the disk is ready.
func (s slowStore) Save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	b := s.b
	if b.r.now < b.slowUntil && (len(entries) > 0 || !raft.IsEmptyHardState(hard)) {
		b.r.counts.SlowSyncs++
		b.syncing += b.r.randomUpTo(2 * second)
	}
	return s.Store.Save(hard, entries)
}

// tick lets time pass.
func (b *member) tick() {
	b.replica.Tick(b.now())
	b.promote()
	b.run()
	b.later(election/10, b.tick)
}

// run carries out what the replica wants, and begins or ends to lead.
func (b *member) run() {
	if err := b.replica.Run(b.send); err != nil {
		if errors.Is(err, syscall.EIO) {
			b.r.counts.FailedSyncs++
		}
		b.die(err.Error())
		return
	}
	if b.replica.Removed(b.id) {
		b.leave()
		return
	}
	if d := b.syncing; d > 0 {
		// The process waits for its disk, and does nothing else meanwhile.
		b.syncing = 0
		b.stop(d)
	}
	b.inLife(b.life, b.proceed)
}

// proceed carries out the actions that waited for the disk.
func (b *member) proceed() {
	if b.store.SnapshotWanted() {
		if snap, err := b.store.MakeSnapshot()(); err == nil {
			b.store.OfferSnapshot(snap)
		}
	}
	b.replace()
	if m := b.master; m != nil && (!b.replica.Leads() || b.replica.Term() != m.term) {
		m.abdicate("another term has begun")
	}
	if b.master == nil && b.replica.MayRestore() && !b.r.fault(10) {
		b.lead()
	}
	if leader := b.replica.Leader(); leader != b.leader {
		if b.leader = leader; leader != 0 && leader != b.id {
			b.pullLeader()
		}
	}
	if b.master != nil {
		b.master.release()
	}
}

// carry brings something to another member, late or never.
func (b *member) carry(to *member, arrive func()) {
	r := b.r
	if r.fault(3) {
		return
	}
	delay := b.syncing + time.Millisecond + r.randomUpTo(10*time.Millisecond)
	if r.fault(3) {
		delay += r.randomUpTo(4 * second)
	}
	r.after(delay, func() {
		if to.up && !r.cut[[2]uint64{b.id, to.id}] {
			to.later(0, arrive)
		}
	})
}

// send sends a message to another member. It may arrive twice.
func (b *member) send(m *raftpb.Message) {
	r := b.r
	arrived := false
	// The machine may have another directory by now, and so be another member.
	to := r.machines[m.GetTo()]
	if b.joins && !r.added[b.id] {
		r.violate("%s sends %v before it was added", b.address, m.GetType())
	}
	deliver := func() {
		if to.replica.Removed(m.GetFrom()) {
			to.carry(b, func() {
				if b.id == m.GetFrom() {
					b.leave()
				}
			})
		}
		term := to.replica.Term()
		got := proto.CloneOf(m) // raft keeps and may change what it gets
		if got.GetType() == raftpb.MsgSnap {
			r.counts.Installed++
		}
		arrived = true
		to.replica.Step(to.now(), got)
		if to.replica.Removed(m.GetFrom()) && to.replica.Term() != term {
			r.violate("%s, which was removed, changes the term of %s", b.address, to.address)
		}
		to.run()
	}
	b.carry(to, deliver)
	if r.fault(3) {
		b.carry(to, deliver)
	}
	if m.GetType() == raftpb.MsgSnap {
		b.later(second, func() { b.replica.ReportSnapshot(m.GetTo(), arrived) })
	}
}

// watchProgress requires, each second, that a master acts within actLimit while a majority runs on
// disks that work, and is connected as a whole.
func (r *cluster) watchProgress() {
	var since []time.Duration
	for _, b := range r.members {
		if !b.up || b.frozen || b == r.replaced || r.now < b.slowUntil || b.faulty || len(r.cut) > 0 {
			b.wellSince = r.now
		}
		since = append(since, b.wellSince)
	}
	slices.Sort(since)
	if r.master != nil && r.master.mayAct() {
		r.acted = r.now
		if !r.calm {
			r.counts.Acting++
		}
	}
	idle := r.now - max(since[len(since)/2], r.acted) // the same majority was well all the time
	if r.idlest = max(r.idlest, idle); idle > actLimit {
		r.violate("no master has acted for %v, although a majority runs and is connected", idle)
	}
	r.after(second, r.watchProgress)
}

// lead restores a core from the committed records.
func (b *member) lead() {
	r := b.r
	r.lives++
	r.counts.Takeovers++
	m := &master{r: r, member: b, term: b.replica.Term(), start: b.now(), calls: map[protocol.Call]func(protocol.Reply){}, cancels: map[job.ID]*bool{}, cores: map[uint64][]string{}}
	policy := schedulers[r.rng.IntN(len(schedulers))]
	m.cfg = protocol.Config{
		Policy: policy, Configured: policy, Build: buildPolicy, NodeTimeout: nodeTimeout, Heartbeat: second, Grace: grace,
		GraylistFaults: 3, KeepEnded: 1, Limits: protocol.Limits{Jobs: 100, Tasks: 1000, Nodes: 10, Waiting: 3},
		ID: fmt.Sprint("master", r.lives), Life: fmt.Sprint("life", r.lives), Secret: []byte(fmt.Sprint("secret", r.lives)), Started: time.Unix(1_000_000, 0).Add(r.now + b.clockError),
	}
	core, out, err := protocol.Restore(m.cfg, decoded(b.store.Records(b.replica.Committed())))
	if err != nil && errors.Is(err, faultfs.ErrStopped) {
		b.die(err.Error())
		return
	}
	if err != nil {
		r.violate("the master is not restored: %v", err)
		return
	}
	m.core = core
	// A member that was frozen may learn late that it was elected. Nothing leaves it, because
	// it has no lease, and the master of the later term is still the one that counts.
	if b.master = m; r.master == nil && !r.led(m.term) || r.master != nil && m.term > r.master.term {
		r.master = m
	}
	r.logf("%s leads in term %d", b.address, m.term)
	m.check()
	m.pullAll()
	m.later(second, m.tick)
	m.absorb(out)
}

// led reports whether a member leads in a term after one.
func (r *cluster) led(term uint64) bool {
	return slices.ContainsFunc(r.members, func(b *member) bool { return b.master != nil && b.master.term > term })
}

// replace replaces the journal by a snapshot, after a while, in which the member continues or
// dies. The snapshot equals the core of the leader that proposed it.
func (b *member) replace() {
	c := b.store.Replaceable()
	if c == nil {
		return
	}
	b.r.counts.Snapshots++
	var want []string
	if b.master != nil {
		want = b.master.cores[c.Index]
	}
	b.later(b.r.randomUpTo(3*second), func() {
		at := &slotwisev1.JournalRecord{}
		if err := proto.Unmarshal(c.Position, at); err != nil {
			panic(err)
		}
		var got []string
		cfg := protocol.Config{Policy: "fifo", Build: buildPolicy, NodeTimeout: nodeTimeout, Grace: grace, GraylistFaults: 3, KeepEnded: 1}
		_, err := c.Write(func(yield func([]byte, error) bool) {
			for rec, err := range protocol.Compact(cfg, protocol.PositionOf(at), decoded(c.Records())) {
				var p []byte
				if err == nil {
					p, err = encodeRecord(rec)
					got = append(got, string(p))
				}
				if err != nil && !errors.Is(err, faultfs.ErrStopped) {
					b.r.violate("no snapshot can be made: %v", err)
				}
				if !yield(p, err) {
					return
				}
			}
		})
		// The loop hears of the end of the writing later, and may have been elected since.
		b.later(b.r.randomUpTo(3*second), func() {
			if b.store.End(c); err == nil {
				err = c.Remove()
			}
			if err != nil {
				b.r.logf("snapshot: %v", err)
			}
		})
		if err != nil {
			return
		}
		if slices.Sort(got); want != nil && !slices.Equal(want, got) {
			b.r.violate("the snapshot differs from the core: %s", cmp.Diff(printed(want), printed(got)))
		}
	})
}

// die ends the process, and at times the machine. Another process follows.
func (b *member) die(why string) {
	if !b.up {
		return
	}
	b.r.logf("%s dies: %s", b.address, why)
	if b.master != nil {
		b.master.abdicate("its process ends")
	}
	b.up, b.frozen, b.deferred, b.syncing, b.leader, b.ready = false, false, nil, 0, 0, false
	_ = b.store.Close()
	b.r.counts.Restarts++
	b.loseDisk()
}

// loseDisk applies a kill of the process or a crash of the machine to the disk, and
// schedules the next process.
func (b *member) loseDisk() {
	b.faulty = false
	if b.r.chance(50) {
		b.disk = b.disk.Crash(b.r.rng)
	} else {
		b.disk = b.disk.Kill()
	}
	b.r.after(100*time.Millisecond+b.r.randomUpTo(8*second), b.start)
}

// freeze stops the process for a while.
func (b *member) freeze() {
	if !b.up || b.frozen || len(b.r.members) == 1 {
		return
	}
	b.r.counts.MemberFreezes++
	b.r.logf("%s freezes", b.address)
	b.stop(b.r.randomUpTo(10 * second))
}

// stop stops the process for a time.
func (b *member) stop(d time.Duration) {
	b.frozen = true
	life := b.life
	b.r.after(d, func() {
		if b.life == life {
			b.wake()
		}
	})
}

// wake has a frozen process catch up at once with the work of the meantime.
func (b *member) wake() {
	if !b.frozen {
		return
	}
	b.r.logf("%s wakes up", b.address)
	b.wellSince = b.r.now
	b.frozen = false
	deferred := b.deferred
	b.deferred = nil
	for _, f := range deferred {
		f()
	}
}

// transfer hands the leadership over, as a master does that ends in order.
func (b *member) transfer() {
	if b.up && !b.frozen && b.master != nil && len(b.r.members) > 1 {
		b.r.counts.Transfers++
		b.master.abdicate("it hands over")
		b.replica.Transfer(b.now())
		b.run()
	}
}

// partition cuts some connections of a member, in one direction or in both.
func (r *cluster) partition(b *member) {
	if len(r.members) == 1 {
		return
	}
	r.counts.Partitions++
	out, in := r.chance(70), r.chance(70)
	for _, o := range r.members {
		if o != b && r.chance(80) {
			r.cut[[2]uint64{b.id, o.id}], r.cut[[2]uint64{o.id, b.id}] = out, in
		}
	}
	r.after(r.randomUpTo(10*second), func() { clear(r.cut) })
}

// diskSize returns the number of bytes on the disk.
func (b *member) diskSize() (size int64) {
	for _, name := range b.disk.Names() {
		size += int64(len(b.disk.Bytes(name)))
	}
	return size
}
