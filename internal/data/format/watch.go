package format

import (
	"errors"
	"io"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// watched is a source that counts the bytes read, and notes whether reading it has failed. A format's error
// after such a failure says nothing about the file's content, so that another attempt may succeed.
//
// The distinction decides how a job ends. A fault of the content is permanent, and the job fails after one
// attempt with the file's name. A failed read is retried, also if the decoder has turned it into an error of
// its own.
type watched struct {
	Source
	bytes  int64
	failed bool
}

// watch returns a source with the content of src.
func watch(src *Source) *watched {
	w := &watched{Source: *src}
	// A nil interface must stay nil: formats distinguish File and Text by it, and a wrapper would hide that.
	if src.File != nil {
		w.File = watchedFile{src.File, w}
	}
	if src.Text != nil {
		w.Text = watchedText{src.Text, w}
	}
	if src.FirstLine != nil {
		w.FirstLine = func() ([]byte, error) {
			line, err := src.FirstLine()
			w.note(err)
			return line, err
		}
	}
	return w
}

// note notes an error of a read.
func (w *watched) note(err error) {
	// io.EOF is how ReaderAt reports a short last read, and so no failure.
	if err != nil && err != io.EOF {
		w.failed = true
	}
}

// watchedFile is the file of a watched source.
type watchedFile struct {
	io.ReaderAt
	w *watched
}

// ReadAt implements io.ReaderAt.
func (f watchedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, off)
	f.w.bytes += int64(n)
	f.w.note(err)
	return n, err
}

// watchedText is the text of a watched source.
type watchedText struct {
	io.Reader
	w *watched
}

// Read implements io.Reader.
func (t watchedText) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.w.bytes += int64(n)
	t.w.note(err)
	return n, err
}

// explain returns the error for a file that cannot be opened.
func (w *watched) explain(err error) error {
	if w.failed {
		return err
	}
	return retry.Permanent(explain(err))
}

// explain replaces the bare error for an early end.
func explain(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the file ends in its header: it is truncated")
	}
	return err
}
