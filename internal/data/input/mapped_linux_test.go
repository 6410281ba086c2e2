package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// unmappable is a file that cannot be mapped any more.
type unmappable struct{ storage.Mappable }

func (unmappable) Map(int64, int) ([]byte, error) { return nil, errors.New("no more mappings") }

// TestMappingFails reads the rest of a file that cannot be mapped to its end, or not at all.
func TestMappingFails(t *testing.T) {
	data := bytes.Repeat([]byte("0123456\n"), 1<<20)
	p := write(t, t.TempDir(), "a", data)
	for _, mapped := range []int{0, 1, 20} { // blocks
		splits, err := Plan(ctx, Options{Inputs: []string{p}, SplitSize: 7_000_003})
		must(t, err)
		var lines int64
		for _, s := range splits {
			r, err := Open(ctx, nil, s, Format{}, 0)
			must(t, err)
			r.MapFiles()
			must(t, r.openNext())
			for n := 0; ; n++ {
				if f := r.mapped.file; n >= mapped && f != nil {
					r.mapped.file = unmappable{f}
				}
				block, err := r.NextBlock()
				if err == io.EOF {
					break
				}
				must(t, err)
				lines += CountLines(block)
			}
		}
		if lines != 1<<20 || len(splits) != 2 {
			t.Errorf("%d mapped blocks: %d lines in %d splits, want %d", mapped, lines, len(splits), 1<<20)
		}
	}
}

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
