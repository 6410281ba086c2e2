package merge

import (
	"bytes"
	"iter"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// Groups iterates over the groups of equal keys of a sorted stream. It allocates
// only a buffer for the longest key, nothing per group.
type Groups struct {
	s       kv.Stream
	same    func(a, b []byte) bool
	repeats repeatDetector // s if it implements it, else nil
	values  iter.Seq[[]byte]

	key    []byte // of the current group's first record
	ahead  bool   // s is on a record that has not been returned yet
	inside bool   // the next record to return may belong to the current group

	read  int64 // number of records
	watch func(read int64) error
	err   error // of watch
}

// watchEvery is the number of records between two calls of the watch function.
const watchEvery = 1024

// Watch makes Groups call f with the number of records read so far, every
// watchEvery records, also inside large groups. If f returns an error the
// iteration ends and Err returns that error.
func (g *Groups) Watch(f func(read int64) error) { g.watch = f }

// Records returns the number of records read so far.
func (g *Groups) Records() int64 { return g.read }

// NewGroups returns an iterator before the first group. A record belongs to the
// current group if same(first key of the group, key) is true; a nil same compares
// keys for equality. With same, a job can sort the values of a group: it sorts by
// the whole key and groups by a part of the key. The caller closes the stream.
func NewGroups(s kv.Stream, same func(a, b []byte) bool) *Groups {
	g := &Groups{s: s, same: same, key: make([]byte, 0, 32)} // so that an empty key is not nil
	g.repeats, _ = s.(repeatDetector)
	g.values = func(yield func([]byte) bool) {
		for g.nextValue() {
			if !yield(g.s.Value()) {
				return
			}
		}
	}
	return g
}

// Next skips the rest of the current group and moves to the next one.
func (g *Groups) Next() bool {
	// The reducer may have stopped early. Its unread values still belong to the group before.
	for g.nextValue() {
	}
	if !g.ahead && !g.advance() {
		return false
	}
	// A copy: the stream reuses its key's memory when it moves, and the group outlives its first
	// record.
	g.key = append(g.key[:0], g.s.Key()...)
	g.ahead, g.inside = true, true
	return true
}

// Key returns the key of the group's first record. It is valid until the next call
// of Next.
func (g *Groups) Key() []byte { return g.key }

// RecordKey returns the key of the record whose value was yielded last. It differs
// from Key only with a grouping function.
func (g *Groups) RecordKey() []byte { return g.s.Key() }

// Values yields the group's values, each valid until the next one is yielded. It is
// a single pass: a second loop continues where the first one stopped.
func (g *Groups) Values() iter.Seq[[]byte] { return g.values }

// Err returns the error of the stream or of the watch function.
func (g *Groups) Err() error {
	if g.err != nil {
		return g.err
	}
	return g.s.Err()
}

// advance moves the stream to its next record.
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

// nextValue moves the stream to the group's next record. It reports false at the
// end of the group.
func (g *Groups) nextValue() bool {
	if !g.inside {
		return false
	}
	if g.ahead { // the record that began the group
		g.ahead = false
		return true
	}
	if !g.advance() {
		// At the end of the stream: another call of nextValue must not advance it again.
		g.inside = false
		return false
	}
	if g.belongs() {
		return true
	}
	// The record stays in the stream for the next group. Streams cannot step back.
	g.ahead, g.inside = true, false
	return false
}

// belongs reports whether the stream's record is in the current group.
func (g *Groups) belongs() bool {
	// Equal to the record before, which belongs to the group. That holds for every grouping
	// function, too.
	if g.repeats != nil && g.repeats.Same() {
		return true
	}
	if g.same != nil {
		return g.same(g.key, g.s.Key())
	}
	return bytes.Equal(g.key, g.s.Key())
}
