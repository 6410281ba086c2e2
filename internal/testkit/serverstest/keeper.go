package serverstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// The shared servers of a kind have a directory in the cache with these files:
//
//	starting   locked while a process starts the keeper or waits until it is ready
//	lease      locked, shared, by every process that uses the servers
//	kept       locked by the keeper while it lives
//	state      the servers' addresses, once they are ready, or the keeper's error
//	keeper.log the keeper's output
//	run-*      the servers' data, removed by the keeper
//
// A process is alive if it holds its lock; process numbers are reused.
const (
	startingFile = "starting"
	leaseFile    = "lease"
	keptFile     = "kept"
	stateFile    = "state"
)

// idleLimit is the time after which the keeper stops unused servers. It is longer than
// the gap between the tests of cli and of internal/data/storage/hdfs in a run of all tests: the
// start of an HDFS takes more processor time than its idling.
const idleLimit = 4 * time.Minute

// kept is the content of the state file.
type kept struct {
	Keeper  int             // process number
	Error   string          `json:",omitempty"`
	Servers json.RawMessage `json:",omitempty"`
}

// leases holds this process's lease files, by kind. The end of the process releases
// the locks.
var leases struct {
	sync.Mutex
	files map[string]*os.File
}

// lease starts the servers of a kind if necessary, keeps them running until this
// process ends, and stores their addresses in into.
func lease(kind string, into any) error {
	leases.Lock()
	defer leases.Unlock()
	// Under the lock of this process, because two parallel tests would build the programs twice.
	if err := Prepare(kind); err != nil {
		return err
	}
	dir, err := keptDir(kind)
	if err != nil {
		return err
	}
	// The lock comes first: a keeper whose servers have long been idle could otherwise stop them
	// between this process's look and its lock.
	if leases.files[kind] == nil {
		f, err := os.OpenFile(filepath.Join(dir, leaseFile), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		if err := flock(f, syscall.LOCK_SH); err != nil {
			return errors.Join(err, f.Close())
		}
		if leases.files == nil {
			leases.files = map[string]*os.File{}
		}
		leases.files[kind] = f
	}
	var state []byte
	err = withLock(filepath.Join(dir, startingFile), func() (err error) {
		state, err = ensure(kind, dir)
		return err
	})
	if err != nil {
		return fmt.Errorf("the %s test servers: %w", kind, err)
	}
	return json.Unmarshal(state, into)
}

func keptDir(kind string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "servers-"+kind)
	return dir, os.MkdirAll(dir, 0o755)
}

// ensure starts a keeper unless one lives, and returns the addresses of its servers.
func ensure(kind, dir string) ([]byte, error) {
	if !locked(filepath.Join(dir, keptFile)) {
		if err := os.RemoveAll(filepath.Join(dir, stateFile)); err != nil {
			return nil, err
		}
		if err := startKeeper(kind, dir); err != nil {
			return nil, err
		}
	}
	return awaitState(dir)
}

// startKeeper starts a keeper in a new session, so that it outlives the test.
func startKeeper(kind, dir string) error {
	src, err := SourceDir("internal", "testkit", "serverstest", "keepertest")
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "keeper")
	if err := run(src, "go", "build", "-o", bin, "."); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "keeper.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(bin, "keep", kind)
	cmd.Dir = src
	cmd.Stdout, cmd.Stderr = log, log
	// An interrupt at the terminal goes to all processes of go test, and must not reach this one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // leaves no zombie if the keeper ends first
	return nil
}

// awaitState waits for the state file of a keeper that lives or was just started.
func awaitState(dir string) ([]byte, error) {
	var k kept
	// A keeper takes its lock soon after its start.
	started, deadline := time.Now().Add(10*time.Second), time.Now().Add(2*startLimit)
	for {
		b, err := os.ReadFile(filepath.Join(dir, stateFile))
		if err == nil {
			err = json.Unmarshal(b, &k)
		}
		switch {
		case err == nil && k.Error != "":
			return nil, errors.New(k.Error)
		case err == nil:
			return k.Servers, nil
		// A keeper that ended without a state, or one that hangs.
		case !locked(filepath.Join(dir, keptFile)) && time.Now().After(started), time.Now().After(deadline):
			return nil, fmt.Errorf("the keeper is not ready: %w: %s", err, tail(filepath.Join(dir, "keeper.log")))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// locked reports whether a process holds a lock of the file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// Keep runs the servers of a kind until they have been unused for idleLimit, or until
// ctx ends. It is the keeper's main function.
func Keep(ctx context.Context, kind string) error {
	dir, err := keptDir(kind)
	if err != nil {
		return err
	}
	own, err := os.OpenFile(filepath.Join(dir, keptFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer own.Close()
	// The lock decides and not the state file: a keeper that was killed leaves its file, and the kernel frees
	// its lock.
	if err := flock(own, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil // another keeper runs
	}
	runDir, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(runDir)
	// The error goes into the state file, where the tests that wait find it at once instead of after
	// startLimit.
	servers, stop, err := startKind(ctx, kind, runDir)
	if err != nil {
		return errors.Join(err, publish(dir, kept{Keeper: os.Getpid(), Error: err.Error()}))
	}
	// Deferred after the removal of runDir and so called before it: the servers end before their data are
	// removed.
	defer stop()
	state, err := json.Marshal(servers)
	if err != nil {
		return err
	}
	if err := publish(dir, kept{Keeper: os.Getpid(), Servers: state}); err != nil {
		return err
	}
	return watch(ctx, dir, own)
}

// Stop ends the keeper of a kind, if there is one, and waits for its end.
func Stop(kind string) error {
	dir, err := keptDir(kind)
	if err != nil {
		return err
	}
	lock := filepath.Join(dir, keptFile)
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if os.IsNotExist(err) || !locked(lock) {
		return nil
	}
	var k kept
	if err := errors.Join(err, json.Unmarshal(b, &k)); err != nil {
		return err
	}
	// The number is not another process's: the keeper's lock was held a moment ago.
	if err := syscall.Kill(k.Keeper, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the keeper of %s: %w", kind, err)
	}
	for deadline := time.Now().Add(startLimit); locked(lock); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the keeper of %s, process %d, has not ended after SIGTERM", kind, k.Keeper)
		}
	}
	return nil
}

// startKind starts the servers of a kind.
func startKind(ctx context.Context, kind, dir string) (servers any, stop func(), err error) {
	if kind == "hdfs" {
		s, err := startHDFS(ctx, dir, loopback, sharedDataNodes, nil)
		if err != nil {
			return nil, nil, err
		}
		return s.Cluster, s.stop, nil
	}
	s, err := startS3(ctx, dir, loopback)
	if err != nil {
		return nil, nil, err
	}
	return s.Server, s.stop, nil
}

// publish writes the state file in one step.
func publish(dir string, k kept) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, stateFile+".tmp")
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, stateFile))
}

// watch returns when the servers have been unused for idleLimit. Before that it removes
// the state file and releases the keeper's lock, while it holds the starting lock. So
// the next process that needs the servers starts a new keeper.
func watch(ctx context.Context, dir string, own *os.File) error {
	lease, err := os.OpenFile(filepath.Join(dir, leaseFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lease.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for idle := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// A process holds the lease shared.
		if flock(lease, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			idle = 0
			continue
		}
		// Held for this look only, or a process that comes now would wait for its lease.
		if err := flock(lease, syscall.LOCK_UN); err != nil {
			return err
		}
		if idle += time.Second; idle < idleLimit {
			continue
		}
		done := false
		err := withLock(filepath.Join(dir, startingFile), func() error {
			// A process may have taken the lease since the look before, and now waits for the
			// starting lock.
			if done = flock(lease, syscall.LOCK_EX|syscall.LOCK_NB) == nil; !done {
				return nil
			}
			// Both under the starting lock: the next process must find either a living keeper or none, and
			// never the state of a dead one.
			return errors.Join(os.Remove(filepath.Join(dir, stateFile)), own.Close())
		})
		if done || err != nil {
			return err
		}
	}
}
