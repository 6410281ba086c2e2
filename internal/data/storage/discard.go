package storage

import (
	"context"
	"io"
)

// Discard is the Staging of a job without an output directory. It drops what the job's tasks
// write, and Commit publishes nothing.
type Discard struct{}

var _ Staging = Discard{}

// Create implements Staging.
func (Discard) Create(context.Context, string) (Writer, error) { return dropped{}, nil }

// Commit implements Staging.
func (Discard) Commit(context.Context) error { return nil }

// Abort implements Staging.
func (Discard) Abort(context.Context) error { return nil }

// dropped is a Writer that drops its bytes.
type dropped struct{}

// Write implements io.Writer.
func (dropped) Write(p []byte) (int, error) { return io.Discard.Write(p) }

// Commit implements Writer.
func (dropped) Commit() error { return nil }

// Discard implements Writer.
func (dropped) Discard() error { return nil }
