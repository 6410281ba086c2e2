package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/local"
	"github.com/slotwise/slotwise/internal/storage/schemes"
)

// checkInput refuses an input that does not exist before anything is started.
// What a glob matches is found out when the job is planned.
func checkInput(ctx context.Context, uri string) error {
	if strings.ContainsAny(uri, `*?[{`) {
		return nil
	}
	files, path, err := schemes.All().Resolve(uri)
	if err != nil {
		return misuse("--input: %w", err)
	}
	if _, err := files.Stat(ctx, path); err != nil {
		return misuse("--input %s: %w", uri, reason(err))
	}
	return nil
}

// checkMemory refuses a memory limit that tasks cannot work with.
func (f *runFlags) checkMemory() error {
	workers, maps, reduces := cmp.Or(f.workers, runtime.NumCPU()), cmp.Or(f.mapSlots, 1), cmp.Or(f.reduceSlots, 1)
	least := console.Size(local.MinMemory * workers * (maps + reduces))
	if f.memory != 0 && f.memory < least {
		return misuse("--memory %s: too little for %s of %d+%d slots; the least is %s",
			f.memory, console.Plural(workers, "worker"), maps, reduces, least)
	}
	return nil
}

// checkOutput refuses an output directory that something would be lost from:
// a chain of jobs would otherwise find out after hours.
func checkOutput(ctx context.Context, uri string, overwrite bool) error {
	files, path, err := schemes.All().Resolve(uri)
	if err != nil {
		return misuse("--output: %w", err)
	}
	info, err := files.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return misuse("--output %s: %w", uri, reason(err))
	case !info.Dir:
		return misuse("--output %s: is a file, not a directory", uri)
	case overwrite:
		return nil
	}
	entries, err := files.List(ctx, path)
	if err != nil {
		return misuse("--output %s: %w", uri, reason(err))
	}
	if len(entries) > 0 {
		return misuse("--output %s: exists and is not empty; --overwrite replaces it", uri)
	}
	return nil
}

// reason strips an error of the path, which the caller names already.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
