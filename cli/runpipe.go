package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/mapreduce"
)

// standard is the name of standard input among the inputs, and of standard output.
const standard = "-"

// maxSpool bounds the copy of standard input in bytes. A stream that never ends must not
// fill the disk.
const maxSpool = 64 << 30

// spooled is the directory with the copy of standard input; nil if the job does not read standard
// input. The copy may be as large as the input, so it is in --temp-dir, which users point to a
// large disk.
type spooled struct{ temp *storage.DirScratch }

// close removes the copy.
func (s *spooled) close() {
	if s != nil {
		s.temp.Close()
	}
}

// spoolInput copies standard input to a file and replaces the input "-" by that file. The copy is
// needed because a split is read again when its attempt fails or gets a speculative copy, and
// because the size of splits follows from the size of the input. The caller closes the copy.
func (f *runFlags) spoolInput(c *cobra.Command, o *mapreduce.Options) (_ *spooled, err error) {
	at := -1
	for i, in := range o.Inputs {
		switch {
		case in != standard:
		case at >= 0:
			return nil, misuse("--input -: given twice; standard input can be read once")
		default:
			at = i
		}
	}
	if at < 0 {
		return nil, nil
	}
	// A scratch directory has a lock: if this process is killed, the next one sweeps the copy away.
	temp, err := storage.NewDirScratch(f.tempDir)
	if err != nil {
		return nil, err
	}
	s := &spooled{temp}
	path := filepath.Join(temp.Dir(), "stdin")
	if err := spool(c.Context(), c.InOrStdin(), path); err != nil {
		s.close()
		return nil, fmt.Errorf("--input -: %w", err)
	}
	o.Inputs[at] = path
	return s, nil
}

// spool copies a stream to a new file. An interrupt ends it at once, although a read from a
// terminal or a pipe cannot be interrupted: the goroutine that reads stays until the end of the
// process.
func spool(ctx context.Context, r io.Reader, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		// One byte more than allowed tells a stream that is too long from one that just fits.
		n, err := io.Copy(file, io.LimitReader(r, maxSpool+1))
		if err == nil && n > maxSpool {
			err = misuse("more than %d GiB: write them to a file first", maxSpool>>30)
		}
		done <- errors.Join(err, file.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkMerge returns an error if the file of --merge cannot be written. It comes before the job,
// whose result would be lost after hours.
func (f *runFlags) checkMerge() error {
	if f.output != "" {
		return misuse("--merge %s: excludes --output; the result is in one file", f.merge)
	}
	info, err := os.Stat(f.merge)
	switch {
	case err == nil && info.IsDir():
		return misuse("--merge %s: is a directory, and a file is needed", f.merge)
	case err == nil && !info.Mode().IsRegular():
		return misuse("--merge %s: is no regular file, and would be replaced by one; write it with --output - and a redirection", f.merge)
	case err == nil && !f.overwrite && !f.force:
		return misuse("--merge %s: exists; --overwrite replaces it", f.merge)
	}
	// The directory is not made: a misspelt one would hide the result.
	if _, err := os.Stat(filepath.Dir(f.merge)); err != nil {
		return misuse("--merge %s: %w", f.merge, reason(err))
	}
	return nil
}

// name returns the directory or file that the user finds the result in, or "".
func (p *runOutput) name() string {
	if p.temp == nil {
		return p.dir
	}
	return p.merge
}

// writeMerged copies the output files to the file of --merge, which gets its name when it is
// complete and on the disk. checkMerge has refused a file that exists, but it may exist by now:
// the job may have taken hours.
func (p *runOutput) writeMerged(overwrite bool) error {
	if err := writeFile(p.merge, 0o666, overwrite, p.print); err != nil {
		return fmt.Errorf("--merge %s: %w", p.merge, reason(err))
	}
	return nil
}
