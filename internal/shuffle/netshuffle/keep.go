package netshuffle

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage"
)

// holding is an output that is ours: in memory, in a scratch file or in the own
// worker's file.
type holding struct {
	section runfile.Section
	name    string
	mem     []byte
	spill   *spill
	base    int64 // of the section in spill
	run     *runfile.File
}

// open streams the records.
func (h *holding) open(part int) (kv.Stream, error) {
	switch {
	case h.run != nil:
		return h.run.Partition(part)
	case h.spill != nil:
		return h.section.Open(io.NewSectionReader(h.spill.file, h.base, h.section.Length), h.name), nil
	}
	return h.section.OpenBytes(h.mem, h.name)
}

// release closes a file of the own worker.
func (h *holding) release() {
	if h.run != nil {
		h.run.Release()
	}
}

// spill is a scratch file that takes one section after the other. Those of
// failed transfers remain as holes.
type spill struct {
	file storage.ScratchFile
	size int64
}

// keeper owns the memory and the files of a fetch. Memory is given out from
// the start of one region to its end and not taken back before the end, but
// that what was given out last may be returned.
type keeper struct {
	cfg      *Config
	received atomic.Int64
	mu       struct {
		sync.Mutex
		region *mem.Region // nil without memory
		used   int64
		files  int // of the own worker left open
		spills []*spill
	}
}

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

// room returns n bytes of memory, or nil if there are no more.
func (k *keeper) room(n int64) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.region == nil || n > k.cfg.Memory-k.mu.used || !k.mu.region.Grow(k.mu.used+n) {
		return nil
	}
	at := k.mu.used
	k.mu.used += n
	return k.mu.region.Bytes()[at : at+n : at+n]
}

// unroom takes back what room gave, if it was the last.
func (k *keeper) unroom(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.mu.used - int64(len(b)); len(b) > 0 && &k.mu.region.Bytes()[at] == &b[0] {
		k.mu.used = at
	}
}

// mayOpen counts one more open file of the own worker, if it may be.
func (k *keeper) mayOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.files >= k.cfg.OpenFiles {
		return false
	}
	k.mu.files++
	return true
}

// newSpill makes a scratch file.
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

// transfer moves one section to where it is kept, checking it on the way.
type transfer struct {
	g       *getter
	section runfile.Section
	check   *runfile.Verifier
	name    string
	got     int64
	mem     []byte // where it goes, or
	base    int64  // in the getter's spill
	direct  bool   // or nowhere: it stays where it is
}

func newTransfer(g *getter, name string, s runfile.Section) *transfer {
	t := &transfer{g: g, section: s, name: name, check: runfile.NewVerifier(s, name)}
	t.mem = g.f.keep.room(s.Length)
	return t
}

// take reads what is missing from r. An end that comes too soon is an error.
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
			b = b[t.got:min(t.got+copyBuffer, t.section.Length)]
		}
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

// put keeps the next bytes. Bytes that go to memory are there already.
func (t *transfer) put(b []byte) error {
	f := t.g.f
	f.keep.received.Add(int64(len(b)))
	f.moved.Store(f.clock())
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

func (t *transfer) spillOut(b []byte) error {
	g := t.g
	if g.spill == nil {
		s, err := g.f.keep.newSpill()
		if err != nil {
			return err
		}
		g.spill = s
	}
	if t.got == 0 {
		t.base = g.spill.size
	}
	n, err := g.spill.file.Write(b)
	g.spill.size += int64(n)
	return err
}

// end returns what is held now, or gives back its memory.
func (t *transfer) end(err error) (holding, error) {
	if err != nil {
		t.g.f.keep.unroom(t.mem)
		return holding{}, err
	}
	h := holding{section: t.section, name: t.name, mem: t.mem, base: t.base}
	if t.mem == nil && t.section.Length > 0 {
		h.spill = t.g.spill
	}
	return h, nil
}
