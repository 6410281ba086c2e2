package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestMappedFileShrinks reads a block of a file that has lost it meanwhile.
func TestMappedFileShrinks(t *testing.T) {
	p := write(t, t.TempDir(), "a", bytes.Repeat([]byte("0123456\n"), 1<<17))
	splits, err := Plan(ctx, Options{Inputs: []string{p}})
	must(t, err)
	r, err := Open(ctx, nil, splits[0], Format{}, 0)
	must(t, err)
	r.MapFiles()
	_, err = r.NextBlock()
	must(t, err)
	must(t, os.Truncate(p, 1))
	fault := func() (p any) {
		defer func() { p = recover() }()
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		for err == nil {
			_, err = r.NextBlock()
		}
		return nil
	}()
	must(t, r.Close())
	got := r.Fault(fault)
	if !errors.Is(got, io.ErrUnexpectedEOF) || !strings.Contains(got.Error(), p+": it became shorter") {
		t.Errorf("%v, %v of panic %v", got, err, fault)
	}
	if err := r.Fault("another panic"); err != nil {
		t.Errorf("another panic is %v", err)
	}
}

// TestMappedBlocksAreCopies writes to a block, which must not change the file.
func TestMappedBlocksAreCopies(t *testing.T) {
	data := bytes.Repeat([]byte("0123456\n"), 1<<17)
	p := write(t, t.TempDir(), "a", data)
	splits, err := Plan(ctx, Options{Inputs: []string{p}})
	must(t, err)
	r, err := Open(ctx, nil, splits[0], Format{}, 0)
	must(t, err)
	r.MapFiles()
	block, err := r.NextBlock()
	must(t, err)
	if r.mapped.file == nil {
		t.Fatal("the file is not mapped")
	}
	block[0] = 'x'
	must(t, r.Close())
	if now, err := os.ReadFile(p); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the file has changed: %v", err)
	}
}
