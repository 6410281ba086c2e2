package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// Files reads records from files in the storage that a program can open.
type Files struct {
	schemes *storage.Schemes
	outages feature.Outages // for storage that is unavailable
}

// OpenFiles returns the Files of a program with the given features. Without
// features it reads local files.
func OpenFiles(features ...Feature) (*Files, error) {
	set, err := feature.Combine(features)
	if err != nil {
		return nil, err
	}
	return &Files{set.Schemes, feature.Outages{Storage: feature.DefaultStorageWait}}, nil
}

// ReadRecords calls fn for each record of a file, a directory or a glob, in the
// order of the files' names. fn must not keep key or value. ReadRecords stops at
// the first error. It reads a job's output as well as any other input, and skips
// hidden files. While the storage is unavailable it waits, as a job's planning does
// ([Options].StorageRetry).
func (f *Files) ReadRecords(ctx context.Context, uri string, format Format, fn func(key, value []byte) error) error {
	in := format.input()
	rows, err := (&Source{Input: format}).rows(false, nil)
	if err != nil {
		return err
	}
	wait := f.outages.ForStorage("the storage of " + uri)
	splits, err := retry.Do(ctx, wait, func(ctx context.Context) ([]input.Split, error) {
		return input.Plan(ctx, input.Options{Schemes: f.schemes, Inputs: []string{uri}, Format: in, Rows: rows})
	})
	if err != nil {
		return err
	}
	wait.Notify = nil // fn may take long, and a call of retry.Do includes its calls
	// Split by split, so that an outage in the middle repeats the reading of one split only.
	for _, s := range splits {
		once := &onceEach{fn: fn}
		// A try that came further starts the patience anew: a file of hours must survive several short
		// outages.
		wait.Progressed = once.progressed
		_, err := retry.Do(ctx, wait, func(ctx context.Context) (struct{}, error) {
			// Another try reads the split from its start. once counts, and leaves out the records that
			// fn had already.
			once.seen = 0
			err := readSplit(ctx, f.schemes, s, in, once.record)
			if once.failed != nil {
				return struct{}{}, nil // an error of fn is final
			}
			return struct{}{}, err
		})
		if err = cmp.Or(once.failed, err); err != nil {
			return err
		}
	}
	return nil
}

// onceEach calls fn for each record of a split once, if the split is read again after
// an error.
type onceEach struct {
	fn          func(key, value []byte) error
	given, seen int   // records that fn was called for; records of this try
	before      int   // given at the last call of progressed
	failed      error // of fn
}

// record takes in the next record of a try.
func (o *onceEach) record(key, value []byte) error {
	if o.seen++; o.seen <= o.given {
		return nil
	}
	o.given++
	o.failed = o.fn(key, value)
	return o.failed
}

// progressed reports whether fn was called since the last call of progressed.
func (o *onceEach) progressed() bool {
	more := o.given > o.before
	o.before = o.given
	return more
}

// ReadRecords is [Files.ReadRecords] for a program with the given features.
func ReadRecords(ctx context.Context, uri string, format Format, fn func(key, value []byte) error, features ...Feature) error {
	files, err := OpenFiles(features...)
	if err != nil {
		return err
	}
	return files.ReadRecords(ctx, uri, format, fn)
}

func readSplit(ctx context.Context, schemes *storage.Schemes, s input.Split, f input.Format, fn func(key, value []byte) error) error {
	r, err := input.Open(ctx, schemes, s, f, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	// Runs are streams of records and have no blocks of text.
	if f.Kind == input.Runs {
		return readStream(r.Records(), fn)
	}
	for {
		block, err := r.NextBlock()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && block != nil {
			err = f.Each(block, r.File(), fn)
		}
		if err != nil {
			return err
		}
	}
}

func readStream(s kv.Stream, fn func(key, value []byte) error) error {
	defer s.Close()
	for s.Next() {
		if err := fn(s.Key(), s.Value()); err != nil {
			return err
		}
	}
	return s.Err()
}
