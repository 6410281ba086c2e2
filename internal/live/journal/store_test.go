package journal_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestRemoved asks for the members that were removed by the entries up to an index, also by entries that are not
// committed yet.
func TestRemoved(t *testing.T) {
	base := &slotwisev1.RaftBase{Index: 1, Term: 1, Group: "g", Self: 7, Members: []*slotwisev1.Member{{Id: 7}, {Id: 8}, {Id: 9}}}
	s, err := journal.OpenStore("j", journal.Options{FS: faultfs.NewDisk()}, base)
	if err != nil {
		t.Fatal(err)
	}
	var entries []*raftpb.Entry
	for i, c := range []*raftpb.ConfChange{
		{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(8))},
		{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(10))},
		{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(9))},
	} {
		data, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, &raftpb.Entry{Term: new(uint64(1)), Index: new(uint64(2 + i)), Type: raftpb.EntryConfChange.Enum(), Data: data})
	}
	if err := s.Save(nil, entries); err != nil {
		t.Fatal(err)
	}
	for index, want := range map[uint64][]uint64{1: nil, 2: {8}, 3: {8}, 4: {8, 9}} {
		if got := s.Removed(index); !slices.Equal(got, want) {
			t.Errorf("after entry %d the members %v are removed, want %v", index, got, want)
		}
	}
}

// TestEarlierChanges reads changes of the membership as raft 3.6 has encoded them: with all fields, also those
// that are zero.
func TestEarlierChanges(t *testing.T) {
	s, err := journal.OpenStore("j", journal.Options{FS: faultfs.NewDisk()}, &slotwisev1.RaftBase{Index: 1, Term: 1, Group: "g", Members: []*slotwisev1.Member{{Id: 300}}})
	if err != nil {
		t.Fatal(err)
	}
	var entries []*raftpb.Entry
	for i, data := range []string{"\b\x00\x10\x03\x18\t\"\x06a:7077", "\b\x00\x10\x00\x18\t", "\b\x00\x10\x01\x18\xac\x02"} {
		entries = append(entries, &raftpb.Entry{Term: new(uint64(1)), Index: new(uint64(2 + i)), Type: raftpb.EntryConfChange.Enum(), Data: []byte(data)})
	}
	if err := s.Save(nil, entries); err != nil {
		t.Fatal(err)
	}
	learner := &slotwisev1.Member{Id: 9, Address: "a:7077", Learner: true}
	for index, want := range map[uint64][]*slotwisev1.Member{1: {{Id: 300}}, 2: {learner, {Id: 300}}, 3: {{Id: 9}, {Id: 300}}, 4: {{Id: 9}}} {
		if diff := cmp.Diff(want, s.Members(index), protocmp.Transform()); diff != "" {
			t.Errorf("after entry %d: %s", index, diff)
		}
	}
	if got := s.Removed(4); !slices.Equal(got, []uint64{300}) {
		t.Errorf("removed: %v", got)
	}
}

// TestReadWhileReplaced reads the log between the end of a snapshot's writing, in another goroutine, and the moment in
// which the owner hears of its end. A member that is elected then restores its core from the log.
func TestReadWhileReplaced(t *testing.T) {
	s, err := journal.OpenStore("j", journal.Options{FS: faultfs.NewDisk()}, &slotwisev1.RaftBase{Index: 1, Term: 1, Members: []*slotwisev1.Member{{Id: 1}, {Id: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	position, err := proto.Marshal(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Position{Position: &slotwisev1.JournalPosition{Now: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(index uint64, rec []byte) *raftpb.Entry {
		return &raftpb.Entry{Term: new(uint64(1)), Index: new(index), Type: raftpb.EntryNormal.Enum(), Data: journal.AppendRecord(nil, rec)}
	}
	if err := s.Save(nil, []*raftpb.Entry{entry(2, []byte("a")), entry(3, position), entry(4, []byte("b"))}); err != nil {
		t.Fatal(err)
	}
	s.Commit(4)
	records := func() (list []string) {
		for b, err := range s.Records(4) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(b))
		}
		return list
	}
	before := records()
	c := s.Replaceable()
	if _, err := c.Write(one("snapshot")); err != nil {
		t.Fatal(err)
	}
	if got := records(); !slices.Equal(got, before) || len(got) != 3 {
		t.Errorf("before End: %q, want %q", got, before)
	}
	s.End(c)
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
	if got := records(); !slices.Equal(got, []string{"snapshot", "b"}) {
		t.Errorf("after End: %q", got)
	}
}
