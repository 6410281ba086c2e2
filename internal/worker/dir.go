package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A worker's directory:
//
//	lock              held by the living worker
//	name              the worker's name, if it was not given one
//	origin            a random mark that all its attempts carry
//	master            of whose jobs outputs are
//	attempts/ID/      of running attempts: work/, scratch files, output.run
//	outputs/JOB/ID.run finished map outputs
//	logs/ID.log       and ID.log.old, the part before
//	files/SHA256      executables and shipped files
type home struct {
	path   string
	lock   *os.File
	name   string
	origin string
}

// originVar carries the mark of the worker's directory to all processes of its
// attempts, by which the next worker there finds what a crash has left.
const originVar = "SLOTWISE_ORIGIN"

// openHome makes and locks the directory and clears what an earlier life left
// unfinished: processes, scratch files.
func openHome(dir, name string) (*home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	h := &home{path: abs, name: name}
	for _, d := range []string{h.attempts(), h.outputs(), h.logs(), h.files()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("worker directory %s: %w", dir, err)
		}
	}
	if h.lock, err = lockFile(filepath.Join(abs, "lock")); err != nil {
		return nil, fmt.Errorf("worker directory %s: %w", dir, err)
	}
	if h.name == "" {
		h.name, err = kept(filepath.Join(abs, "name"), "w-"+strings.ToLower(rand.Text()[:8]))
	}
	if err == nil {
		h.origin, err = kept(filepath.Join(abs, "origin"), rand.Text())
	}
	if err == nil && !goodName.MatchString(h.name) {
		err = fmt.Errorf("%s: bad name %q", filepath.Join(abs, "name"), h.name)
	}
	if err == nil {
		err = h.sweep()
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

func (h *home) attempts() string { return filepath.Join(h.path, "attempts") }
func (h *home) outputs() string  { return filepath.Join(h.path, "outputs") }
func (h *home) logs() string     { return filepath.Join(h.path, "logs") }
func (h *home) files() string    { return filepath.Join(h.path, "files") }

// attempt is the directory of a running attempt.
func (h *home) attempt(id job.AttemptID) string { return filepath.Join(h.attempts(), id.String()) }

// output is where a finished map's output lies.
func (h *home) output(id job.AttemptID) string {
	return filepath.Join(h.outputs(), id.Job.String(), id.String()+".run")
}

// kept reads a one-line file, which is made with fresh in it if it is missing.
func kept(path, fresh string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, writeWhole(path, fresh)
	}
	return strings.TrimSpace(string(b)), err
}

// writeWhole writes a one-line file so that a reader sees the old or the new.
func writeWhole(path, line string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(line+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// sweep ends processes of an earlier life and removes its attempts' files.
// Since the lock is ours, whoever bears our mark is a leftover.
func (h *home) sweep() error {
	for range 10 { // what is killed may just have started another
		n := 0
		for _, p := range proctree.Marked(originVar + "=" + h.origin) {
			if p.PID != os.Getpid() && proctree.End(p) {
				n++
			}
		}
		if n == 0 {
			break
		}
	}
	return errors.Join(removeAll(h.attempts()), removeTemp(h.files()), removeEmpty(h.outputs()))
}

// removeEmpty removes what is empty in a directory of directories.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		_ = os.Remove(filepath.Join(dir, e.Name())) // fails if it is not
	}
	return err
}

// removeAll empties a directory.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// held lists the map outputs that an earlier life has finished, and removes
// what is none or is damaged.
func (h *home) held() ([]*slotwisev1.HeldOutput, error) {
	var out []*slotwisev1.HeldOutput
	jobs, err := os.ReadDir(h.outputs())
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		files, err := os.ReadDir(filepath.Join(h.outputs(), j.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			path := filepath.Join(h.outputs(), j.Name(), f.Name())
			name := strings.TrimSuffix(f.Name(), ".run")
			id, err := job.ParseAttempt(name)
			bytes, rerr := runBytes(path)
			if err != nil || rerr != nil || h.output(id) != path {
				if err := os.RemoveAll(path); err != nil {
					return nil, err
				}
				_ = os.Remove(filepath.Dir(path)) // fails if there is more in it
				continue
			}
			out = append(out, &slotwisev1.HeldOutput{Attempt: name, Bytes: bytes})
		}
	}
	return out, nil
}

// runBytes opens a run file and returns how many bytes its keys and values have.
func runBytes(path string) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	r, err := runfile.Open(f, info.Size(), path)
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	defer r.Release()
	for p := range r.Partitions() {
		_, b := r.Size(p)
		n += b
	}
	return n, nil
}

// keep moves a finished map's output to where it is served from.
func (h *home) keep(id job.AttemptID, from string) (err error) {
	to := h.output(id)
	for range 3 { // discard may take the directory away in between
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err = os.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// discard removes a finished map's output, and the job's directory with the last.
func (h *home) discard(id job.AttemptID) error {
	path := h.output(id)
	err := os.Remove(path)
	_ = os.Remove(filepath.Dir(path)) // fails if there is more in it
	return err
}

// dropJob removes the outputs of a job.
func (h *home) dropJob(id job.ID) error {
	return os.RemoveAll(filepath.Join(h.outputs(), id.String()))
}

// ofMaster notes of whose jobs the outputs are and reports whether that is news:
// then job numbers mean other jobs, and what was held is removed.
func (h *home) ofMaster(master string) (changed bool, err error) {
	path := filepath.Join(h.path, "master")
	old, err := kept(path, master)
	if err != nil || old == master {
		return false, err
	}
	return true, errors.Join(removeAll(h.outputs()), writeWhole(path, master))
}

func (h *home) close() error { return h.lock.Close() }
