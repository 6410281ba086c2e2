package journal

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Store keeps the log of one member of a raft group in a journal. It implements
// raft.Storage. Like Log it belongs to one goroutine.
//
// The journal is a list of records. A raft entry is one record, which contains records of
// the master. An entry replaces all entries with the same or a higher index: a
// conflicting tail is never removed from the disk, only overruled, so that the journal stays
// append-only. The records outside entries have the effect of all entries up to base.index.
//
// A committed entry stays in memory only for followers that lag behind by less than
// tailBytes. Followers that lag further get a snapshot.
type Store struct {
	log     *Log
	base    *slotwisev1.RaftBase
	state   hardState
	before  entryID         // of the entry before tail[0]
	tail    []*raftpb.Entry // without gaps; may be empty
	bytes   int             // of the tail's data
	changes []*raftpb.Entry // of the membership, after base.index
	// overruled is set once an entry has replaced another one in the files that count: readers
	// must then look for the entries that were replaced.
	// Never reset but by a snapshot of the leader: the overruled records stay in the files until a snapshot
	// replaces them.
	overruled bool
	boundary  *boundary        // where the next compaction may begin; nil if nowhere
	snapshot  *raftpb.Snapshot // the one last made for a follower; nil if there is none
	wanted    bool             // a follower needs a newer snapshot
}

var _ raft.Storage = (*Store)(nil)

type entryID struct{ index, term uint64 }

// hardState is a raftpb.HardState without the state that a message carries.
type hardState struct {
	term, vote uint64
	commit     uint64 // the highest index that is known to be committed
}

// boundary is the end of a segment at which a snapshot may replace the segments before it.
type boundary struct {
	entryID
	next     uint64 // number of the segment after it
	position []byte // the record of the entry
}

// tailBytes limits the data of committed entries that stay in memory for followers.
const tailBytes = 16 << 20

// The tags with which the records of the group itself begin: fields 60 to 62 of
// JournalRecord. positionTag is the one of JournalPosition.
const (
	entryField  = 60
	stateField  = 61
	baseField   = 62
	positionTag = 10<<3 | 2
)

// Single is the id of the member of a group whose only master was started without peers.
const Single = 1

// OpenStore opens the journal in dir. A new journal begins with fresh. Its index is 1 if its members
// are known, as if an entry had added them. A master that must receive the members lacks this entry, so that its
// index is 0, and the leader begins with a snapshot.
func OpenStore(dir string, opt Options, fresh *slotwisev1.RaftBase) (*Store, error) {
	log, err := Open(dir, opt)
	if err != nil {
		return nil, err
	}
	s := &Store{log: log}
	if err := s.load(fresh); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return s, nil
}

// load reads the group's own records.
func (s *Store) load(fresh *slotwisev1.RaftBase) error {
	// A journal from before masters were replicated has no base: its records are one entry of
	// the only member.
	s.reset(&slotwisev1.RaftBase{Index: 1, Term: 1, Self: Single, Members: []*slotwisev1.Member{{Id: Single}}})
	empty := true
	for b, err := range s.log.Replay() {
		if err != nil {
			return err
		}
		empty = false
		if err := s.loadRecord(b); err != nil {
			return err
		}
	}
	s.trim()
	if empty {
		return s.begin(fresh)
	}
	return nil
}

// begin makes base the begin of a journal without entries.
func (s *Store) begin(base *slotwisev1.RaftBase) error {
	s.reset(base)
	s.append(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_RaftBase{RaftBase: base}})
	return s.log.Sync()
}

// Form writes the first members of the group into a journal that began without them. All members
// write the same list.
func (s *Store) Form(first []*slotwisev1.Member) error {
	return s.begin(&slotwisev1.RaftBase{Index: 1, Term: 1, Group: s.base.Group, Self: s.base.Self, Members: first, First: first})
}

// Forms reports whether the journal waits for Form. A snapshot ends the wait, too.
func (s *Store) Forms() bool { return s.base.Forms }

// Self returns the id of the member whose journal this is.
func (s *Store) Self() uint64 { return s.base.Self }

// First returns the members that have formed the group, nil while they are not known.
func (s *Store) First() []*slotwisev1.Member { return s.base.First }

// mostRemoved bounds the ids of removed members. One that returns later still is refused every vote,
// because it is not among the members.
const mostRemoved = 1000

// Removed returns the ids of the members that entries up to an index have removed.
func (s *Store) Removed(index uint64) []uint64 {
	list := slices.Clone(s.base.Removed)
	for _, e := range s.changes {
		var c raftpb.ConfChange
		if e.GetIndex() > index || proto.Unmarshal(e.Data, &c) != nil {
			continue
		}
		if c.GetType() == raftpb.ConfChangeRemoveNode {
			list = append(list, c.GetNodeId())
		}
	}
	return list[max(0, len(list)-mostRemoved):]
}

// baseAt returns the begin of a journal whose records have the effect of all entries up to e.
func (s *Store) baseAt(e entryID) *slotwisev1.RaftBase {
	return &slotwisev1.RaftBase{Index: e.index, Term: e.term, Group: s.base.Group, Members: s.Members(e.index), First: s.base.First, Removed: s.Removed(e.index)}
}

func (s *Store) loadRecord(b []byte) error {
	r, err := ownRecord(b)
	switch {
	case err != nil:
		return err
	case r == nil:
		return nil
	}
	switch w := r.What.(type) {
	case *slotwisev1.JournalRecord_RaftBase:
		// A vote outlives the base: a member that forgot it could vote twice in one term.
		state := s.state
		s.reset(w.RaftBase)
		s.state.term, s.state.vote = max(s.state.term, state.term), state.vote
	case *slotwisev1.JournalRecord_RaftState:
		s.state.term, s.state.vote = w.RaftState.Term, w.RaftState.Vote
	case *slotwisev1.JournalRecord_RaftEntry:
		e := w.RaftEntry
		// An entry may repeat an index: a new leader has replaced the entries of a former one.
		if e.Index <= s.base.Index || e.Index > s.last()+1 {
			return fmt.Errorf("journal: entry %d follows entry %d: files of two journals are mixed", e.Index, s.last())
		}
		s.add(&raftpb.Entry{Term: new(e.Term), Index: new(e.Index), Type: new(raftpb.EntryType(e.Type)), Data: e.Data})
		s.state.term = max(s.state.term, e.Term)
		// The commit index of the moment in which the entry was written. It may lag, and the leader sends the newer
		// one.
		s.Commit(e.Commit)
	}
	return nil
}

// reset makes the store hold base and no entries.
func (s *Store) reset(base *slotwisev1.RaftBase) {
	s.base, s.before = base, entryID{base.Index, base.Term}
	s.tail, s.bytes, s.changes, s.boundary, s.snapshot = nil, 0, nil, nil, nil
	s.state = hardState{max(s.state.term, base.Term), s.state.vote, base.Index}
}

func (s *Store) last() uint64 { return s.before.index + uint64(len(s.tail)) }

// add appends an entry to the tail. It removes the entries that e overrules.
func (s *Store) add(e *raftpb.Entry) {
	if e.GetIndex() <= s.last() {
		s.overruled = true
		// Clipped: raft may hold the array of the entries that are overruled.
		s.tail = slices.Clip(s.tail[:e.GetIndex()-s.before.index-1])
		s.bytes = 0
		for i := range s.tail {
			s.bytes += len(s.tail[i].Data)
		}
		s.changes = slices.DeleteFunc(s.changes, func(c *raftpb.Entry) bool { return c.GetIndex() >= e.GetIndex() })
		if s.boundary != nil && s.boundary.index >= e.GetIndex() {
			s.boundary = nil
		}
	}
	s.tail = append(s.tail, e)
	s.bytes += len(e.Data)
	if e.GetType() == raftpb.EntryConfChange {
		s.changes = append(s.changes, e)
	}
}

// Commit notes that all entries up to index are committed. Entries that no follower needs
// leave the memory.
func (s *Store) Commit(index uint64) {
	// A leader may have committed entries that this member does not have yet.
	if index = min(index, s.last()); index > s.state.commit {
		s.state.commit = index
		s.trim()
	}
}

// trim removes committed entries from the memory. A single master needs no committed entry.
func (s *Store) trim() {
	keep := tailBytes
	if len(s.Members(s.state.commit)) == 1 {
		keep = 0
	}
	n := 0
	// Only committed entries go: raft reads the others from memory when it sends or commits them.
	for n < len(s.tail) && s.tail[n].GetIndex() <= s.state.commit && s.bytes > keep {
		s.bytes -= len(s.tail[n].Data)
		s.before = entryID{s.tail[n].GetIndex(), s.tail[n].GetTerm()}
		n++
	}
	// An entry without data costs memory, too.
	for n < len(s.tail) && s.tail[n].GetIndex() <= s.state.commit && keep == 0 {
		s.before = entryID{s.tail[n].GetIndex(), s.tail[n].GetTerm()}
		n++
	}
	if n > 0 {
		// A clone, because a slice of the old array would keep the removed entries in memory.
		s.tail = slices.Clone(s.tail[n:])
	}
}

// Group returns the name of the group, "" for a journal of a master without peers.
func (s *Store) Group() string { return s.base.Group }

// Committed returns the highest index that is known to be committed.
func (s *Store) Committed() uint64 { return s.state.commit }

// Members returns the members of the group after the entry with an index, by id.
func (s *Store) Members(index uint64) []*slotwisev1.Member {
	list := slices.Clone(s.base.Members)
	for _, e := range s.changes {
		if e.GetIndex() > index {
			break
		}
		var c raftpb.ConfChange
		if proto.Unmarshal(e.Data, &c) != nil {
			continue // an entry that raft itself has made empty
		}
		list = slices.DeleteFunc(list, func(m *slotwisev1.Member) bool { return m.Id == c.GetNodeId() })
		if t := c.GetType(); t == raftpb.ConfChangeAddNode || t == raftpb.ConfChangeAddLearnerNode {
			list = append(list, &slotwisev1.Member{Id: c.GetNodeId(), Address: string(c.Context), Learner: t == raftpb.ConfChangeAddLearnerNode})
		}
	}
	slices.SortFunc(list, func(a, b *slotwisev1.Member) int {
		if a.Id < b.Id {
			return -1
		}
		return 1
	})
	return list
}

func (s *Store) conf(index uint64) *raftpb.ConfState {
	// Raft sets an AutoLeave that is missing, while another goroutine may encode the snapshot.
	c := &raftpb.ConfState{AutoLeave: new(false)}
	for _, m := range s.Members(index) {
		if m.Learner {
			c.Learners = append(c.Learners, m.Id)
		} else {
			c.Voters = append(c.Voters, m.Id)
		}
	}
	return c
}

// InitialState implements raft.Storage, like the methods below.
func (s *Store) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hard := &raftpb.HardState{Term: new(s.state.term), Vote: new(s.state.vote), Commit: new(s.state.commit)}
	return hard, s.conf(s.state.commit), nil
}

// Entries returns a part of the tail.
func (s *Store) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo <= s.before.index:
		return nil, raft.ErrCompacted
	case hi > s.last()+1:
		return nil, raft.ErrUnavailable
	}
	part := s.tail[lo-s.before.index-1 : hi-s.before.index-1]
	size := uint64(0)
	for i := range part {
		// The first entry is returned however large it is, as raft requires: a follower could not
		// get past it otherwise.
		if size += uint64(proto.Size(part[i])); i > 0 && size > maxSize {
			part = part[:i]
			break
		}
	}
	// Clipped, because raft may append to the slice, and the array belongs to the tail.
	return slices.Clip(part), nil
}

// Term returns the term of an entry in the tail, or of the one before it.
func (s *Store) Term(i uint64) (uint64, error) {
	switch {
	case i == s.before.index:
		return s.before.term, nil
	case i < s.before.index:
		return 0, raft.ErrCompacted
	case i > s.last():
		return 0, raft.ErrUnavailable
	}
	return s.tail[i-s.before.index-1].GetTerm(), nil
}

// LastIndex returns the index of the last entry.
func (s *Store) LastIndex() (uint64, error) { return s.last(), nil }

// FirstIndex returns the index of the first entry in memory.
func (s *Store) FirstIndex() (uint64, error) { return s.before.index + 1, nil }

// Snapshot returns the snapshot that was made last, if a follower with it can be given the
// entries after it. Otherwise it asks the owner to call MakeSnapshot. A member refuses a snapshot from before
// it was added, so none is given from before the last change of the members.
func (s *Store) Snapshot() (*raftpb.Snapshot, error) {
	meta := s.snapshot.GetMetadata()
	if s.snapshot == nil || meta.GetIndex() < s.before.index || s.conf(s.state.commit).Equivalent(meta.GetConfState()) != nil {
		s.wanted = true
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return s.snapshot, nil
}

// Save makes entries and the term and vote of a hard state durable. An empty hard state
// changes nothing. After an error the store refuses every call except Close.
func (s *Store) Save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	// The commit index alone needs no record: it is in the next entry, and the leader sends it
	// again.
	changed := !raft.IsEmptyHardState(hard) && (hard.GetTerm() != s.state.term || hard.GetVote() != s.state.vote)
	if changed {
		s.state.term, s.state.vote = hard.GetTerm(), hard.GetVote()
		s.append(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_RaftState{RaftState: &slotwisev1.RaftState{Term: s.state.term, Vote: s.state.vote}}})
	}
	// The hard state comes from the same message as the entries. The entry that it calls committed
	// may be a change of the members, which must not be forgotten when later entries
	// count.
	commit := max(s.state.commit, hard.GetCommit())
	for _, e := range entries {
		// Into the log's buffer: nothing is promised before the Sync at the end.
		s.append(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_RaftEntry{RaftEntry: &slotwisev1.RaftEntry{
			Term: e.GetTerm(), Index: e.GetIndex(), Type: int32(e.GetType()), Data: e.Data, Commit: commit,
		}}})
		s.add(e)
		// The segment ends with this entry, so a snapshot can replace whole files up to it.
		if position := positionIn(e); position != nil {
			// A sync within the list: the entries behind the position go to the next segment.
			next, err := s.log.split()
			if err != nil {
				return err
			}
			s.boundary = &boundary{entryID{e.GetIndex(), e.GetTerm()}, next, position}
		}
	}
	if !changed && len(entries) == 0 {
		return nil
	}
	return s.log.Sync()
}

// positionIn returns the record of an entry that consists of a JournalPosition, else nil.
func positionIn(e *raftpb.Entry) []byte {
	rec, rest, ok := nextRecord(e.Data)
	if e.GetType() != raftpb.EntryNormal || !ok || len(rest) > 0 || len(rec) == 0 || rec[0] != positionTag {
		return nil
	}
	return rec
}

// AppendRecord appends a record to the data of an entry.
func AppendRecord(data, rec []byte) []byte { return appendRecord(data, rec) }

func (s *Store) append(r *slotwisev1.JournalRecord) {
	b, err := proto.Marshal(r)
	if err != nil { // the messages have no required fields and no strings of users
		panic(err)
	}
	s.log.Append(b)
}

// ownRecord returns a record of the group itself, or nil for one of the master.
func ownRecord(b []byte) (*slotwisev1.JournalRecord, error) {
	// The first tag decides, so the master's records are not decoded here: a restart reads millions.
	field, _, n := protowire.ConsumeTag(b)
	if n < 0 || field < entryField || field > baseField {
		return nil, nil
	}
	r := &slotwisev1.JournalRecord{}
	if err := proto.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return r, nil
}

// Records yields the master's records of all entries up to index that count, in order. A
// record is valid until the next one is yielded. It may be called in any goroutine, and
// another goroutine may append meanwhile.
func (s *Store) Records(index uint64) iter.Seq2[[]byte, error] {
	return s.flatten(s.log.current(), index)
}

// flatten yields the master's records among all records of some files.
func (s *Store) flatten(files iter.Seq2[[]byte, error], index uint64) iter.Seq2[[]byte, error] {
	overruled := s.overruled
	return func(yield func([]byte, error) bool) {
		// An entry is overruled by a later record, so all records must be read once before the first is passed on.
		// Most journals have none, and are read once only.
		dead := map[int]bool{}
		if overruled {
			var err error
			if dead, err = overruledEntries(files); err != nil {
				yield(nil, err)
				return
			}
		}
		n := 0
		for b, err := range files {
			var own *slotwisev1.JournalRecord
			if err == nil {
				own, err = ownRecord(b)
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case own == nil:
				if !yield(b, nil) {
					return
				}
			case own.GetRaftEntry() != nil:
				n++
				if e := own.GetRaftEntry(); e.Index <= index && !dead[n] && raftpb.EntryType(e.Type) == raftpb.EntryNormal && !yieldData(e.Data, yield) {
					return
				}
			}
		}
	}
}

// overruledEntries returns the ordinals, from 1, of the entries that later ones have replaced.
func overruledEntries(files iter.Seq2[[]byte, error]) (dead map[int]bool, err error) {
	dead = map[int]bool{}
	type seen struct {
		n     int
		index uint64
	}
	var live []seen
	n := 0
	for b, err := range files {
		var own *slotwisev1.JournalRecord
		if err == nil {
			own, err = ownRecord(b)
		}
		if err != nil {
			return nil, err
		}
		if e := own.GetRaftEntry(); e != nil {
			n++
			// An entry replaces the earlier ones of its index and above.
			for len(live) > 0 && live[len(live)-1].index >= e.Index {
				dead[live[len(live)-1].n] = true
				live = live[:len(live)-1]
			}
			live = append(live, seen{n, e.Index})
		}
	}
	return dead, nil
}

// yieldData yields the records of an entry.
func yieldData(b []byte, yield func([]byte, error) bool) bool {
	for len(b) > 0 {
		rec, rest, ok := nextRecord(b)
		if !ok {
			yield(nil, errors.New("journal: the lengths of the records exceed the entry"))
			return false
		}
		if !yield(rec, nil) {
			return false
		}
		b = rest
	}
	return true
}

// Cut passes the call to the journal.
func (s *Store) Cut() *Cut { return s.log.Cut() }

// SinceSnapshot passes the call to the journal.
func (s *Store) SinceSnapshot() int64 { return s.log.SinceSnapshot() }

// Check passes the call to the journal.
func (s *Store) Check() error { return s.log.Check() }

// Close passes the call to the journal.
func (s *Store) Close() error { return s.log.Close() }

// Replacement replaces the journal's files up to an entry by a snapshot, as Compaction does.
type Replacement struct {
	*Compaction
	Position []byte // the record of the JournalPosition that ends the entries
	Index    uint64 // of the last entry that is replaced
	base     *slotwisev1.RaftBase
	head     []*slotwisev1.JournalRecord
	records  iter.Seq2[[]byte, error]
}

// Replaceable returns the replacement that may begin now, nil if there is none. End must
// follow.
func (s *Store) Replaceable() *Replacement {
	b := s.boundary
	// Only up to a committed entry: another one may still be overruled, and a snapshot cannot be.
	if b == nil || s.log.compacting || s.state.commit < b.index {
		return nil
	}
	s.boundary = nil
	r := &Replacement{Compaction: s.log.beginAt(b.next), Position: b.position, Index: b.index}
	r.base = s.baseAt(b.entryID)
	r.base.Self = s.base.Self
	r.head = []*slotwisev1.JournalRecord{{What: &slotwisev1.JournalRecord_RaftBase{RaftBase: r.base}},
		// A vote that were lost with its segment could be given twice.
		{What: &slotwisev1.JournalRecord_RaftState{RaftState: &slotwisev1.RaftState{Term: s.state.term, Vote: s.state.vote}}}}
	r.records = s.flatten(r.Compaction.Records(), b.index)
	return r
}

// Records yields the master's records that the snapshot replaces.
func (r *Replacement) Records() iter.Seq2[[]byte, error] { return r.records }

// Write writes the snapshot, as Compaction.Write does.
func (r *Replacement) Write(records iter.Seq2[[]byte, error]) (int64, error) {
	return r.Compaction.Write(withHead(r.head, records))
}

func withHead(head []*slotwisev1.JournalRecord, records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, h := range head {
			if b, err := proto.Marshal(h); !yield(b, err) {
				return
			}
		}
		records(yield)
	}
}

// End ends a replacement.
func (s *Store) End(r *Replacement) {
	s.log.End(r.Compaction)
	if r.published {
		s.base = r.base
		s.changes = slices.DeleteFunc(s.changes, func(c *raftpb.Entry) bool { return c.GetIndex() <= r.base.Index })
	}
}

// SnapshotWanted reports, once, whether a follower waits for a snapshot.
func (s *Store) SnapshotWanted() bool {
	w := s.wanted
	s.wanted = false
	return w
}

// MakeSnapshot returns a function that reads the journal up to the last committed entry into
// memory, on any goroutine. The owner hands the result to OfferSnapshot.
func (s *Store) MakeSnapshot() func() (*raftpb.Snapshot, error) {
	// Not further: an entry that is not committed may be overruled, and a follower could not take it back from a
	// snapshot.
	at := s.state.commit
	// Taken now, in the owner's goroutine: later the entry may have left memory.
	term, err := s.Term(at)
	base := s.baseAt(entryID{at, term})
	meta := &raftpb.SnapshotMetadata{Index: new(at), Term: new(term), ConfState: s.conf(at)}
	records := withHead([]*slotwisev1.JournalRecord{{What: &slotwisev1.JournalRecord_RaftBase{RaftBase: base}}}, s.Records(at))
	return func() (*raftpb.Snapshot, error) {
		if err != nil {
			return nil, err
		}
		snap := &raftpb.Snapshot{Metadata: meta}
		for b, err := range records {
			if err != nil {
				return nil, err
			}
			snap.Data = appendRecord(snap.Data, b)
		}
		return snap, nil
	}
}

// OfferSnapshot makes a snapshot the one that followers get.
func (s *Store) OfferSnapshot(snap *raftpb.Snapshot) { s.snapshot = snap }

// CanInstall reports whether Install may be called: no replacement is under way.
func (s *Store) CanInstall() bool { return !s.log.compacting }

// Install replaces the whole journal by a snapshot of the leader.
func (s *Store) Install(snap *raftpb.Snapshot) error {
	// Verified before anything is replaced: this is the only copy of the member's own journal.
	first, _, ok := nextRecord(snap.Data)
	own, err := ownRecord(first)
	if err != nil || !ok || own.GetRaftBase().GetIndex() != snap.GetMetadata().GetIndex() {
		return errors.New("journal: a snapshot of the leader does not begin with its index")
	}
	c, err := s.log.Begin()
	if err != nil {
		return err
	}
	// The snapshot was made by the leader, whose own id it must not bring along.
	own.GetRaftBase().Self = s.base.Self
	state := &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_RaftState{RaftState: &slotwisev1.RaftState{Term: s.state.term, Vote: s.state.vote}}}
	_, err = c.Write(withHead([]*slotwisev1.JournalRecord{own, state}, func(yield func([]byte, error) bool) {
		_, rest, _ := nextRecord(snap.Data)
		yieldData(rest, yield)
	}))
	s.log.End(c)
	if err != nil {
		return err
	}
	_ = c.Remove() // the next Open removes the other files
	// The snapshot replaces all files, so no overruled entry is left.
	s.overruled = false
	s.reset(own.GetRaftBase())
	return nil
}
