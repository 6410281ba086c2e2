package netshuffle

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// fetchedOutput is a fetched output: in memory, in a scratch file, or in a file of the
// local worker.
type fetchedOutput struct {
	section runfile.Section
	name    string
	mem     []byte
	spill   *spill
	base    int64 // offset of the section in spill
	run     *runfile.File
}

// open returns a stream of the records.
func (h *fetchedOutput) open(part int) (kv.Stream, error) {
	switch {
	case h.run != nil:
		return h.run.Partition(part)
	case h.spill != nil:
		return h.section.Open(io.NewSectionReader(h.spill.file, h.base, h.section.Length), h.name), nil
	}
	return h.section.OpenBytes(h.mem, h.name)
}

// release closes a file of the local worker.
func (h *fetchedOutput) release() {
	if h.run != nil {
		h.run.Release()
	}
}

// spill is a scratch file to which sections are appended. Sections of failed transfers
// stay in it as unused bytes.
type spill struct {
	file storage.ScratchFile
	size int64
}

// keeper owns the memory and the files of a Fetch. It allocates memory from the start
// of one region to its end. Only the latest allocation can be returned; close
// releases all.
type keeper struct {
	cfg      *Config
	received atomic.Int64
	mu       struct {
		sync.Mutex
		region *mem.Region // nil if Config.Memory is 0
		used   int64
		files  int // open files of the local worker
		spills []*spill
	}
}

// newKeeper reserves the region.
func newKeeper(cfg *Config) (*keeper, error) {
	k := &keeper{cfg: cfg}
	if cfg.Memory > 0 {
		region, err := mem.Reserve(cfg.Pool, cfg.Memory)
		if err != nil {
			return nil, fmt.Errorf("memory for the shuffle: %w", err)
		}
		k.mu.region = region
	}
	return k, nil
}

// allocate returns n bytes of memory, or nil if the region is full.
func (k *keeper) allocate(n int64) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The Pool may be full although the region is not: it also serves the reduce's other buffers. The
	// output then goes to a scratch file.
	if k.mu.region == nil || n > k.cfg.Memory-k.mu.used || !k.mu.region.Grow(k.mu.used+n) {
		return nil
	}
	at := k.mu.used
	k.mu.used += n
	// The capacity ends with the allocation, so no append can reach the bytes of another transfer.
	return k.mu.region.Bytes()[at : at+n : at+n]
}

// unallocate returns the latest allocation; it ignores others.
func (k *keeper) unallocate(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Other transfers may have allocated since. Then these bytes stay unused until close, because the
	// region is used in one direction.
	if at := k.mu.used - int64(len(b)); len(b) > 0 && &k.mu.region.Bytes()[at] == &b[0] {
		k.mu.used = at
	}
}

// mayOpen reports whether one more file of the local worker may stay open, and counts
// it. A file that is closed before the Fetch ends must be taken from the count (closed).
func (k *keeper) mayOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.files >= k.cfg.OpenFiles {
		return false
	}
	k.mu.files++
	return true
}

// closed gives back the count of mayOpen for a file that was closed.
func (k *keeper) closed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.files--
}

// newSpill creates a scratch file.
func (k *keeper) newSpill() (*spill, error) {
	file, err := k.cfg.Scratch.Create(fmt.Sprintf("shuffle-%s-%d", k.cfg.Job, k.cfg.Part))
	if err != nil {
		return nil, err
	}
	s := &spill{file: file}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.spills = append(k.mu.spills, s)
	return s, nil
}

// close releases the memory and removes the scratch files.
func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, s := range k.mu.spills {
		errs = append(errs, s.file.Close())
	}
	if k.mu.region != nil {
		k.mu.region.Release()
	}
	return errors.Join(errs...)
}

// transfer stores one section and verifies its checksums as the bytes arrive. The
// destination is mem, the getter's spill at base, or, for a local file, none.
type transfer struct {
	g       *getter
	section runfile.Section
	check   *runfile.Verifier
	name    string
	got     int64
	mem     []byte // destination in memory, or nil
	base    int64  // offset in the getter's spill
	direct  bool   // the section stays in its file and is only verified
}

// newTransfer chooses the destination of a section.
func newTransfer(g *getter, name string, s runfile.Section) *transfer {
	t := &transfer{g: g, section: s, name: name, check: runfile.NewVerifier(s, name)}
	t.mem = g.f.keep.allocate(s.Length)
	return t
}

// take reads the missing bytes from r. It returns io.ErrUnexpectedEOF if r ends early.
func (t *transfer) take(r io.Reader) error {
	for t.got < t.section.Length {
		left := t.section.Length - t.got
		b := t.mem
		if b == nil {
			if t.g.buf == nil {
				t.g.buf = make([]byte, copyBuffer)
			}
			b = t.g.buf[:min(left, copyBuffer)]
		} else {
			// In pieces, so that progress is recorded and checksums are verified while a large output
			// arrives.
			b = b[t.got:min(t.got+copyBuffer, t.section.Length)]
		}
		// Bytes that come with an error are kept, so a resumed transfer begins behind them.
		n, err := r.Read(b)
		if n > 0 {
			if err := t.put(b[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF && t.got < t.section.Length {
			return io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return t.check.Finish()
}

// put stores the next bytes. Bytes for memory have been read into place already.
func (t *transfer) put(b []byte) error {
	f := t.g.f
	f.keep.received.Add(int64(len(b)))
	// Each byte counts for Patience, even one that turns out damaged: the worker is sending.
	f.progressAt.Store(f.clock())
	// Before the bytes are stored: damage ends the transfer, and got counts verified bytes only.
	if _, err := t.check.Write(b); err != nil {
		return err
	}
	if t.mem == nil && !t.direct {
		if err := t.spillOut(b); err != nil {
			return &localError{err}
		}
	}
	t.got += int64(len(b))
	return nil
}

// spillOut appends bytes to the getter's spill.
func (t *transfer) spillOut(b []byte) error {
	g := t.g
	if g.spill == nil {
		s, err := g.f.keep.newSpill()
		if err != nil {
			return err
		}
		g.spill = s
	}
	// A getter fetches one output at a time, so the sections of its spill do not mix.
	if t.got == 0 {
		t.base = g.spill.size
	}
	n, err := g.spill.file.Write(b)
	// After a short write, too: the next section begins behind the bytes that were written.
	g.spill.size += int64(n)
	return err
}

// end returns the fetched output, or returns its memory to the keeper after an error.
func (t *transfer) end(err error) (fetchedOutput, error) {
	if err != nil {
		t.g.f.keep.unallocate(t.mem)
		return fetchedOutput{}, err
	}
	h := fetchedOutput{section: t.section, name: t.name, mem: t.mem, base: t.base}
	// An empty section has no destination, and maybe the getter no spill.
	if t.mem == nil && t.section.Length > 0 {
		h.spill = t.g.spill
	}
	return h, nil
}
