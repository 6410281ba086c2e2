package merge

import "github.com/slotwise/slotwise/internal/kv"

// single passes on the only stream and says which one it was when it fails.
type single struct {
	kv.Stream
	index int
}

// sameSingle is single for a stream that is a samer: an embedded interface
// would hide it.
type sameSingle struct {
	single
	samer
}

func newSingle(s kv.Stream, index int) kv.Stream {
	one := single{s, index}
	if sm, ok := s.(samer); ok {
		return &sameSingle{one, sm}
	}
	return &one
}

// Err returns a *StreamError if the stream failed.
func (s *single) Err() error {
	if err := s.Stream.Err(); err != nil {
		return &StreamError{s.index, err}
	}
	return nil
}

// Memory returns the stream's buffers.
func (s *single) Memory() int { return memoryOf(s.Stream) }

// Remaining returns what the stream holds.
func (s *single) Remaining() (records, bytes int64) { return remainingOf(s.Stream) }
