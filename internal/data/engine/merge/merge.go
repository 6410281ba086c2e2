// Package merge merges sorted streams into one and iterates over groups of equal
// keys.
//
// The merge is a tree of losers over offset-value codes (see code.go). With k
// streams, a record costs log2(k) comparisons of integers, however long the common
// prefixes of the keys are. A record with the same key as the one before it costs
// no comparison. The merge is stable: records with equal keys keep the order of
// their streams, and within a stream its order.
package merge

import (
	"errors"
	"fmt"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// Streams may implement these interfaces besides kv.Stream to make merging faster.
type (
	// prefixed is a stream that returns the first eight bytes of the current key,
	// most significant first and zero-padded, without reading the key.
	prefixed interface{ Prefix() uint64 }
	// repeatDetector is a stream that knows, without comparing bytes, whether the
	// current key equals the previous one. False negatives are allowed, false
	// positives are not.
	repeatDetector interface{ Same() bool }
	// buffered is a stream that holds read buffers, of at most Memory bytes, while
	// it is being read. Streams without it have their records in memory.
	buffered interface{ Memory() int }
	// sized is a stream that knows the number and size of its unread records.
	sized interface{ Remaining() (records, bytes int64) }
)

// StreamError is the error of one of the merged streams.
type StreamError struct {
	Index int // in the slice given to New or MultiPass; -1 for an intermediate run
	Err   error
}

// Error returns the stream's own message, which names the file.
func (e *StreamError) Error() string { return e.Err.Error() }

// Unwrap returns the stream's own error.
func (e *StreamError) Unwrap() error { return e.Err }

// ErrUnsorted is the error of a stream whose keys are not in order.
var ErrUnsorted = errors.New("stream is not in key order")

// Stream is a merge of several streams. It implements kv.Stream and
// repeatDetector; its Same has no false negatives.
type Stream struct {
	leaves []leaf
	tree   []match // inner nodes in tree[1:]; leaf i is the child len(leaves)+i
	win    *leaf   // the leaf with the current record; nil before the first record
	key    []byte
	same   bool
	began  bool
	err    error
}

var _ kv.Stream = (*Stream)(nil)

// match is an inner node of the tree. It holds the loser of the match: the leaf,
// and the code of its key relative to the key that won.
type match struct {
	code uint64
	leaf int32
}

// leaf is a stream and its current key.
type leaf struct {
	s     kv.Stream
	pre   prefixed       // s if it implements it, else nil
	same  repeatDetector // s if it implements it, else nil
	key   []byte
	col   uint64 // the key's first column
	prev  []byte // a copy of the previous key without its first column
	index int    // in the slice given to New
	at    int32  // in leaves
}

// New returns the merge of streams and takes ownership: its Close closes
// the streams. A nil stream is treated as empty. Nothing is read before the first Next.
func New(streams []kv.Stream) kv.Stream {
	n := 0
	for _, s := range streams {
		if s != nil {
			n++
		}
	}
	if n == 1 {
		// One stream needs no codes. single keeps its number for errors.
		for i, s := range streams {
			if s != nil {
				return newSingle(s, i)
			}
		}
	}
	return newTree(streams, func(i int) int { return i })
}

// newTree returns the merge of streams; index gives the numbers of the streams in errors.
// The streams of a merge among them become streams of the new tree, so a record passes
// through one tree instead of two.
func newTree(streams []kv.Stream, index func(i int) int) *Stream {
	m := &Stream{}
	for i, s := range streams {
		switch s := s.(type) {
		case nil:
		case *Stream:
			// Its codes are relative to records that it has returned, so its leaves cannot start
			// again in another tree.
			if s.began {
				m.addLeaf(s, index(i))
				break
			}
			for _, l := range s.leaves {
				m.addLeaf(l.s, index(i))
			}
		default:
			m.addLeaf(s, index(i))
		}
	}
	m.tree = make([]match, len(m.leaves))
	return m
}

// addLeaf adds a stream, which the merge then owns. index is its number in errors.
func (m *Stream) addLeaf(s kv.Stream, index int) {
	l := leaf{s: s, index: index, at: int32(len(m.leaves))}
	l.pre, _ = s.(prefixed)
	l.same, _ = s.(repeatDetector)
	m.leaves = append(m.leaves, l)
}

// Next moves to the smallest record that has not been returned yet.
func (m *Stream) Next() bool {
	w := m.win
	if w == nil {
		return m.begin()
	}
	code := m.advance(w)
	if code == sameKey {
		// w has won with this key before, so all other streams with this key come
		// later in the order of streams.
		m.key, m.same = w.key, true
		return true
	}
	tree, at := m.tree, w.at
	for n := (int(at) + len(tree)) >> 1; n > 0; n >>= 1 {
		t := &tree[n]
		// Both codes are relative to the key that was returned last, so the smaller code has the
		// smaller key.
		if code < t.code {
			continue
		}
		if code == t.code {
			at, code = m.tie(t, at, code)
			continue
		}
		// By the rule in code.go the loser's code is already relative to the winner, so it stays as it
		// is.
		at, t.leaf = t.leaf, at
		code, t.code = t.code, code
	}
	return m.setWinner(at, code)
}

// setWinner makes the leaf that has won all matches the current one. It reports
// false at the end of all streams and after an error.
func (m *Stream) setWinner(at int32, code uint64) bool {
	// After an error the order is not known any more, so no record may follow it.
	if code == endCode || m.err != nil {
		m.stop()
		return false
	}
	m.win = &m.leaves[at]
	m.key, m.same = m.win.key, code == sameKey
	return true
}

// stop ends the merge. Next returns false from now on.
func (m *Stream) stop() {
	// began stays set: begin must not read the streams a second time.
	m.win, m.key, m.same, m.began = nil, nil, false, true
}

// begin reads the first record of each stream and plays all matches. Codes are
// relative to a base that is below every key.
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
		if m.nextRecord(l) {
			l.key = l.s.Key()
			l.col = l.column()
			code = firstCol | l.col
		}
		winners[k+i] = match{code, int32(i)}
	}
	// From the leaves upwards, so that both children of a node have been decided.
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
	return m.setWinner(winners[1].leaf, winners[1].code)
}

// nextRecord moves a leaf's stream to its next record. At the end it stores the
// stream's error, if any, and reports false.
func (m *Stream) nextRecord(l *leaf) bool {
	if l.s.Next() {
		return true
	}
	// The first error counts. Later ones may be its consequences, such as a closed connection.
	if err := l.s.Err(); err != nil && m.err == nil {
		m.err = &StreamError{l.index, err}
	}
	return false
}

// column returns the first column of the current key.
func (l *leaf) column() uint64 {
	if l.pre == nil {
		return column(prefix(l.key), len(l.key))
	}
	return column(l.pre.Prefix(), len(l.key))
}

// advance moves the winner's stream to its next record. It returns the code of the
// new key relative to the old one, which is the key that was returned last.
func (m *Stream) advance(l *leaf) uint64 {
	// The stream may overwrite the key when it moves. The first column is kept in l.col.
	if len(l.key) > colLen {
		l.prev = append(l.prev[:0], l.key[colLen:]...)
	} else {
		l.prev = l.prev[:0]
	}
	if !m.nextRecord(l) {
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
	// A smaller key would make all codes wrong, and the merge would lose the order without a sign.
	// It is the file's fault, so it is an error.
	if col < old {
		return m.unsorted(l)
	}
	// The whole key is in the column, so equal columns are equal keys.
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

// unsorted ends the merge with ErrUnsorted. The first error of a merge counts.
func (m *Stream) unsorted(l *leaf) uint64 {
	if m.err == nil {
		m.err = &StreamError{l.index, fmt.Errorf("merging input %d: %w", l.index, ErrUnsorted)}
	}
	return endCode
}

// tie decides a match between equal codes. It compares the bytes that the codes do
// not cover; equal keys are ordered by their streams. The loser stays in t.
func (m *Stream) tie(t *match, at int32, code uint64) (winner int32, winCode uint64) {
	// If the keys are equal, the loser is the same as the winner.
	loser := uint64(sameKey)
	// Equal keys are ordered by their streams, which makes the merge stable.
	first := at < t.leaf
	// Two streams that have ended have no keys to compare. Any order will do.
	if code == endCode {
		return at, code
	}
	if code != sameKey {
		// A code that covers the whole of both keys leaves nothing to compare: they are equal.
		if known, all := sharedBytes(code); !all {
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

// Same reports whether the current key equals the previous record's key.
func (m *Stream) Same() bool { return m.same }

// Err returns a *StreamError for the first stream that failed.
func (m *Stream) Err() error { return m.err }

// Close closes all streams.
func (m *Stream) Close() error {
	m.stop()
	// All streams are closed even if one fails; each may hold a file or a buffer.
	var errs []error
	for i := range m.leaves {
		errs = append(errs, m.leaves[i].s.Close())
	}
	return errors.Join(errs...)
}

// Memory returns the total size of the streams' buffers in bytes.
func (m *Stream) Memory() int {
	n := 0
	for i := range m.leaves {
		n += memoryOf(m.leaves[i].s)
	}
	return n
}

// Remaining returns the number and size of the unread records of all streams. It is
// exact only before the first Next.
func (m *Stream) Remaining() (records, bytes int64) {
	for i := range m.leaves {
		r, b := remainingOf(m.leaves[i].s)
		records, bytes = records+r, bytes+b
	}
	return records, bytes
}

// memoryOf returns the size of a stream's read buffers in bytes, 0 if its records are in memory.
func memoryOf(s kv.Stream) int {
	if b, ok := s.(buffered); ok {
		return b.Memory()
	}
	return 0
}

// remainingOf returns the unread records of a stream, 0 and 0 if it does not know them.
func remainingOf(s kv.Stream) (records, bytes int64) {
	if z, ok := s.(sized); ok {
		return z.Remaining()
	}
	return 0, 0
}
