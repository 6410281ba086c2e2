package merge

import (
	"bytes"
	"iter"

	"github.com/slotwise/slotwise/internal/kv"
)

// Groups walks through the groups of equal keys of a sorted stream. Nothing is
// allocated for a group beyond what the longest key needs.
type Groups struct {
	s      kv.Stream
	same   func(a, b []byte) bool
	samer  samer // s, if it is; knows sure equality without comparing
	values iter.Seq[[]byte]

	key    []byte // of the current group's first record
	ahead  bool   // s is on a record that no one has seen yet
	inside bool   // that record, or the next one if there is none, may be the group's

	read  int64 // records
	watch func(read int64) error
	err   error // of watch
}

// watchEvery is how many records are read between two calls of a watch.
const watchEvery = 1024

// Watch has f called every so often with the number of records read so far,
// within large groups too. An error of f ends the walk and is what Err returns.
func (g *Groups) Watch(f func(read int64) error) { g.watch = f }

// Records returns how many records have been read.
func (g *Groups) Records() int64 { return g.read }

// NewGroups returns an iterator before the first group. Records belong to one
// group while same(first key, key) holds; nil means that the keys are equal.
// With same a job sorts a group's values: it orders by the whole key and
// groups by a part of it. The stream remains the caller's to close.
func NewGroups(s kv.Stream, same func(a, b []byte) bool) *Groups {
	g := &Groups{s: s, same: same, key: make([]byte, 0, 32)} // an empty key is not a nil one
	g.samer, _ = s.(samer)
	g.values = func(yield func([]byte) bool) {
		for g.nextValue() {
			if !yield(g.s.Value()) {
				return
			}
		}
	}
	return g
}

// Next skips what is left of the current group and goes to the next.
func (g *Groups) Next() bool {
	for g.nextValue() {
	}
	if !g.ahead && !g.advance() {
		return false
	}
	g.key = append(g.key[:0], g.s.Key()...)
	g.ahead, g.inside = true, true
	return true
}

// Key is the key of the group's first record. It is valid until the next call
// of Next.
func (g *Groups) Key() []byte { return g.key }

// RecordKey is the key of the record whose value was yielded last. It differs
// from Key only if a grouping function was given.
func (g *Groups) RecordKey() []byte { return g.s.Key() }

// Values yields the group's values, each valid until the one after it. It is a
// single pass: a second loop goes on where the first one stopped.
func (g *Groups) Values() iter.Seq[[]byte] { return g.values }

// Err returns the error of the stream or of the watch.
func (g *Groups) Err() error {
	if g.err != nil {
		return g.err
	}
	return g.s.Err()
}

// advance puts the stream on its next record.
func (g *Groups) advance() bool {
	if g.err != nil || !g.s.Next() {
		return false
	}
	g.read++
	if g.read%watchEvery == 0 && g.watch != nil {
		g.err = g.watch(g.read)
	}
	return g.err == nil
}

// nextValue puts the stream on the group's next record, if there is one.
func (g *Groups) nextValue() bool {
	if !g.inside {
		return false
	}
	if g.ahead { // the first record, whose key made the group
		g.ahead = false
		return true
	}
	if !g.advance() {
		g.inside = false
		return false
	}
	if g.belongs() {
		return true
	}
	g.ahead, g.inside = true, false
	return false
}

func (g *Groups) belongs() bool {
	if g.samer != nil && g.samer.Same() {
		return true
	}
	if g.same != nil {
		return g.same(g.key, g.s.Key())
	}
	return bytes.Equal(g.key, g.s.Key())
}
