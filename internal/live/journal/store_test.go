package journal_test

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

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
	var entries []raftpb.Entry
	for i, c := range []raftpb.ConfChange{
		{Type: raftpb.ConfChangeRemoveNode, NodeID: 8},
		{Type: raftpb.ConfChangeAddLearnerNode, NodeID: 10},
		{Type: raftpb.ConfChangeRemoveNode, NodeID: 9},
	} {
		data, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, raftpb.Entry{Term: 1, Index: uint64(2 + i), Type: raftpb.EntryConfChange, Data: data})
	}
	if err := s.Save(raftpb.HardState{}, entries); err != nil {
		t.Fatal(err)
	}
	for index, want := range map[uint64][]uint64{1: nil, 2: {8}, 3: {8}, 4: {8, 9}} {
		if got := s.Removed(index); !slices.Equal(got, want) {
			t.Errorf("after entry %d the members %v are removed, want %v", index, got, want)
		}
	}
}
