package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/slotwise/slotwise/internal/data/format"
)

// TestPauses: a reader whose conditions drop all records returns nil blocks on the way, so its caller can
// report progress and stop. A line that is kept does not wait for the lines of a whole block.
func TestPauses(t *testing.T) {
	const records = 200_000
	var text bytes.Buffer
	text.WriteString("a,b\n")
	for i := range records {
		fmt.Fprintf(&text, "%d,text\n", i)
	}
	path := write(t, t.TempDir(), "big.csv", text.Bytes())
	open := func(ctx context.Context, where string) *Reader {
		t.Helper()
		choice := format.Choice{Format: "csv", Where: []string{where}}
		rows, err := choice.Spec()
		must(t, err)
		splits, err := Plan(ctx, Options{Inputs: []string{path}, Rows: rows})
		if err != nil || len(splits) != 1 {
			t.Fatal(len(splits), err)
		}
		r, err := Open(ctx, nil, splits[0], Format{}, 0)
		must(t, err)
		return r
	}
	r := open(t.Context(), "b=none")
	nothing, grown, read := 0, 0, int64(0)
	for {
		block, err := r.NextBlock()
		if err == io.EOF {
			break
		}
		must(t, err)
		if block != nil {
			t.Fatalf("a block: %q", block)
		}
		nothing++
		if n := r.BytesRead(); n > read {
			grown, read = grown+1, n
		}
	}
	if nothing < 100 || grown < 10 {
		t.Errorf("%d nil blocks, and the bytes read grew %d times", nothing, grown)
	}

	r = open(t.Context(), "a=5000")
	for {
		block, err := r.NextBlock()
		must(t, err)
		if block == nil {
			continue
		}
		if string(block) != "5000\ttext\n" || r.BytesRead() >= int64(text.Len())/2 {
			t.Errorf("block %q after %d of %d bytes", block, r.BytesRead(), text.Len())
		}
		break
	}
	must(t, r.Close())

	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	r = open(ctx, "b=none")
	if block, err := r.NextBlock(); block != nil || err != nil {
		t.Fatal(block, err)
	}
	cancel(stop)
	if _, err := r.NextBlock(); !errors.Is(err, stop) {
		t.Errorf("after a cancellation: %v", err)
	}
	must(t, r.Close())
}

// TestSchemaConditions: a condition of a schema on a column that no path has is an error, not ignored.
func TestSchemaConditions(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "p=1/a.csv", []byte("x\n1\n"))
	write(t, dir, "p=2/a.csv", []byte("x\n2\n"))
	for where, want := range map[string]int{"p=2": 1, "p=3": 0, "x=1": -1} {
		choice := format.Choice{Format: "csv", Where: []string{where}}
		rows, err := choice.Spec()
		must(t, err)
		s, err := ReadSchema(t.Context(), Options{Inputs: []string{dir}, Rows: rows})
		if (err != nil) != (want < 0) || err == nil && len(s.Files) != want {
			t.Errorf("%s: %+v, %v", where, s, err)
		}
	}
}
