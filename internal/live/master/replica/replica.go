package replica

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The default times. A dead leader is replaced after Election to 1.5 Election and a round of
// messages. If two members campaign at the same moment, it takes up to half an Election more.
const (
	DefaultElection  = time.Second
	DefaultHeartbeat = 100 * time.Millisecond
)

// Config configures a replica.
type Config struct {
	ID uint64 // of this member
	// Election is the silence of a leader after which others vote, and Heartbeat the interval of
	// its messages. 0 means the default.
	Election, Heartbeat time.Duration
	Seed                uint64 // of the times at which a member campaigns
	// Committed is called in Run with each entry that has become committed; nil for none.
	Committed func(*raftpb.Entry)
	// Log takes raft's lines; nil drops them.
	Log func(warn bool, text string)
}

// Storage is the journal. internal/live/journal.Store implements it.
type Storage interface {
	raft.Storage
	// Save makes a term, a vote and entries durable.
	Save(*raftpb.HardState, []*raftpb.Entry) error
	// Install replaces everything by a snapshot. CanInstall reports whether it may be called.
	Install(*raftpb.Snapshot) error
	CanInstall() bool
	// Commit notes that entries up to index are committed.
	Commit(index uint64)
	// Removed returns the members that entries up to index have removed.
	Removed(index uint64) []uint64
}

// Replica is one member of the group. It is not safe for concurrent use.
type Replica struct {
	cfg     Config
	node    *raft.RawNode
	storage Storage
	rng     *rand.Rand
	voters  []uint64 // of the last entry that was applied
	removed []uint64 // ids of former members, whose messages are dropped

	now      time.Duration // of the last call, by the clock of the shell
	heard    time.Duration // from a leader, or since the start
	deadline time.Duration // to campaign unless a leader is heard
	ticked   time.Duration // when a leader's last tick was due

	soft      raft.SoftState
	term      uint64
	last      uint64 // index of the last entry, whether or not the storage has it yet
	committed uint64
	caughtUp  bool // an entry of this leader's term is committed

	probes      map[uint64]time.Duration // when each unanswered question for the lease was sent
	probe       uint64                   // number of the last question for the lease
	lease       time.Duration            // end of the lease
	transferred bool                     // in this term
	asked       time.Duration            // when the transfer was last asked for

	led      time.Duration            // when this leader was elected
	answered map[uint64]time.Duration // when this leader last got a message of a member; only of this term
	change   uint64                   // index of the last change of the membership that this leader proposed, then of the entry after it
	changed  uint64                   // the member that the last change was about
}

// New returns the member whose journal storage holds.
func New(cfg Config, storage Storage, now time.Duration) (*Replica, error) {
	if cfg.Election == 0 {
		cfg.Election = DefaultElection
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = DefaultHeartbeat
	}
	hard, conf, err := storage.InitialState()
	if err != nil {
		return nil, err
	}
	// Applied is the commit index: the owner reads the committed records from the storage when it
	// begins to lead, so Run need not repeat them. DisableProposalForwarding: a follower's record
	// would belong to a core that does not exist.
	node, err := raft.NewRawNode(&raft.Config{
		ID: cfg.ID, Storage: storage, Applied: hard.GetCommit(),
		ElectionTick: cfg.ticks(), HeartbeatTick: 2, CheckQuorum: true, PreVote: true,
		MaxSizePerMsg: 4 << 20, MaxInflightMsgs: 256, DisableProposalForwarding: true, Logger: logger{cfg.Log},
	})
	if err != nil {
		return nil, err
	}
	r := &Replica{cfg: cfg, node: node, storage: storage, rng: rand.New(rand.NewPCG(cfg.Seed, cfg.ID)), voters: conf.Voters,
		now: now, heard: now, term: hard.GetTerm(), committed: hard.GetCommit(), probes: map[uint64]time.Duration{}, answered: map[uint64]time.Duration{}}
	if r.last, err = storage.LastIndex(); err != nil {
		return nil, err
	}
	r.removed = storage.Removed(r.committed)
	r.wait()
	if r.Alone() {
		return r, node.Campaign()
	}
	return r, nil
}

// ticks is the number of a leader's ticks in an election time.
func (cfg *Config) ticks() int { return max(4, int(cfg.Election/cfg.Heartbeat)) }

// wait draws the time at which the member campaigns unless it hears from a leader. The times of
// two members are rarely so close that both campaign.
func (r *Replica) wait() {
	r.deadline = r.now + r.cfg.Election + time.Duration(r.rng.Int64N(int64(r.cfg.Election/2)))
}

// waitAfterSplit draws the time of the next campaign of a member that just lost a vote to another candidate:
// no member leads, so it waits for less than the silence of a leader would take. The refusal may arrive after
// the first message of a leader that another member's vote has elected. Then the member campaigns no sooner than
// the leader's lease permits, because a campaign votes for the member itself.
func (r *Replica) waitAfterSplit() {
	next := max(r.heard+r.cfg.Election, r.now+time.Duration(r.rng.Int64N(int64(r.cfg.Election/2))))
	r.deadline = min(r.deadline, next)
}

// Alone reports whether the member is the only one of its group.
func (r *Replica) Alone() bool { return len(r.voters) == 1 && r.voters[0] == r.cfg.ID }

// ID returns the member's id.
func (r *Replica) ID() uint64 { return r.cfg.ID }

// Term returns the highest term that the member knows.
func (r *Replica) Term() uint64 { return r.term }

// Leader returns the id of the leader that the member knows, 0 if it knows none.
func (r *Replica) Leader() uint64 { return r.soft.Lead }

// Leads reports whether the member leads and has all committed entries, so that a core may go
// on.
func (r *Replica) Leads() bool {
	return r.soft.RaftState == raft.StateLeader && r.caughtUp && !r.transferred
}

// MayRestore reports whether the member leads and its storage has no other entries than
// committed ones. A core that was restored while the entries of its predecessor in the same term
// are on their way would miss them.
func (r *Replica) MayRestore() bool { return r.Leads() && r.committed == r.last }

// Committed returns the index up to which entries are committed.
func (r *Replica) Committed() uint64 { return r.committed }

// Last returns the index of the last entry, also of one that was just proposed.
func (r *Replica) Last() uint64 { return r.last }

// Lease returns the time until which no other member can lead. Nothing may leave a leader after
// it.
func (r *Replica) Lease() time.Duration {
	switch {
	case !r.Leads():
		return 0
	case r.Alone():
		return 1<<63 - 1
	}
	return r.lease
}

// advance moves the time forward.
func (r *Replica) advance(now time.Duration) { r.now = max(r.now, now) }

// Tick lets time pass. The owner calls it about twice in a heartbeat interval. Run must follow
// each call of Tick, Step, Propose and Transfer.
func (r *Replica) Tick(now time.Duration) {
	r.advance(now)
	if r.soft.RaftState == raft.StateLeader {
		r.tickLeader()
		return
	}
	// Raft refuses to vote while it knows a leader, and its own clock is not used here.
	if r.soft.Lead != raft.None && r.now >= r.heard+r.cfg.Election {
		_ = r.node.ForgetLeader() // fails only without a member's state
	}
	if r.now >= r.deadline && r.votes() {
		r.wait()
		_ = r.node.Campaign() // an error says that it cannot be elected now
	}
}

// votes reports whether the member belongs to the group.
func (r *Replica) votes() bool {
	for _, id := range r.voters {
		if id == r.cfg.ID {
			return true
		}
	}
	return false
}

// tickLeader sends heartbeats, renews the lease, and steps down without a majority.
func (r *Replica) tickLeader() {
	if r.now < r.ticked+r.cfg.Heartbeat {
		return
	}
	// After a pause of the process each missed tick counts, so that it steps down soon if the
	// others do not answer. More than two election times add nothing.
	n := min(int((r.now-r.ticked)/r.cfg.Heartbeat), 2*r.cfg.ticks())
	r.ticked = r.now
	for range n {
		r.node.Tick()
	}
	switch {
	// A leader that hands over asks for no lease. It asks again for the campaign, because the first
	// message may have been lost.
	case r.transferred:
		if r.now >= r.asked+r.cfg.Election {
			r.Transfer(r.now)
		}
	// The question is a read index: its answer needs heartbeats of a majority that were sent after
	// it. The lease counts from the moment of the question, when no answer had been given.
	case r.caughtUp && !r.Alone():
		r.probe++
		r.probes[r.probe] = r.now
		r.node.ReadIndex(binary.BigEndian.AppendUint64(nil, r.probe))
	}
}

// Step takes in a message of another member.
func (r *Replica) Step(now time.Duration, m *raftpb.Message) {
	r.advance(now)
	switch {
	// The id belongs to another directory at the same address: see the package comment.
	case m.GetTo() != r.cfg.ID:
		return
	// It may not know that it was removed, and campaigns for ever.
	case r.Removed(m.GetFrom()):
		return
	}
	switch m.GetType() {
	case raftpb.MsgVote, raftpb.MsgPreVote:
		// A member without any entry has joined just now and does not know who the voters are.
		if len(r.voters) == 0 {
			return
		}
		// The promise on which the leader's lease rests. Raft keeps it only while it knows who
		// leads, which a member that was restarted does not.
		if r.now < r.heard+r.cfg.Election && string(m.Context) != transferContext {
			return
		}
	case raftpb.MsgHeartbeat:
		// The leader counts entries that this member does not have: somebody has put an older copy of
		// its directory back. Raft would panic.
		if m.GetCommit() > r.last {
			return
		}
	case raftpb.MsgSnap:
		if !r.storage.CanInstall() {
			return // the leader sends it again
		}
	case raftpb.MsgHup, raftpb.MsgBeat, raftpb.MsgProp, raftpb.MsgUnreachable, raftpb.MsgSnapStatus, raftpb.MsgCheckQuorum, raftpb.MsgReadIndex, raftpb.MsgTransferLeader, raftpb.MsgForgetLeader:
		return // these never come from another member
	}
	if r.soft.RaftState == raft.StateLeader {
		r.answered[m.GetFrom()] = r.now
	}
	before := r.node.BasicStatus().HardState
	_ = r.node.Step(m) // the errors say that the message is of no use
	after := r.node.BasicStatus()
	r.term = after.GetTerm()
	switch {
	// Only what the present leader of the present term sends renews the promise. A late message of
	// a former leader would keep the member from voting.
	case (m.GetType() == raftpb.MsgApp || m.GetType() == raftpb.MsgHeartbeat || m.GetType() == raftpb.MsgSnap) && after.Lead == m.GetFrom() && after.GetTerm() == m.GetTerm():
		r.heard = r.now
		r.wait()
	// The other one had won its preliminary vote, too, and voted for itself. A member whose journal is
	// too short does not get here: it loses its preliminary vote.
	case m.GetType() == raftpb.MsgVoteResp && m.GetReject() && m.GetTerm() == after.GetTerm() && after.RaftState != raft.StateLeader:
		r.waitAfterSplit()
	// A vote that has just been given makes room for the candidate: a campaign of this member now
	// would only split the votes.
	case m.GetType() == raftpb.MsgVote && after.GetVote() == m.GetFrom() && (before.GetVote() != after.GetVote() || before.GetTerm() != after.GetTerm()):
		r.wait()
	}
}

// Removed reports whether a member was removed from the group, as far as this one knows.
func (r *Replica) Removed(id uint64) bool { return slices.Contains(r.removed, id) }

// transferContext marks the votes of a campaign that the leader itself has asked for.
const transferContext = "CampaignTransfer"

// ErrNotLeader reports that a proposal was dropped because the member does not lead.
var ErrNotLeader = errors.New("this master does not lead")

// Propose appends an entry to the log of the leader and returns its index. The entry may
// vanish again if the leader loses its term before the entry is committed. Propose takes
// ownership of data.
func (r *Replica) Propose(now time.Duration, data []byte) (index uint64, err error) {
	r.advance(now)
	if r.soft.RaftState != raft.StateLeader || r.node.Propose(data) != nil {
		return 0, ErrNotLeader
	}
	r.last++
	return r.last, nil
}

// ErrChanging reports that another change of the membership is not committed yet.
var ErrChanging = errors.New("another change of the masters is under way: try again")

// ProposeMember proposes a change of the membership, one at a time.
func (r *Replica) ProposeMember(now time.Duration, c *raftpb.ConfChange) (index uint64, err error) {
	r.advance(now)
	switch {
	// Raft would replace the change by an empty entry.
	case r.change > r.committed:
		return 0, ErrChanging
	case r.soft.RaftState != raft.StateLeader || r.node.ProposeConfChange(c) != nil:
		return 0, ErrNotLeader
	}
	r.last++
	r.change = r.last
	return r.last, nil
}

// Settled returns true if a majority will remember the last change of a member although all stop. It
// is for leaders.
func (r *Replica) Settled(id uint64) bool { return id != r.changed || r.change <= r.committed }

// Standing describes a member to the leader.
type Standing struct {
	ID      uint64
	Match   uint64 // index of the last entry that the member is known to have
	Learner bool   // it does not vote
	Silent  bool   // the leader has had no message from the member for an election time
}

// Standings returns the standings of all members, by id. It is empty unless this member leads.
func (r *Replica) Standings() (list []Standing) {
	if r.soft.RaftState != raft.StateLeader {
		return nil
	}
	for id, p := range r.node.Status().Progress { //house:sorted the list is sorted below
		at, heard := r.answered[id]
		list = append(list, Standing{id, p.Match, p.IsLearner, id != r.cfg.ID && (!heard || r.now > at+r.cfg.Election)})
	}
	slices.SortFunc(list, func(a, b Standing) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// ErrNotHeard reports that a new leader cannot know yet which members run.
var ErrNotHeard = errors.New("this master has just begun to lead, and does not know yet which of the others run: try again")

// MayRemove returns an error if the members that would be left have no majority that answers. It is
// ErrNotHeard if they may only not have answered yet.
func (r *Replica) MayRemove(id uint64) error {
	voters, alive := 0, 0
	for _, s := range r.Standings() {
		if s.ID == id || s.Learner {
			continue
		}
		if voters++; !s.Silent {
			alive++
		}
	}
	// A change must leave a majority that answers now: the group would stop when the removal takes
	// effect.
	switch need := voters/2 + 1; {
	case alive >= need:
		return nil
	case r.now <= r.led+r.cfg.Election:
		return ErrNotHeard
	default:
		return fmt.Errorf("of the %d masters that would be left, %d must run, and %d do", voters, need, alive)
	}
}

// CaughtUp returns a learner that has nearly all entries, so that it may vote without holding
// commits up. One without any entry has none of a short journal either, and could not vote. It returns 0 if there is none, and while a change is under way.
func (r *Replica) CaughtUp() uint64 {
	if r.change > r.committed {
		return 0
	}
	for _, s := range r.Standings() {
		if s.Learner && !s.Silent && s.Match > 0 && s.Match+nearly >= r.last {
			return s.ID
		}
	}
	return 0
}

// nearly is the number of entries that a learner may lack when it becomes a voter.
const nearly = 64

// Transfer asks the member with the longest log to campaign at once, again and again until one
// is elected. The member does not lead in this term any more, because the campaign that it has
// asked for ignores its lease. The owner must have discarded its core.
func (r *Replica) Transfer(now time.Duration) {
	r.advance(now)
	if r.soft.RaftState != raft.StateLeader || r.Alone() {
		return
	}
	// Before the request leaves: Lease is 0 from now on, because the campaign may win while the old
	// lease would still run.
	r.transferred = true
	var best, match uint64
	for id, p := range r.node.Status().Progress { //house:sorted the maximum does not depend on the order
		if id != r.cfg.ID && p.RecentActive && (best == 0 || p.Match > match || p.Match == match && id < best) {
			best, match = id, p.Match
		}
	}
	// Raft forgets who was active once in an election time. A caller that waited for a whole one then
	// could try at these moments only, and would find no member for ever.
	if best != 0 {
		r.asked = r.now
		r.node.TransferLeader(best)
	}
}

// ReportUnreachable and ReportSnapshot say how the delivery of messages ended.
func (r *Replica) ReportUnreachable(id uint64) { r.node.ReportUnreachable(id) }

// ReportSnapshot says whether a snapshot has arrived.
func (r *Replica) ReportSnapshot(id uint64, arrived bool) {
	status := raft.SnapshotFinish
	if !arrived {
		status = raft.SnapshotFailure
	}
	r.node.ReportSnapshot(id, status)
}

// Run makes durable what must be, and calls send with the messages for other members. After
// an error the journal is unusable, and nothing may leave the member.
//
// A leader's entries travel while its own disk writes them: a follower's answer says nothing
// about the leader's disk, and a commit needs a majority of disks, whichever these are. All
// other messages are promises about the own disk, so they leave after the write.
func (r *Replica) Run(send func(*raftpb.Message)) error {
	for r.node.HasReady() {
		rd := r.node.Ready()
		leads := r.node.BasicStatus().RaftState == raft.StateLeader
		if leads {
			for _, m := range rd.Messages {
				send(m)
			}
		}
		// The snapshot precedes the entries of the same Ready, which continue its log.
		if !raft.IsEmptySnap(rd.Snapshot) {
			if err := r.storage.Install(rd.Snapshot); err != nil {
				return err
			}
			meta := rd.Snapshot.GetMetadata()
			r.voters = meta.GetConfState().GetVoters()
			r.last = meta.GetIndex()
			r.committed = max(r.committed, r.last)
			r.removed = r.storage.Removed(r.last)
		}
		if err := r.storage.Save(rd.HardState, rd.Entries); err != nil {
			return err
		}
		if n := len(rd.Entries); n > 0 {
			// Equal already if this member has proposed them.
			r.last = rd.Entries[n-1].GetIndex()
		}
		if !leads {
			for _, m := range rd.Messages {
				send(m)
			}
		}
		r.observe(rd)
		for _, e := range rd.CommittedEntries {
			r.apply(e)
		}
		r.storage.Commit(r.committed)
		r.node.Advance(rd)
	}
	return nil
}

// observe takes in changes of the term, of the leader and of the lease.
func (r *Replica) observe(rd raft.Ready) {
	if !raft.IsEmptyHardState(rd.HardState) && rd.GetTerm() > r.term {
		r.term = rd.GetTerm()
	}
	if rd.SoftState != nil {
		if led := r.soft.RaftState == raft.StateLeader; led != (rd.SoftState.RaftState == raft.StateLeader) {
			r.caughtUp, r.transferred, r.lease, r.ticked, r.led = false, false, 0, r.now, r.now
			clear(r.probes)
			clear(r.answered)
			r.change = r.last // a change of an earlier leader may be on its way
			// A leader that steps down has promised no silence, and waits as long as others.
			r.wait()
		}
		r.soft = *rd.SoftState
	}
	for _, s := range rd.ReadStates {
		n := binary.BigEndian.Uint64(s.RequestCtx)
		if sent, ok := r.probes[n]; ok {
			r.lease = max(r.lease, sent+r.cfg.Election*3/4)
		}
		// An answer confirms all earlier questions, too.
		for id := range r.probes { //house:sorted each is looked at for itself
			if id <= n {
				delete(r.probes, id)
			}
		}
	}
}

// apply takes in a committed entry.
func (r *Replica) apply(e *raftpb.Entry) {
	r.committed = max(r.committed, e.GetIndex())
	if r.cfg.Committed != nil {
		r.cfg.Committed(e)
	}
	// Only a committed entry of the present term shows a leader which earlier entries are committed
	// (raft, section 5.4.2).
	if e.GetTerm() == r.term && r.soft.RaftState == raft.StateLeader {
		r.caughtUp = true
	}
	if e.GetType() != raftpb.EntryConfChange {
		return
	}
	c := &raftpb.ConfChange{}
	if proto.Unmarshal(e.Data, c) != nil {
		return
	}
	r.voters = r.node.ApplyConfChange(c).Voters
	r.removed = r.storage.Removed(e.GetIndex())
	// Members learn with a later entry that the change is committed, and while no jobs are submitted
	// there is none. A new voter that is started again before one comes takes itself for a learner,
	// which never campaigns. If the leader is lost then, too, no member can lead, because the journals of
	// the others may be shorter. So an empty entry follows each change, and no other change
	// begins before a majority has it.
	if r.soft.RaftState == raft.StateLeader && r.node.Propose(nil) == nil {
		r.last++
		r.change, r.changed = r.last, c.GetNodeId()
	}
}

// logger passes raft's lines on. Raft's own information about each election is left out: the
// owner logs changes of the leader.
type logger struct{ log func(warn bool, text string) }

var _ raft.Logger = logger{}

func (l logger) write(text string) {
	if l.log != nil {
		l.log(true, text)
	}
}

// Debug and the methods below implement raft.Logger.
func (l logger) Debug(...any)                     {}
func (l logger) Debugf(string, ...any)            {}
func (l logger) Info(...any)                      {}
func (l logger) Infof(string, ...any)             {}
func (l logger) Warning(v ...any)                 { l.write(fmt.Sprint(v...)) }
func (l logger) Warningf(format string, v ...any) { l.write(fmt.Sprintf(format, v...)) }
func (l logger) Error(v ...any)                   { l.write(fmt.Sprint(v...)) }
func (l logger) Errorf(format string, v ...any)   { l.write(fmt.Sprintf(format, v...)) }
func (l logger) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l logger) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (l logger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l logger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
