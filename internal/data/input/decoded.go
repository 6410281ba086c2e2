package input

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Decoded writes the decompressed content of a file to w. Records of a SequenceFile, an
// Avro or a Parquet file are written as lines, without escapes.
func Decoded(ctx context.Context, fsys storage.FS, path string, w io.Writer) error {
	f, err := fsys.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	spec := &format.Spec{Name: format.Auto, Raw: true}
	c, err := contentOf(f, path, Format{}, spec)
	if err != nil && !errors.Is(err, ErrUnreadable) { // fs -text prints other kinds of files unchanged
		return err
	}
	var r io.Reader = io.NewSectionReader(f, 0, f.Size())
	if c.rows != nil || c.codec != nil {
		d, err := c.open(f, r, spec)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, err = io.Copy(w, d)
		return errors.Join(err, d.Close())
	}
	_, err = io.Copy(w, r)
	return err
}

// open returns the decoded content of a whole file.
func (c *content) open(f storage.File, r io.Reader, spec *format.Spec) (io.ReadCloser, error) {
	if c.codec != nil {
		return c.codec.decode(r)
	}
	return format.Open(&format.Source{File: f, Size: f.Size(), To: f.Size(), Decompress: decompress}, spec.As(c.rows.Name))
}
