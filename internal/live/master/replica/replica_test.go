package replica

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// group is three members on disks in memory, with a network that the test controls.
type group struct {
	t       *testing.T
	now     time.Duration
	members []*peer
	queue   []*raftpb.Message
	lost    func(*raftpb.Message) bool // nil loses nothing
}

// peer is a member with its disk. trace notes, in order, the votes that it has saved and the messages
// that it has sent.
type peer struct {
	g     *group
	id    uint64
	disk  *faultfs.Disk
	store *journal.Store
	r     *Replica
	fail  error // of each Save from now on
	trace []string
	stops bool                 // it runs no more
	fresh *slotwisev1.RaftBase // with which a new journal begins
}

// Save implements Storage, and notes the call.
func (p *peer) Save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	if p.fail != nil {
		return p.fail
	}
	if hard.GetVote() != 0 {
		p.trace = append(p.trace, "save vote")
	}
	return p.store.Save(hard, entries)
}

// storage is a peer's journal.
type storage struct {
	*journal.Store
	p *peer
}

// Save implements Storage.
func (s storage) Save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	return s.p.Save(hard, entries)
}

func newGroup(t *testing.T) *group {
	g := &group{t: t}
	var first []*slotwisev1.Member
	for id := uint64(1); id <= 3; id++ {
		first = append(first, &slotwisev1.Member{Id: id, Address: "a"})
	}
	for id := uint64(1); id <= 3; id++ {
		p := &peer{g: g, id: id, disk: faultfs.NewDisk(), fresh: &slotwisev1.RaftBase{Index: 1, Term: 1, Group: "g", Members: first, First: first}}
		g.members = append(g.members, p)
		p.start()
	}
	return g
}

// start begins a process of the member.
func (p *peer) start() {
	p.g.t.Helper()
	p.fresh.Self = p.id
	var err error
	if p.store, err = journal.OpenStore("j", journal.Options{FS: p.disk}, p.fresh); err == nil {
		p.r, err = New(Config{ID: p.id, Seed: 5}, storage{p.store, p}, p.g.now)
	}
	if err != nil {
		p.g.t.Fatal(err)
	}
	p.stops = false
}

// crash ends the process, and loses what the disk has not synced.
func (p *peer) crash() {
	p.stops = true
	p.store.Close()
	p.disk = p.disk.Crash(rand.New(rand.NewPCG(p.id, 1)))
}

func (p *peer) run() {
	err := p.r.Run(func(m *raftpb.Message) {
		p.trace = append(p.trace, "send "+m.GetType().String())
		p.g.queue = append(p.g.queue, m)
	})
	if err != nil {
		p.stops = true
	}
}

// pass lets time pass, in steps of a twentieth of a second, with all messages delivered in each.
func (g *group) pass(d time.Duration) {
	for end := g.now + d; g.now < end; g.now += 50 * time.Millisecond {
		for _, p := range g.members {
			if !p.stops {
				p.r.Tick(g.now)
				p.run()
			}
		}
		g.deliver()
	}
}

func (g *group) deliver() {
	for len(g.queue) > 0 {
		m := g.queue[0]
		g.queue = g.queue[1:]
		if to := g.members[(m.GetTo()-1)%3]; !to.stops && (g.lost == nil || !g.lost(m)) {
			to.r.Step(g.now, m)
			to.run()
		}
	}
}

// leader waits until a member leads and has a lease.
func (g *group) leader() *peer {
	g.t.Helper()
	for range 200 {
		g.pass(50 * time.Millisecond)
		for _, p := range g.members {
			if !p.stops && p.r.Lease() > g.now {
				return p
			}
		}
	}
	g.t.Fatal("no member leads")
	return nil
}

// record is the data of an entry with one record.
var record = string(journal.AppendRecord(nil, []byte("x")))

// propose commits an entry.
func (g *group) propose(p *peer, data string) {
	g.t.Helper()
	i, err := p.r.Propose(g.now, []byte(data))
	if err != nil {
		g.t.Fatal(err)
	}
	p.run()
	g.deliver()
	if p.r.Committed() < i {
		g.t.Fatalf("entry %d is not committed", i)
	}
}

// cutOff loses all messages from and to a member.
func cutOff(p *peer) func(*raftpb.Message) bool {
	return func(m *raftpb.Message) bool { return m.GetTo() == p.id || m.GetFrom() == p.id }
}

// TestVoteIsDurable votes, and the machine crashes at once. The vote must be on the disk before the
// answer leaves: otherwise the member could vote for another one in the same term.
func TestVoteIsDurable(t *testing.T) {
	g := newGroup(t)
	p := g.members[2]
	g.now = 2 * time.Second // no promise to an earlier leader holds
	p.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(uint64(1)), To: new(uint64(3)), Term: new(uint64(5)), Index: new(uint64(100)), LogTerm: new(uint64(4))})
	p.run()
	if want := []string{"save vote", "send MsgVoteResp"}; !slices.Equal(p.trace, want) {
		t.Fatalf("the member does %q, want %q", p.trace, want)
	}
	p.crash()
	p.start()
	g.now += 2 * time.Second
	g.queue = nil
	p.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(uint64(2)), To: new(uint64(3)), Term: new(uint64(5)), Index: new(uint64(100)), LogTerm: new(uint64(4))})
	p.run()
	for _, m := range g.queue {
		if m.GetType() == raftpb.MsgVoteResp && !m.GetReject() {
			t.Errorf("it votes again in term 5, for another member: %v", m)
		}
	}
	if p.r.Term() != 5 {
		t.Errorf("it has forgotten term 5: %d", p.r.Term())
	}
}

// TestFailedSync fails the sync of a vote and of an entry. Nothing that promises it may leave.
func TestFailedSync(t *testing.T) {
	g := newGroup(t)
	p := g.members[2]
	g.now = 2 * time.Second
	p.fail = errors.New("the disk is broken")
	p.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(uint64(1)), To: new(uint64(3)), Term: new(uint64(5)), Index: new(uint64(100)), LogTerm: new(uint64(4))})
	if p.run(); !p.stops || len(g.queue) > 0 {
		t.Errorf("without a durable vote it sends %v; it ends: %v", g.queue, p.stops)
	}

	g = newGroup(t)
	l := g.leader()
	f := g.members[l.id%3]
	f.fail = errors.New("the disk is broken")
	before := len(f.trace)
	if _, err := l.r.Propose(g.now, []byte("x")); err != nil {
		t.Fatal(err)
	}
	l.run()
	g.deliver()
	if !f.stops || slices.Contains(f.trace[before:], "send MsgAppResp") {
		t.Errorf("without a durable entry it does %q; it ends: %v", f.trace[before:], f.stops)
	}
	// The other follower's disk makes the majority.
	if l.r.Committed() != l.r.Last() {
		t.Error("an entry on two of three disks is not committed")
	}
}

// TestLease cuts the leader off. Its lease must end before another member is elected. A member that
// has just started does not vote either, since it may have forgotten a leader.
func TestLease(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	other := g.members[l.id%3]
	other.crash()
	other.start()
	g.lost = cutOff(l)
	lease := l.r.Lease()
	for until := g.now + 10*time.Second; g.now < until; {
		g.pass(50 * time.Millisecond)
		for _, p := range g.members {
			if p != l && p.r.Leads() {
				if g.now <= lease {
					t.Errorf("member %d leads at %v, and the lease of the former leader ends at %v", p.id, g.now, lease)
				}
				if l.r.Lease() > lease {
					t.Errorf("a leader without contact has extended its lease from %v to %v", lease, l.r.Lease())
				}
				return
			}
		}
	}
	t.Error("nobody replaces the leader")
}

// TestVotesWait asks a member for its vote while the leader's lease may hold.
func TestVotesWait(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	voter, other := g.members[l.id%3], g.members[(l.id+1)%3]
	vote := func() bool {
		g.queue = nil
		voter.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(other.id), To: new(voter.id), Term: new(voter.r.Term() + 1), Index: new(uint64(1000)), LogTerm: new(uint64(1000))})
		voter.run()
		return slices.ContainsFunc(g.queue, func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgVoteResp && !m.GetReject() })
	}
	if vote() {
		t.Error("it votes while it hears a leader")
	}
	voter.crash()
	voter.start()
	g.now += DefaultElection / 2
	if vote() {
		t.Error("it votes soon after its start")
	}
	g.now += DefaultElection
	if !vote() {
		t.Error("it never votes")
	}
}

// leaderDies crashes the leader, and returns it and the others when no promise to it holds any more. Their
// waits are drawn from a seed.
func (g *group) leaderDies(seed uint64) (old *peer, rest []*peer) {
	g.t.Helper()
	old = g.leader()
	old.crash()
	g.now += 2 * DefaultElection
	for _, p := range g.members {
		if p != old {
			p.r.rng = rand.New(rand.NewPCG(seed, p.id))
			rest = append(rest, p)
		}
	}
	return old, rest
}

// TestSplitVote has both followers of a dead leader campaign at the same moment. Each votes for itself. They
// try again sooner than after a leader's silence.
func TestSplitVote(t *testing.T) {
	for seed := range uint64(20) {
		g := newGroup(t)
		_, rest := g.leaderDies(seed)
		for _, p := range rest {
			p.r.deadline = g.now
		}
		g.pass(50 * time.Millisecond)
		if rest[0].r.Term() != rest[1].r.Term() || rest[0].r.Leader() != 0 || rest[1].r.Leader() != 0 {
			t.Fatalf("no split: terms %d and %d", rest[0].r.Term(), rest[1].r.Term())
		}
		split := g.now
		g.leader()
		if took := g.now - split; took > DefaultElection {
			t.Errorf("seed %d: a member leads %v after the split", seed, took)
		}
	}
}

// TestLateRefusal delivers the refusal of a lost vote after the new leader's first message, and cuts the
// leader off. No other member may lead before the leader's lease has ended, although the third one has never
// heard of the leader and would vote.
func TestLateRefusal(t *testing.T) {
	for seed := range uint64(20) {
		g := newGroup(t)
		old, rest := g.leaderDies(seed)
		// lost hears of the leader of the next term, for whom the third member has voted, and then of that vote.
		lost, third := rest[0], rest[1]
		term := lost.r.Term() + 1
		lost.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(old.id), To: new(lost.id), Term: new(term)})
		lost.run()
		lost.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVoteResp.Enum(), From: new(third.id), To: new(lost.id), Term: new(term), Reject: new(true)})
		lost.run()
		g.queue = nil
		heard := g.now
		third.r.deadline = heard + 10*DefaultElection
		for g.now < heard+DefaultElection-50*time.Millisecond {
			if g.pass(50 * time.Millisecond); lost.r.Leads() || lost.r.Term() > term {
				t.Fatalf("seed %d: a member campaigns %v after it has heard of a leader", seed, g.now-heard)
			}
		}
	}
}

// TestTransfer hands the leadership over. From then on the leader uses no lease, because the vote that
// it asks for ignores it. A transfer whose message is lost goes to a member that answers.
func TestTransfer(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	g.propose(l, record)
	l.r.Transfer(g.now)
	if l.r.Leads() || l.r.Lease() > 0 {
		t.Errorf("it leads: %v, lease %v", l.r.Leads(), l.r.Lease())
	}
	l.run()
	g.deliver()
	if next := g.leader(); next == l || next.r.Committed() < 2 {
		t.Errorf("member %d leads with %d entries after member %d", next.id, next.r.Committed(), l.id)
	}

	g = newGroup(t)
	l = g.leader()
	g.propose(l, record)
	first := g.members[0]
	if first == l {
		first = g.members[1]
	}
	g.lost = cutOff(first)
	l.r.Transfer(g.now)
	l.run()
	g.deliver()
	for range 100 {
		if g.pass(50 * time.Millisecond); !l.r.Leads() && l.r.Leader() != l.id && l.r.Leader() != 0 {
			return
		}
	}
	t.Error("five seconds after the transfer to a member that was cut off the leader has found no other one")
}

// TestInstall gives a member that was away a snapshot, because the leader has dropped the entries. The
// member has the leader's records then, and after a crash too.
func TestInstall(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	away := g.members[l.id%3]
	away.crash()
	want := 0
	big := make([]byte, 4<<20)
	for range 5 { // more than the leader keeps in memory
		want++
		g.propose(l, string(journal.AppendRecord(nil, append([]byte{0x0a, 0x80, 0x80, 0x80, 0x02}, big...))))
	}
	away.start()
	for range 40 {
		g.snapshots()
		g.pass(50 * time.Millisecond)
	}
	for _, when := range []string{"after the snapshot", "after a crash"} {
		n := 0
		for rec, err := range away.store.Records(away.r.Committed()) {
			if err != nil {
				t.Fatal(err)
			}
			if len(rec) > len(big) {
				n++
			}
		}
		if n != want || away.r.Committed() != l.r.Committed() {
			t.Errorf("%s: %d records of %d, %d entries committed of %d", when, n, want, away.r.Committed(), l.r.Committed())
		}
		away.crash()
		away.start()
	}
}

var _ raft.Storage = storage{}

// forget gives a member's machine an empty directory, in which it joins. Messages for the member still
// arrive there.
func (p *peer) forget() {
	p.stops = true
	p.store.Close()
	p.disk, p.id = faultfs.NewDisk(), p.id+3
	p.fresh = &slotwisev1.RaftBase{Group: "g"}
	p.start()
	p.trace = nil
}

// change commits a change of the membership.
func (g *group) change(c *raftpb.ConfChange) {
	g.t.Helper()
	l := g.leader()
	if _, err := l.r.ProposeMember(g.now, c); err != nil {
		g.t.Fatal(err)
	}
	l.run()
	g.deliver()
	g.pass(200 * time.Millisecond)
}

// TestLostDirectory has a member vote in a term, acknowledge entries, and lose its directory. It is started
// with --join at once, as docs/operate.md forbids. Whoever leads, it must neither vote nor acknowledge
// anything: the leader's majority without it has entries that it may have forgotten. When it was removed and
// added, it does both.
func TestLostDirectory(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	lost, other := g.members[l.id%3], g.members[(l.id+1)%3]
	// The other follower misses an entry that the leader and the lost member have.
	g.lost = cutOff(other)
	g.propose(l, record)
	g.lost = nil
	former := lost.id
	lost.forget()
	l.crash()
	// Without the leader only the follower without the entry is left, which must not lead.
	g.pass(10 * time.Second)
	term := other.r.Term()
	lost.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(other.id), To: new(former), Term: new(term + 1), Index: new(uint64(1)), LogTerm: new(uint64(1))})
	lost.run()
	if other.r.Leads() || len(lost.trace) > 0 || lost.r.Term() > 1 {
		t.Fatalf("the other one leads: %v; the member that has forgotten sends %q and is in term %d", other.r.Leads(), lost.trace, lost.r.Term())
	}
	// Later leaders do not count entries of the lost member, so they would send it the journal.
	l.start()
	g.propose(g.leader(), record)
	g.pass(5 * time.Second)
	if len(lost.trace) > 0 || lost.r.Last() != 0 {
		t.Fatalf("before it is added it sends %q and has %d entries", lost.trace, lost.r.Last())
	}
	g.replace(former, lost)
	// A second time, so that a snapshot from before the addition exists.
	former = lost.id
	lost.forget()
	g.replace(former, lost)
	l = g.leader()
	for _, p := range g.members {
		if p != l && p != lost {
			p.crash()
		}
	}
	g.propose(l, record) // with the new member alone
	if lost.r.Committed() == 0 || !slices.Contains(lost.store.Removed(lost.r.Committed()), former) {
		t.Errorf("%d entries, removed %v", lost.r.Committed(), lost.store.Removed(lost.r.Committed()))
	}
}

// replace removes a member, adds another one, and waits until it votes.
func (g *group) replace(former uint64, p *peer) {
	g.change(&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(former)})
	g.change(&raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(p.id)})
	for range 100 {
		g.snapshots()
		if g.pass(50 * time.Millisecond); g.leader().r.CaughtUp() == p.id {
			if p.r.Last() == 0 {
				g.t.Fatalf("member %d has no entry and is to vote", p.id)
			}
			g.change(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(p.id)})
			return
		}
	}
	g.t.Fatalf("member %d does not catch up", p.id)
}

// snapshots makes the snapshots that followers wait for.
func (g *group) snapshots() {
	for _, p := range g.members {
		if !p.stops && p.store.SnapshotWanted() {
			snap, err := p.store.MakeSnapshot()()
			if err != nil {
				g.t.Fatal(err)
			}
			p.store.OfferSnapshot(snap)
		}
	}
}

// TestPromotionIsRemembered replaces a member while no jobs are submitted, and stops all. The two that
// start again, without the leader, must know that the new one votes: together they are a majority.
func TestPromotionIsRemembered(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	fresh, other := g.members[l.id%3], g.members[(l.id+1)%3]
	former := fresh.id
	fresh.forget()
	g.replace(former, fresh)
	for !g.leader().r.Settled(fresh.id) {
		g.pass(10 * time.Millisecond)
	}
	for _, p := range g.members {
		p.crash()
	}
	fresh.start()
	other.start()
	g.pass(10 * time.Second)
	if !fresh.r.Leads() && !other.r.Leads() {
		t.Errorf("nobody leads; by their journals the voters are %v and %v", fresh.r.voters, other.r.voters)
	}
}

// TestRemoved cuts a member off, removes it, and connects it again. It campaigns, because it does not know,
// and must not raise the term of the others, also with a vote that ignores the lease.
func TestRemoved(t *testing.T) {
	g := newGroup(t)
	l := g.leader()
	away := g.members[l.id%3]
	g.lost = cutOff(away)
	g.change(&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(away.id)})
	g.pass(5 * time.Second)
	l = g.leader()
	term := l.r.Term()
	g.lost = nil
	g.pass(5 * time.Second)
	l.r.Step(g.now, &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(away.id), To: new(l.id), Term: new(term + 5), Index: new(uint64(100)), LogTerm: new(uint64(100)), Context: []byte(transferContext)})
	l.run()
	if !l.r.Removed(away.id) || l.r.Term() != term || !l.r.Leads() {
		t.Errorf("removed: %v, term %d after %d, leads: %v", l.r.Removed(away.id), l.r.Term(), term, l.r.Leads())
	}
}

// TestMayRemove asks a leader that has heard of no member yet, of all, and of one of two others, whether a member may go.
func TestMayRemove(t *testing.T) {
	g := newGroup(t)
	g.lost = func(m *raftpb.Message) bool {
		return m.GetType() == raftpb.MsgAppResp || m.GetType() == raftpb.MsgHeartbeatResp
	}
	var at *peer
	for range 200 {
		g.pass(50 * time.Millisecond)
		if i := slices.IndexFunc(g.members, func(p *peer) bool { return p.r.soft.RaftState == raft.StateLeader }); i >= 0 {
			at = g.members[i]
			break
		}
	}
	if at == nil {
		t.Fatal("nobody is elected")
	}
	var others []*peer
	unsure := 0
	for _, p := range g.members {
		if p == at {
			continue
		}
		others = append(others, p)
		// The answers to the election may show that one runs.
		if err := at.r.MayRemove(p.id); errors.Is(err, ErrNotHeard) {
			unsure++
		} else if err != nil {
			t.Errorf("just elected: %v", err)
		}
	}
	if unsure == 0 {
		t.Error("the leader has heard of both others without an answer of theirs")
	}
	g.lost = nil
	if at = g.leader(); at.r.MayRemove(others[0].id) != nil && at != others[0] {
		t.Errorf("with all running: %v", at.r.MayRemove(others[0].id))
	}
	others = slices.DeleteFunc(slices.Clone(g.members), func(p *peer) bool { return p == at })
	others[1].stops = true
	g.pass(2 * DefaultElection)
	if err := at.r.MayRemove(others[0].id); err == nil || errors.Is(err, ErrNotHeard) {
		t.Errorf("one of two would be left, and is dead: %v", err)
	}
	if err := at.r.MayRemove(others[1].id); err != nil {
		t.Errorf("the dead one: %v", err)
	}
}
