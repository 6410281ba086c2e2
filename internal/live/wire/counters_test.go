package wire

import (
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/counters"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Every field of the message but user has a row of the table, so that nothing
// that a process sends is dropped.
func TestFieldsHaveRows(t *testing.T) {
	rows := map[string]bool{"user": true}
	for _, c := range counters.Table {
		rows[c.Field] = true
	}
	all := (*slotwisev1.Counters)(nil).ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		if name := string(all.Get(i).Name()); !rows[name] {
			t.Errorf("field %s of the message is no counter in the table", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	var s counters.Set
	for id := range counters.NumIDs {
		s.Add(id, int64(id)*10-5)
	}
	s.AddUser("words", 7)
	s.AddUser("none", 0)
	wire, err := proto.Marshal(EncodeCounters(&s))
	if err != nil {
		t.Fatal(err)
	}
	var m slotwisev1.Counters
	if err := proto.Unmarshal(wire, &m); err != nil {
		t.Fatal(err)
	}
	if got := DecodeCounters(&m); !got.Equal(&s) {
		t.Errorf("sent %v, received %v", s, got)
	}
	if got := DecodeCounters(nil); !got.Equal(&counters.Set{}) {
		t.Errorf("no message gives %v", got)
	}
}

// The message is the one that was sent before there was a table.
func TestEncode(t *testing.T) {
	var s counters.Set
	s.Add(counters.InputRecords, 1)
	s.Add(counters.CPU, 2)
	s.Add(counters.BytesRead, 3)
	s.AddUser("a\xffb", 4)
	s.AddUser("a\xfeb", 5)
	want := &slotwisev1.Counters{InputRecords: 1, CpuNs: 2, BytesRead: 3, User: map[string]int64{"a\uFFFDb": 9}}
	if got := EncodeCounters(&s); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Decode must not depend on the order in which Go walks the message's map.
func TestDecodeIsDeterministic(t *testing.T) {
	user := map[string]int64{}
	for i := range 2 * bounds.Counters {
		user[string(rune('a'+i%26))+string(rune(0x4e00+i))] = int64(i)
	}
	want := DecodeCounters(&slotwisev1.Counters{User: user})
	for range 5 {
		if got := DecodeCounters(&slotwisev1.Counters{User: maps.Clone(user)}); !got.Equal(&want) {
			t.Fatal("the same message gave two different Sets")
		}
	}
}
