package mapreduce

import (
	"context"
	"errors"
	"io"

	"github.com/slotwise/slotwise/internal/feature"
	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage"
)

// Files reads records from files in the storage that a program can open.
type Files struct {
	schemes *storage.Schemes
}

// OpenFiles returns the Files of a program with the given features. Without
// features it reads local files.
func OpenFiles(features ...Feature) (*Files, error) {
	set, err := feature.Combine(features)
	if err != nil {
		return nil, err
	}
	return &Files{set.Schemes}, nil
}

// ReadRecords calls fn for each record of a file, a directory or a glob, in the
// order of the files' names. fn must not keep key or value. ReadRecords stops at
// the first error. It reads a job's output as well as any other input, and skips
// hidden files.
func (f *Files) ReadRecords(ctx context.Context, uri string, format Format, fn func(key, value []byte) error) error {
	in := format.input()
	splits, err := input.Plan(ctx, input.Options{Schemes: f.schemes, Inputs: []string{uri}, Format: in})
	if err != nil {
		return err
	}
	for _, s := range splits {
		if err := readSplit(ctx, f.schemes, s, in, fn); err != nil {
			return err
		}
	}
	return nil
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
	if f.Kind == input.Runs {
		return readStream(r.Records(), fn)
	}
	for {
		block, err := r.NextBlock()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
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
