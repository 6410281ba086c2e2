package input

import (
	"context"
	"errors"
	"io"

	"github.com/slotwise/slotwise/internal/storage"
)

// Decoded writes the decompressed content of a file to w.
func Decoded(ctx context.Context, fsys storage.FS, path string, w io.Writer) error {
	f, err := fsys.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := codecOf(f, path, Format{})
	if err != nil && !errors.Is(err, ErrUnreadable) { // fs -text prints other kinds of files unchanged
		return err
	}
	var r io.Reader = io.NewSectionReader(f, 0, f.Size())
	if c != nil {
		d, err := c.decode(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, d)
		return errors.Join(err, d.Close())
	}
	_, err = io.Copy(w, r)
	return err
}
