package mapreduce

import (
	"context"
	"errors"
	"io"

	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage/schemes"
)

// ReadRecords calls fn for each record of files, directories or globs, in the
// order of the files' names; fn may not keep what it is given. It reads what a
// job has written as well as any other input, and skips hidden files.
func ReadRecords(ctx context.Context, uri string, f Format, fn func(key, value []byte) error) error {
	if err := schemes.Register(); err != nil {
		return err
	}
	format := f.input()
	splits, err := input.Plan(ctx, input.Options{Inputs: []string{uri}, Format: format})
	if err != nil {
		return err
	}
	for _, s := range splits {
		if err := readSplit(ctx, s, format, fn); err != nil {
			return err
		}
	}
	return nil
}

func readSplit(ctx context.Context, s input.Split, f input.Format, fn func(key, value []byte) error) error {
	r, err := input.Open(ctx, s, f, 0)
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
