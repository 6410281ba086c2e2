package shuffle

import (
	"errors"
	"fmt"

	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage"
)

// Budget is a memory limit that outputs are charged to, such as a mem.Pool.
type Budget interface {
	TryGrow(n int64) bool
}

// MakeRoom charges n bytes to the budget, after writing outputs to disk if
// they do not fit. It reports false if they do not fit even so. It writes
// files, so a shell's event loop must not call it.
func (s *Store) MakeRoom(b Budget, n int64) (bool, error) {
	if b.TryGrow(n) {
		return true, nil
	}
	if _, err := s.Evict(n); err != nil {
		return false, err
	}
	return b.TryGrow(n), nil
}

// Evict writes outputs in memory to run files, the largest first and of equal
// ones the oldest, until so many bytes are free or none is left that could be
// freed at once: those being read stay. It returns how many bytes it freed.
func (s *Store) Evict(bytes int64) (freed int64, err error) {
	for freed < bytes {
		job, mapIndex, v := s.victim()
		if v == nil {
			break
		}
		n, err := s.evict(job, mapIndex, v)
		freed += n
		if err != nil {
			return freed, fmt.Errorf("writing the output of map %d to disk: %w", mapIndex, err)
		}
	}
	return freed, nil
}

// victim chooses the output to evict and takes a reference to it.
func (s *Store) victim() (job int32, mapIndex int, best *version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, st := range s.mu.jobs {
		for i, v := range st.outs {
			if v.bytes == 0 || v.evicting || v.refs > 1 {
				continue
			}
			if best == nil || v.bytes > best.bytes || v.bytes == best.bytes && v.seq < best.seq {
				job, mapIndex, best = id, i, v
			}
		}
	}
	if best != nil {
		best.evicting = true
		best.refs++
	}
	return job, mapIndex, best
}

// evict writes v, to which the caller has a reference, and puts the file in
// its place unless v has been withdrawn meanwhile.
func (s *Store) evict(job int32, mapIndex int, v *version) (freed int64, err error) {
	file, err := s.write(fmt.Sprintf("job%d-map%d", job, mapIndex), v)
	s.mu.Lock()
	var free []kv.Partitioned
	current := false
	if st := s.mu.jobs[job]; st != nil && st.outs[mapIndex] == v {
		current = true
		if err == nil {
			st.outs[mapIndex] = &version{out: file, refs: 1, seq: v.seq}
			free = append(free, v.unrefLocked())
		}
	}
	v.evicting = false
	last := v.unrefLocked()
	if last != nil {
		freed = v.bytes
	}
	s.mu.Unlock()
	if err == nil && !current {
		file.Release()
	}
	release(append(free, last)...)
	return freed, err
}

// write copies an output into a run file.
func (s *Store) write(name string, v *version) (*runfile.File, error) {
	if s.opts.Scratch == nil {
		return nil, errors.New("the store has no scratch space")
	}
	f, err := s.opts.Scratch.Create(name)
	if err != nil {
		return nil, err
	}
	file, err := s.writeTo(f, name, v)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return file, nil
}

func (s *Store) writeTo(f storage.ScratchFile, name string, v *version) (*runfile.File, error) {
	w := runfile.NewWriter(f, runfile.Options{Partitions: v.parts, Codec: s.opts.Codec, BlockSize: s.opts.BlockSize})
	for p := range v.parts {
		if n, _ := v.out.Size(p); n == 0 {
			continue
		}
		if err := copyPartition(w, v.out, p); err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return runfile.Open(f, w.Size(), name)
}

func copyPartition(w *runfile.Writer, out kv.Partitioned, p int) error {
	in, err := out.Partition(p)
	if err != nil {
		return err
	}
	for in.Next() {
		if err := w.Append(p, in.Key(), in.Value()); err != nil {
			return errors.Join(err, in.Close())
		}
	}
	return errors.Join(in.Err(), in.Close())
}
