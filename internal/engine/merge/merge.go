// Package merge joins sorted streams into one and walks through its groups of
// equal keys.
//
// The merge is a tree of losers over offset-value codes (see code.go): each
// record costs log2(k) comparisons of integers, whatever the keys have in
// common, and a record whose key is the previous one costs none. It is stable:
// records with equal keys come in the order of their streams, and of one
// stream in its own order.
package merge

import (
	"errors"
	"fmt"

	"github.com/slotwise/slotwise/internal/kv"
)

// The merge uses what a stream can tell beyond kv.Stream.
type (
	// prefixed streams know their key's first eight bytes, most significant
	// first and zero-padded, without touching the key.
	prefixed interface{ Prefix() uint64 }
	// samer streams know that a key is that of the record before. They may
	// say false of equal keys, never true of different ones.
	samer interface{ Same() bool }
	// buffered streams hold memory for reading while they are being read, at
	// most so many bytes. Others cost nothing: their records are in memory.
	buffered interface{ Memory() int }
	// sized streams know how many bytes they still hold.
	sized interface{ Remaining() (records, bytes int64) }
)

// StreamError says which of the merged streams failed.
type StreamError struct {
	Index int // in the slice given to New or MultiPass; -1 for an intermediate run
	Err   error
}

// Error is the stream's own message, which names the file.
func (e *StreamError) Error() string { return e.Err.Error() }

// Unwrap returns the stream's own error.
func (e *StreamError) Unwrap() error { return e.Err }

// ErrUnsorted is the cause of failure for a stream whose keys descend.
var ErrUnsorted = errors.New("stream is not in key order")

// Stream is a merge. Besides being a kv.Stream it knows, without comparing
// anything, whether a key is the previous record's: exactly, not as a hint.
type Stream struct {
	leaves []leaf
	tree   []match // tree[1:] are inner nodes; leaf i is the child len(leaves)+i
	win    *leaf   // whose record is current; nil before the first
	key    []byte
	same   bool
	began  bool
	err    error
}

var _ kv.Stream = (*Stream)(nil)

// match is the loser of a match: a leaf and its key's code relative to the
// key that won.
type match struct {
	code uint64
	leaf int32
}

// leaf is a stream and its current key.
type leaf struct {
	s     kv.Stream
	pre   prefixed // s, if it is
	same  samer    // s, if it is
	key   []byte
	col   uint64 // the key's first column
	prev  []byte // the rest of the previous key, kept while the stream moves on
	index int    // in the slice given to New
	at    int32  // in leaves
}

// New merges streams, which from now on belong to it: Close closes them.
// A nil stream counts as an empty one. Nothing is read before the first Next.
func New(streams []kv.Stream) kv.Stream {
	n := 0
	for _, s := range streams {
		if s != nil {
			n++
		}
	}
	if n == 1 {
		for i, s := range streams {
			if s != nil {
				return newSingle(s, i)
			}
		}
	}
	return newTree(streams, n)
}

func newTree(streams []kv.Stream, n int) *Stream {
	m := &Stream{leaves: make([]leaf, 0, n), tree: make([]match, n)}
	for i, s := range streams {
		if s == nil {
			continue
		}
		l := leaf{s: s, index: i, at: int32(len(m.leaves))}
		l.pre, _ = s.(prefixed)
		l.same, _ = s.(samer)
		m.leaves = append(m.leaves, l)
	}
	return m
}

// Next makes the smallest record that has not been seen the current one.
func (m *Stream) Next() bool {
	w := m.win
	if w == nil {
		return m.begin()
	}
	code := m.advance(w)
	if code == sameKey {
		// All others that have this key come later in the order of streams,
		// or it would not have been w's turn.
		m.key, m.same = w.key, true
		return true
	}
	tree, at := m.tree, w.at
	for n := (int(at) + len(tree)) >> 1; n > 0; n >>= 1 {
		t := &tree[n]
		if code < t.code {
			continue
		}
		if code == t.code {
			at, code = m.tie(t, at, code)
			continue
		}
		at, t.leaf = t.leaf, at
		code, t.code = t.code, code
	}
	return m.crown(at, code)
}

// crown makes the leaf that won every match the current one.
func (m *Stream) crown(at int32, code uint64) bool {
	if code == endCode || m.err != nil {
		m.stop()
		return false
	}
	m.win = &m.leaves[at]
	m.key, m.same = m.win.key, code == sameKey
	return true
}

// stop ends the stream for good.
func (m *Stream) stop() {
	m.win, m.key, m.same, m.began = nil, nil, false, true
}

// begin reads the first records and plays all matches. The codes are relative
// to a base below every key.
func (m *Stream) begin() bool {
	if m.began || len(m.leaves) == 0 {
		return false
	}
	m.began = true
	k := len(m.leaves)
	winners := make([]match, 2*k)
	for i := range m.leaves {
		l := &m.leaves[i]
		code := uint64(endCode)
		if m.pull(l) {
			l.key = l.s.Key()
			l.col = l.column()
			code = firstCol | l.col
		}
		winners[k+i] = match{code, int32(i)}
	}
	for n := k - 1; n > 0; n-- {
		w, t := winners[2*n], winners[2*n+1]
		switch {
		case w.code > t.code:
			w, t = t, w
		case w.code == t.code:
			w.leaf, w.code = m.tie(&t, w.leaf, w.code)
		}
		winners[n], m.tree[n] = w, t
	}
	return m.crown(winners[1].leaf, winners[1].code)
}

// pull moves a stream on and notes an error.
func (m *Stream) pull(l *leaf) bool {
	if l.s.Next() {
		return true
	}
	if err := l.s.Err(); err != nil && m.err == nil {
		m.err = &StreamError{l.index, err}
	}
	return false
}

func (l *leaf) column() uint64 {
	if l.pre == nil {
		return column(prefix(l.key), len(l.key))
	}
	return column(l.pre.Prefix(), len(l.key))
}

// advance moves the winner's stream on and returns the code of its new key
// relative to the old one, the key that was output last.
func (m *Stream) advance(l *leaf) uint64 {
	if len(l.key) > colLen {
		l.prev = append(l.prev[:0], l.key[colLen:]...)
	} else {
		l.prev = l.prev[:0]
	}
	if !m.pull(l) {
		return endCode
	}
	l.key = l.s.Key()
	if l.same != nil && l.same.Same() {
		return sameKey
	}
	col := l.column()
	old := l.col
	l.col = col
	if col > old {
		return firstCol | col
	}
	if col < old {
		return m.unsorted(l)
	}
	if col&lenMask < colLen {
		return sameKey
	}
	return m.advanceTail(l)
}

// advanceTail is advance for keys whose first columns are full and equal.
func (m *Stream) advanceTail(l *leaf) uint64 {
	n, order := compareFrom(l.key[colLen:], l.prev, 0)
	switch {
	case order < 0:
		return m.unsorted(l)
	case order == 0:
		return sameKey
	}
	return codeAt(l.key, colLen+n)
}

func (m *Stream) unsorted(l *leaf) uint64 {
	if m.err == nil {
		m.err = &StreamError{l.index, fmt.Errorf("merging input %d: %w", l.index, ErrUnsorted)}
	}
	return endCode
}

// tie decides a match of equal codes by the bytes that they do not cover, and
// at last by the order of the streams. The loser stays in t.
func (m *Stream) tie(t *match, at int32, code uint64) (winner int32, winCode uint64) {
	loser := uint64(sameKey)
	first := at < t.leaf
	if code == endCode {
		return at, code
	}
	if code != sameKey {
		if known, all := settled(code); !all {
			a, b := m.leaves[at].key, m.leaves[t.leaf].key
			if n, order := compareFrom(a, b, known); order != 0 {
				first = order < 0
				last := b
				if !first {
					last = a
				}
				loser = codeAt(last, n)
			}
		}
	}
	if !first {
		at, t.leaf = t.leaf, at
	}
	t.code = loser
	return at, code
}

// Key returns the current key.
func (m *Stream) Key() []byte { return m.key }

// Value returns the current value.
func (m *Stream) Value() []byte {
	if m.win == nil {
		return nil
	}
	return m.win.s.Value()
}

// Same reports whether the current key is the previous record's.
func (m *Stream) Same() bool { return m.same }

// Err returns a *StreamError for the first stream that failed.
func (m *Stream) Err() error { return m.err }

// Close closes all streams.
func (m *Stream) Close() error {
	m.stop()
	var errs []error
	for i := range m.leaves {
		errs = append(errs, m.leaves[i].s.Close())
	}
	return errors.Join(errs...)
}

// Memory sums the streams' buffers.
func (m *Stream) Memory() int {
	n := 0
	for i := range m.leaves {
		n += memoryOf(m.leaves[i].s)
	}
	return n
}

// Remaining sums what the streams hold. It is meant for before the first Next.
func (m *Stream) Remaining() (records, bytes int64) {
	for i := range m.leaves {
		r, b := remainingOf(m.leaves[i].s)
		records, bytes = records+r, bytes+b
	}
	return records, bytes
}

func memoryOf(s kv.Stream) int {
	if b, ok := s.(buffered); ok {
		return b.Memory()
	}
	return 0
}

func remainingOf(s kv.Stream) (records, bytes int64) {
	if z, ok := s.(sized); ok {
		return z.Remaining()
	}
	return 0, 0
}
