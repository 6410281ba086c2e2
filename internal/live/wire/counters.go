// Package wire converts values to the messages that master, workers, attempts and clients
// exchange, and back. Each value has one pair of functions here.
//
// The conversion of counters follows the table of package counters: each row names its
// field of the message. A new counter therefore needs no change here.
package wire

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/base/counters"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// fields returns the fields of the message, by counter. It finds them when they are first needed, because
// every command would pay the price.
var fields = sync.OnceValue(func() *counterFields {
	return bindFields((*slotwisev1.Counters)(nil).ProtoReflect().Descriptor())
})

// counterFields has the message's field of each counter.
type counterFields [counters.NumIDs]protoreflect.FieldDescriptor

// bindFields finds each counter's field. A missing one is a programming error,
// which a test of this package finds.
func bindFields(d protoreflect.MessageDescriptor) *counterFields {
	out := new(counterFields)
	for id, c := range counters.Table {
		f := d.Fields().ByName(protoreflect.Name(c.Field))
		if f == nil || f.Kind() != protoreflect.Int64Kind || f.IsList() {
			panic(fmt.Sprintf("message %s has no int64 field %q for the counter %q", d.FullName(), c.Field, c.Label))
		}
		out[id] = f
	}
	return out
}

// EncodeCounters returns the message for a Set. The names of user counters in a Set are UTF-8,
// which a message needs. The message shares nothing with s.
func EncodeCounters(s *counters.Set) *slotwisev1.Counters {
	m := &slotwisev1.Counters{}
	r, all := m.ProtoReflect(), fields()
	for c, n := range s.Each() {
		// 0 takes no bytes on the wire, and most counters of an attempt are 0.
		if n != 0 {
			r.Set(all[c.ID], protoreflect.ValueOfInt64(n))
		}
	}
	for name, n := range s.User() {
		if m.User == nil {
			m.User = make(map[string]int64)
		}
		m.User[name] = n
	}
	return m
}

// DecodeCounters returns the Set that a message holds. A nil message is an empty Set.
// The Set shares nothing with m.
func DecodeCounters(m *slotwisev1.Counters) counters.Set {
	var s counters.Set
	// Reflection costs some microseconds for each message. Counters travel with the end of an attempt and a few
	// reports, not with each record.
	r := m.ProtoReflect()
	for id, f := range fields() {
		s.Add(counters.ID(id), r.Get(f).Int())
	}
	// A Set bounds the number of names, so their order decides which ones it keeps.
	for _, name := range slices.Sorted(maps.Keys(m.GetUser())) {
		s.AddUser(name, m.GetUser()[name])
	}
	return s
}
