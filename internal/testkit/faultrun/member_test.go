package faultrun

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
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
	id         uint64
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
	master     *master // nil unless it leads, or does not know better
}

// startMembers starts the masters: one, or three.
func (r *cluster) startMembers() {
	n := 1
	if r.chance(60) {
		n = 3
	}
	for i := range n {
		b := &member{r: r, id: uint64(i + 1), address: fmt.Sprint("m", i+1), disk: faultfs.NewDisk(), speed: 1000}
		if n > 1 {
			b.speed = 950 + time.Duration(r.rng.IntN(100))
		}
		r.members = append(r.members, b)
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
	var members []*slotwisev1.Member
	for _, o := range r.members {
		members = append(members, &slotwisev1.Member{Id: o.id, Address: o.address})
	}
	s, err := journal.OpenStore("j", journal.Options{FS: b.disk, SegmentBytes: 4 << 10}, "g", members)
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
	b.life++
	b.up, b.booted, b.store = true, r.now, s
	if r.fault(20) {
		b.clockError = r.randomUpTo(48*3600*second) - 24*3600*second
		r.counts.ClockJumps++
	}
	b.replica, err = replica.New(replica.Config{ID: b.id, Heartbeat: 200 * time.Millisecond, Seed: r.rng.Uint64(), Committed: b.committed,
		Log: func(_ bool, text string) { r.logf("%s: raft: %s", b.address, text) }}, s, 0)
	if err != nil {
		r.violate("%s cannot start: %v", b.address, err)
		return
	}
	r.logf("%s runs", b.address)
	b.tick()
}

// committed compares an entry with the one that other members have committed at its index.
func (b *member) committed(e raftpb.Entry) {
	name := fmt.Sprint(e.Term, e.Type, string(e.Data))
	if before, ok := b.r.entries[e.Index]; ok && before != name {
		b.r.violate("%s commits another entry %d than others have", b.address, e.Index)
	}
	b.r.entries[e.Index] = name
}

// tick lets time pass.
func (b *member) tick() {
	b.replica.Tick(b.now())
	b.run()
	b.later(100*time.Millisecond, b.tick)
}

// run carries out what the replica wants, and begins or ends to lead.
func (b *member) run() {
	if err := b.replica.Run(b.send); err != nil {
		b.die(err.Error())
		return
	}
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
	if b.master != nil {
		b.master.release()
	}
}

// send sends a message to another member.
func (b *member) send(m raftpb.Message) {
	r := b.r
	bytes, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	arrived := false
	deliver := func() {
		i := slices.IndexFunc(r.members, func(o *member) bool { return o.id == m.To })
		to := r.members[i]
		if r.cut[[2]uint64{b.id, m.To}] || !to.up {
			return
		}
		to.later(0, func() {
			var got raftpb.Message
			if err := got.Unmarshal(bytes); err != nil {
				panic(err)
			}
			if got.Type == raftpb.MsgSnap {
				r.counts.Installed++
			}
			arrived = true
			to.replica.Step(to.now(), got)
			to.run()
		})
	}
	delay := func() time.Duration {
		if r.fault(3) {
			return r.randomUpTo(4 * second)
		}
		return time.Millisecond + r.randomUpTo(10*time.Millisecond)
	}
	if !r.fault(3) {
		r.after(delay(), deliver)
	}
	if r.fault(3) {
		r.after(delay(), deliver)
	}
	if m.Type == raftpb.MsgSnap {
		b.later(second, func() { b.replica.ReportSnapshot(m.To, arrived) })
	}
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
	m.later(second, m.tick)
	m.absorb(out)
}

// led reports whether a member leads in a term after one.
func (r *cluster) led(term uint64) bool {
	return slices.ContainsFunc(r.members, func(b *member) bool { return b.master != nil && b.master.term > term })
}

// replace replaces the journal by a snapshot, after a while, in which the member goes on or
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
					got = append(got, printRecord(rec))
					p, err = proto.Marshal(rec)
				}
				if err != nil && !errors.Is(err, faultfs.ErrStopped) {
					b.r.violate("no snapshot can be made: %v", err)
				}
				if !yield(p, err) {
					return
				}
			}
		})
		if b.store.End(c); err != nil {
			b.r.logf("snapshot: %v", err)
			return
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); want != nil && diff != "" {
			b.r.violate("the snapshot differs from the core: %s", diff)
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
	b.up, b.frozen, b.deferred = false, false, nil
	_ = b.store.Close()
	b.r.counts.Restarts++
	b.loseDisk()
}

// loseDisk applies a kill of the process or a crash of the machine to the disk, and
// schedules the next process.
func (b *member) loseDisk() {
	if b.r.chance(50) {
		b.disk = b.disk.Crash(b.r.rng)
	} else {
		b.disk = b.disk.Kill()
	}
	b.r.after(100*time.Millisecond+b.r.randomUpTo(12*second), b.start)
}

// freeze stops the process for a while.
func (b *member) freeze() {
	if !b.up || b.frozen || len(b.r.members) == 1 {
		return
	}
	b.r.counts.MemberFreezes++
	b.r.logf("%s freezes", b.address)
	b.frozen = true
	life := b.life
	b.r.after(b.r.randomUpTo(20*second), func() {
		if b.life == life {
			b.wake()
		}
	})
}

// wake has a frozen process do at once what it would have done meanwhile.
func (b *member) wake() {
	if !b.frozen {
		return
	}
	b.r.logf("%s wakes up", b.address)
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
	r.after(r.randomUpTo(20*second), func() { clear(r.cut) })
}

// diskSize returns the number of bytes on the disk.
func (b *member) diskSize() (size int64) {
	for _, name := range b.disk.Names() {
		size += int64(len(b.disk.Bytes(name)))
	}
	return size
}
