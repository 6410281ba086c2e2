package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// home is a worker's directory:
//
//	lock               locked by the running worker
//	name               the worker's name, unless its configuration sets one
//	origin             a random id that is in the environment of all its attempts
//	master             the id of the master whose jobs the outputs belong to
//	attempts/ID/       a running attempt's work/, scratch files and output.run
//	outputs/JOB/ID.run the output of a finished map
//	logs/ID.log        the newer half of an attempt's log; ID.log.old the older half
//	                   (a driver's directory and log are named chain-12_1)
//	files/SHA256       executables and shipped files
//
// The outputs survive a restart of the worker. Everything under attempts does not.
type home struct {
	path   string
	lock   durable.File
	name   string
	origin string
	silent silentNames
	// leftovers is the error about what openHome could not remove.
	leftovers error
}

// originVar is the environment variable that holds the directory's origin in all
// processes of its attempts. A worker that starts after a crash kills the processes
// that carry it.
const originVar = "SLOTWISE_ORIGIN"

// openHome creates and locks the directory, kills processes of an earlier worker in
// it and removes their unfinished files. It fails if another worker holds the lock.
// An empty name takes the stored one, or a new random one. With owned, only the
// worker's user may be able to replace the directory or one of its entries.
func openHome(dir, name string, owned bool) (*home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	h := &home{path: abs, name: name}
	// 0700: attempts of other users must not reach logs and outputs through the file system.
	for _, d := range []string{h.attempts(), h.outputs(), h.logs(), h.files()} {
		if err := durable.MkdirAll(durable.OS(), d, 0o700); err != nil {
			return nil, fmt.Errorf("worker directory %s: %w", dir, err)
		}
	}
	// Before the first file is written: as root, the worker would follow a link that a user
	// has put into its place.
	if owned {
		if err := h.checkOwned(); err != nil {
			return nil, err
		}
	}
	// Everything below changes or removes files, which only the owner of the lock may do.
	if h.lock, err = lockHome(abs); err != nil {
		return nil, fmt.Errorf("worker directory %s: %w", dir, err)
	}
	if h.name == "" {
		h.name, err = readOrCreate(durable.OS(), filepath.Join(abs, "name"), "w-"+strings.ToLower(rand.Text()[:8]))
	}
	if err == nil {
		h.origin, err = readOrCreate(durable.OS(), filepath.Join(abs, "origin"), rand.Text())
	}
	if err == nil && !goodName().MatchString(h.name) {
		err = fmt.Errorf("%s: bad name %q", filepath.Join(abs, "name"), h.name)
	}
	if err == nil {
		// Last, because it needs the origin: it kills the processes that carry it, and only then
		// are their files certain not to change any more.
		err = h.sweep()
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// lockHome locks a worker's directory until the result is closed or the process ends.
func lockHome(dir string) (durable.File, error) {
	f, err := durable.OS().OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Lock(false); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			err = errors.New("another worker uses this directory")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (h *home) attempts() string { return filepath.Join(h.path, "attempts") }
func (h *home) outputs() string  { return filepath.Join(h.path, "outputs") }
func (h *home) logs() string     { return filepath.Join(h.path, "logs") }
func (h *home) files() string    { return filepath.Join(h.path, "files") }

// attempt returns the directory of a running attempt.
func (h *home) attempt(id job.AttemptID) string { return filepath.Join(h.attempts(), id.String()) }

// driver returns the directory of a running driver.
func (h *home) driver(id agent.DriverID) string { return filepath.Join(h.attempts(), id.String()) }

// output returns the path of a finished map's output.
func (h *home) output(id job.AttemptID) string {
	return filepath.Join(h.outputs(), id.Job.String(), id.String()+".run")
}

// readOrCreate returns the line in a one-line file. If the file does not exist it
// writes the line fresh to it. The line is durable afterwards: a worker that was killed
// may have renamed the file and not synced its name.
func readOrCreate(disk durable.FS, path, fresh string) (string, error) {
	b, err := durable.ReadFile(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, replaceFile(disk, path, fresh)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), disk.SyncDir(filepath.Dir(path))
}

// replaceFile writes a one-line file durably: after a crash it holds the old line or
// the new one.
func replaceFile(disk durable.FS, path, line string) error {
	return durable.WriteFile(disk, path, 0o600, durable.Bytes(line+"\n"))
}

// errDiskGone reports that the worker's directory was removed, moved or replaced, or
// that its disk was unmounted, while the worker runs.
var errDiskGone = errors.New("the worker's directory is gone")

// gone returns errDiskGone if the path of the worker's directory does not lead to the
// directory that the worker has locked. Files that it writes now would be lost to a
// restarted worker, or belong to another one.
func (h *home) gone() error {
	if path := filepath.Join(h.path, "lock"); !h.lock.IsAt(path) {
		return fmt.Errorf("%w: %s was removed or replaced", errDiskGone, path)
	}
	return nil
}

// probe writes and removes a small file, and returns the error of the disk.
func (h *home) probe() error { return probe(durable.OS(), filepath.Join(h.attempts(), "probe")) }

func probe(disk durable.FS, path string) error {
	f, err := disk.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4<<10))
	return errors.Join(err, f.Sync(), f.Close(), disk.Remove(path))
}

// sweep kills the processes of an earlier worker in this directory and removes
// their files. The caller holds the lock, so every process that carries the origin
// is a leftover. It repeats the search, because a process may have forked while it
// was being killed.
func (h *home) sweep() error {
	for range 10 {
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
	for _, f := range []string{"name", "origin", "master"} {
		_ = os.Remove(filepath.Join(h.path, f+durable.TempSuffix)) // left by a worker that was killed; usually missing
	}
	names, err := durable.OS().ReadDir(h.attempts())
	for _, name := range names {
		// A job must not keep the worker from its start, whatever it has left.
		h.leftovers = errors.Join(h.leftovers, h.remove(filepath.Join(h.attempts(), name)))
	}
	return errors.Join(err, removeTemp(h.files()), removeEmpty(h.outputs()))
}

// leftPrefix begins the names in attempts of what could not be removed. It is no attempt's.
const leftPrefix = "left."

// remove removes what the processes of a job have left at a path in the worker's directory. What
// cannot be removed leaves the path all the same, because another attempt may get the same name.
// The next start tries to remove it again.
func (h *home) remove(path string) error {
	err := durable.RemoveTree(path)
	if err == nil || strings.HasPrefix(filepath.Base(path), leftPrefix) {
		return err
	}
	return errors.Join(err, os.Rename(path, filepath.Join(h.attempts(), leftPrefix+rand.Text())))
}

// removeEndedAttempts removes the directories of attempts that do not run. They stay if
// the worker's directory was gone when the attempts ended.
func (h *home) removeEndedAttempts(running func(name string) bool) error {
	entries, err := os.ReadDir(h.attempts())
	for _, e := range entries {
		if e.IsDir() && !running(e.Name()) {
			err = errors.Join(err, h.remove(filepath.Join(h.attempts(), e.Name())))
		}
	}
	return err
}

// removeEmpty removes the empty directories in dir.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		_ = os.Remove(filepath.Join(dir, e.Name())) // fails unless it is empty
	}
	return err
}

// heldOutputs lists the map outputs in the directory. It removes damaged run files
// and files with other names.
func (h *home) heldOutputs() ([]*slotwisev1.HeldOutput, error) {
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
			var bytes int64
			if err == nil && f.Type().IsRegular() { // to open a pipe could block
				bytes, err = runBytes(path, 0) // the job is not known yet; netshuffle.Handler checks the number
			}
			// Damaged files are removed and not reported: the master would send reduces here in vain.
			// Their maps run again.
			if err != nil || !f.Type().IsRegular() || h.output(id) != path {
				_ = h.remove(path)                // the next start tries again; it is not listed
				_ = os.Remove(filepath.Dir(path)) // fails unless it is empty
				continue
			}
			out = append(out, &slotwisev1.HeldOutput{Attempt: name, Bytes: bytes})
		}
	}
	return out, nil
}

// runBytes verifies that path is a run file and returns the total size of its keys and values in
// bytes. partitions is the number of partitions that it must have; 0 accepts any. A process of
// a job has written the file, so its index is read in pieces. A link, or a pipe that would
// block, is an error.
func runBytes(path string, partitions int) (n int64, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", filepath.Base(path))
	}
	if err != nil {
		return 0, err
	}
	err = runfile.Scan(f, info.Size(), filepath.Base(path), partitions, func(_ int, s runfile.Section) {
		if n += s.Bytes; n < 0 { // the sum of a file that lies
			n = math.MaxInt64
		}
	})
	return n, err
}

// keepOutput moves a finished map's output to the directory from which it is served. It fails
// if the file is not a run file with this number of partitions: the attempt's process has
// written it.
// If owner is not nil, the attempt has run as that user.
func (h *home) keepOutput(id job.AttemptID, from string, owner *account, partitions int) (err error) {
	to := h.output(id)
	for range 3 { // discardOutput may remove the job's directory in between
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if owner != nil {
			err = h.keepOutputOf(owner, from, to, partitions)
		} else if err = checkRun(from, partitions); err == nil {
			err = os.Rename(from, to)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// checkRun returns an error unless path is a run file with this number of partitions.
func checkRun(path string, partitions int) error {
	if _, err := runBytes(path, partitions); err != nil {
		return fmt.Errorf("the map output that the attempt's process has written cannot be used: %w", err)
	}
	return nil
}

// discardOutput removes a finished map's output, and the job's directory with the
// last one. It returns fs.ErrNotExist if there is no such output.
func (h *home) discardOutput(id job.AttemptID) error {
	path := h.output(id)
	err := os.Remove(path)
	_ = os.Remove(filepath.Dir(path)) // fails unless it is empty
	return err
}

// removeOutputs removes all map outputs of a job.
func (h *home) removeOutputs(id job.ID) error {
	return h.remove(filepath.Join(h.outputs(), id.String()))
}

// setMaster records the id of the master whose jobs the outputs belong to. If it
// differs from the recorded one, job ids mean other jobs now: setMaster removes all
// outputs and returns true.
func (h *home) setMaster(master string) (changed bool, err error) {
	path := filepath.Join(h.path, "master")
	// A new worker records its first master and has nothing to remove.
	old, err := readOrCreate(durable.OS(), path, master)
	if err != nil || old == master {
		return false, err
	}
	// The outputs go before the new master is recorded. A crash in between repeats the
	// removal; the other order would keep outputs of foreign jobs.
	jobs, err := durable.OS().ReadDir(h.outputs())
	for _, name := range jobs {
		err = errors.Join(err, h.remove(filepath.Join(h.outputs(), name)))
	}
	return true, errors.Join(err, replaceFile(durable.OS(), path, master))
}

// close releases the lock.
func (h *home) close() error { return h.lock.Close() }
