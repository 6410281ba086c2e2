package merge

import "github.com/slotwise/slotwise/internal/data/kv"

// single is a merge of one stream. It only adds the stream's index to errors.
type single struct {
	kv.Stream
	index int
}

// sameSingle is single for a stream that implements repeatDetector. The embedded
// kv.Stream of single would hide the method.
type sameSingle struct {
	single
	repeatDetector
}

// newSingle returns the merge of one stream. It keeps the stream's knowledge of repeated keys.
func newSingle(s kv.Stream, index int) kv.Stream {
	one := single{s, index}
	if sm, ok := s.(repeatDetector); ok {
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

// Memory returns the size of the stream's buffers in bytes.
func (s *single) Memory() int { return memoryOf(s.Stream) }

// Remaining returns the number and size of the records that have not been read.
func (s *single) Remaining() (records, bytes int64) { return remainingOf(s.Stream) }
