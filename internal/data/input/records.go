package input

import (
	"io"

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Records returns the records of a split of run files, file by file and partition by
// partition. Keys ascend within a partition only. File returns the file of the current
// record. Use the stream instead of NextBlock, and its Close instead of the Reader's.
func (r *Reader) Records() kv.Stream { return &records{r: r} }

// records implements kv.Stream over the run files of a split.
type records struct {
	r    *Reader
	run  *runfile.File // the current file; nil before the first
	part int           // the next partition of run
	cur  kv.Stream     // the current partition; nil between partitions
	err  error         // io.EOF after the last record
}

// Next implements kv.Stream.
func (s *records) Next() bool {
	// The loop passes empty partitions and files.
	for s.err == nil {
		if s.cur != nil {
			if s.cur.Next() {
				return true
			}
			if s.err = s.cur.Err(); s.err != nil {
				break
			}
		}
		s.err = s.advance()
	}
	if s.err != io.EOF {
		s.err = s.r.named(s.err)
	}
	return false
}

// advance begins the next partition or file. It returns io.EOF after the last one.
func (s *records) advance() error {
	if s.cur != nil {
		if err := s.cur.Close(); err != nil {
			return err
		}
		s.cur = nil
	}
	if s.run == nil || s.part == s.run.Partitions() {
		return s.open()
	}
	var err error
	s.cur, err = s.run.Partition(s.part)
	s.part++
	return err
}

// open opens the next file.
func (s *records) open() error {
	if s.run != nil {
		s.run.Release()
		s.run = nil
	}
	// The file before must have kept its content until its last record was read.
	if err := s.r.finish(); err != nil {
		return err
	}
	if err := s.r.openNext(); err != nil {
		return err
	}
	// runfile.File closes its source if the source has a Close method. counted has
	// none, so the Reader remains responsible for the file.
	run, err := runfile.Open(&counted{r: s.r}, s.r.piece.FileSize, s.r.piece.URI)
	s.run, s.part = run, 0
	return err
}

// release closes the current file.
func (s *records) release() error {
	if s.run != nil {
		s.run.Release()
		s.run = nil
	}
	return s.r.Close()
}

// Key implements kv.Stream.
func (s *records) Key() []byte { return s.cur.Key() }

// Value implements kv.Stream.
func (s *records) Value() []byte { return s.cur.Value() }

// Err implements kv.Stream.
func (s *records) Err() error {
	if s.err == io.EOF {
		return nil
	}
	return s.err
}

// Close implements kv.Stream.
func (s *records) Close() error {
	var err error
	if s.cur != nil {
		err, s.cur = s.cur.Close(), nil
	}
	if s.err == nil {
		s.err = io.EOF
	}
	if rerr := s.release(); err == nil {
		err = rerr
	}
	return err
}

// counted reads from the Reader's file and adds the bytes to the Reader's count.
type counted struct{ r *Reader }

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	// Reads of local files do not look at the context, and a decoder may read long before it returns a
	// record.
	if err := c.r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.file.ReadAt(p, off)
	c.r.read.Add(int64(n))
	return n, err
}
