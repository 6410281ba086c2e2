// Package policyfiles watches Hadoop's files of pools and queues while a cluster runs, and
// applies each change to the policy. Package hadoopconf converts their content.
package policyfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
	"github.com/slotwise/slotwise/sched"
)

// ReloadEvery is the interval between checks of the files, the same as Hadoop's.
const ReloadEvery = 10 * time.Second

// Target is the cluster that the files configure.
type Target interface {
	// Policy returns the policy's name or composition, as the user gave it. It returns "" while nothing
	// can be configured: another master leads, or the cluster is closing.
	Policy() string
	// SetPolicy installs a policy. After an error the former one stays.
	SetPolicy(spec string, set map[string]string) error
	// Reconfigure passes a configuration to the policy. After an error nothing has
	// changed.
	Reconfigure(conf any) error
}

// Files watches the Hadoop configuration files of a cluster and applies changes.
type Files struct {
	target   Target
	registry *sched.Registry // nil if the policy never changes
	set      map[string]string
	warn     func(string)
	mu       struct {
		sync.Mutex
		list []*file
	}
}

// file is a file of pools or queues.
type file struct {
	path  string
	suits func(spec string) (bool, error) // whether a policy uses such files
	apply func(content []byte) ([]hadoopconf.Warning, error)
	seen  fs.FileInfo // of the version that was last read
	valid []byte      // the content of the last version that was applied
	renew bool        // the policy was replaced since, so valid is not in force
	// unused is set while the installed policy does not use the file, and the user was warned.
	unused bool
}

// New returns a watcher for a file of pools and a file of queues, "" for none.
// Parameters in set take precedence over the file of queues. warn receives warnings; it
// may be called from any goroutine. With a registry the policy may change: a file that the installed one
// does not use then waits for one that does. Without a registry such a file is an error.
func New(target Target, registry *sched.Registry, pools, queues string, set map[string]string, warn func(string)) *Files {
	f := &Files{target: target, registry: registry, set: set, warn: warn}
	if pools != "" {
		f.mu.list = append(f.mu.list, &file{path: pools, suits: f.hasPools, apply: f.applyPools})
	}
	if queues != "" {
		f.mu.list = append(f.mu.list, &file{path: queues, suits: f.hasQueues, apply: f.applyQueues})
	}
	return f
}

// hasPools reports whether a policy takes pools.
func (f *Files) hasPools(spec string) (bool, error) {
	p, err := f.registry.Build(spec, sched.Options{Live: true})
	if err != nil {
		return false, err
	}
	for _, c := range sched.HooksOf(p).Configs {
		// Only this copy of the policy is configured, to see whether one of its parts takes pools.
		if known, err := c.Reconfigure(fair.Allocations{}); known || err != nil {
			return true, err
		}
	}
	return false, nil
}

// hasQueues reports whether a policy takes queues, which are its parameters.
func (f *Files) hasQueues(spec string) (bool, error) {
	info, err := f.registry.Describe(spec)
	for _, part := range info.Parts {
		for _, p := range part.Params {
			if p.Name == "queues" {
				return true, err
			}
		}
	}
	return false, err
}

// Empty reports whether no file was named.
func (f *Files) Empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.list) == 0
}

// applyPools passes the pools to the policy.
func (f *Files) applyPools(b []byte) ([]hadoopconf.Warning, error) {
	conf, warnings, err := hadoopconf.ReadAllocations(bytes.NewReader(b))
	if err == nil {
		err = f.target.Reconfigure(conf)
	}
	return warnings, err
}

// applyQueues installs the policy again with the file's queues. The policy capacity
// keeps no state between rounds, so nothing is lost.
func (f *Files) applyQueues(b []byte) ([]hadoopconf.Warning, error) {
	props, warnings, err := hadoopconf.ReadProperties(bytes.NewReader(b))
	if err != nil {
		return warnings, err
	}
	set, more, err := hadoopconf.CapacitySettings(props, nil)
	if err != nil {
		return append(warnings, more...), err
	}
	// Such a file is nearly always one of another program, or a template without its queues.
	if set["queues"] == "" && f.set["queues"] == "" {
		return append(warnings, more...), &hadoopconf.Error{Element: "configuration", Text: "the file declares no queue: it has neither mapred.capacity-scheduler.queue.NAME.capacity nor yarn.scheduler.capacity.root.queues"}
	}
	// Last, so that what the user has set himself wins over the file.
	maps.Copy(set, f.set)
	// Between the two calls no user installs another policy, which SetPolicy would replace by the old one:
	// Replace waits for the lock that the callers of load hold.
	return append(warnings, more...), f.target.SetPolicy(f.target.Policy(), set)
}

// Load applies the files that have changed. It returns the errors of invalid files, which
// leave the policy unchanged.
func (f *Files) Load() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, x := range f.mu.list {
		errs = append(errs, f.load(x))
	}
	return errors.Join(errs...)
}

// Replace calls install, which installs another policy, while no file is applied. If install succeeds, the next
// check applies all files, as after Again.
func (f *Files) Replace(install func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := install()
	if err == nil {
		f.again()
	}
	return err
}

// Again makes the next check apply all files, because the policy was replaced. A file that is
// invalid by then is applied in its last valid version: a new policy must not lose the pools
// of the former one to a mistake in the file.
func (f *Files) Again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again()
}

func (f *Files) again() {
	for _, x := range f.mu.list {
		// seen is forgotten, so the next load reads the file although it has not changed.
		x.seen, x.renew = nil, true
	}
}

// Follow applies changed files until stop is closed. An invalid file causes one warning
// and changes nothing.
func (f *Files) Follow(every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.look()
		case <-stop:
			return
		}
	}
}

// look applies each file that has changed and warns of invalid ones.
func (f *Files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.mu.list {
		if err := f.load(x); err != nil {
			f.warn(err.Error() + ": the configuration stays as it was")
		}
	}
}

// load loads a file if the installed policy uses such files.
func (f *Files) load(x *file) error {
	spec := f.target.Policy()
	// A master that does not lead has no policy. It loads the files when it begins to lead.
	if spec == "" {
		return nil
	}
	if f.registry != nil {
		ok, err := x.suits(spec)
		if err != nil {
			return err
		}
		if !ok {
			// With two files one is unused under each policy, which needs no warning.
			if len(f.mu.list) == 1 && !x.unused {
				f.warn(fmt.Sprintf("%s: the policy %s does not use this file", x.path, spec))
			}
			// The file must be applied again when the policy that uses it is installed again.
			x.seen, x.renew, x.unused = nil, true, true
			return nil
		}
		x.unused = false
	}
	return x.load(f.warn)
}

// load applies the file if it has changed, or its last valid version if the policy was
// replaced and the file is invalid.
func (x *file) load(warn func(string)) error {
	err := x.loadChanged(warn)
	if err == nil || !x.renew || x.valid == nil {
		return err
	}
	if _, old := x.apply(x.valid); old != nil {
		return err // the new policy does not take the file at all
	}
	x.renew = false
	return fmt.Errorf("%w; its last valid version is in force", err)
}

// loadChanged applies the file if it has changed.
func (x *file) loadChanged(warn func(string)) error {
	info, err := os.Stat(x.path)
	if err != nil {
		return err
	}
	// Two versions written within a tick of the kernel's clock have the same time, but
	// editors that replace a file by rename give it another identity.
	if x.seen != nil && info.ModTime().Equal(x.seen.ModTime()) && info.Size() == x.seen.Size() && os.SameFile(info, x.seen) {
		return nil
	}
	b, err := os.ReadFile(x.path)
	if err != nil {
		return err // seen stays, so that the next check tries again
	}
	// Before apply: an invalid file is reported once and not every ten seconds.
	x.seen = info
	warnings, err := x.apply(b)
	for _, w := range warnings {
		warn(fmt.Sprintf("%s: %v", x.path, w))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.path, err)
	}
	x.valid, x.renew = b, false
	return nil
}
