package hadoopconf

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// ReloadEvery is how often the files are looked at, as Hadoop does.
const ReloadEvery = 10 * time.Second

// Target is a cluster that the files configure.
type Target interface {
	// Policy returns the policy's name, as it was asked for.
	Policy() string
	// SetPolicy installs a policy; after an error the old one goes on.
	SetPolicy(spec string, set map[string]string) error
	// Reconfigure hands the policy a configuration; after an error nothing has
	// changed.
	Reconfigure(conf any) error
}

// Files are Hadoop's configuration files of a cluster, followed as they change.
type Files struct {
	target Target
	set    map[string]string
	warn   func(string)
	mu     struct {
		sync.Mutex
		list []*file
	}
}

// file is one of them.
type file struct {
	path  string
	apply func(content []byte) ([]Warning, error)
	seen  fs.FileInfo // when it was last read
}

// NewFiles names the files: of pools and of queues, "" for none. What set says of
// the policy's parameters goes before the file of queues. warn is told what is
// odd in them; it may be called from any goroutine.
func NewFiles(target Target, pools, queues string, set map[string]string, warn func(string)) *Files {
	f := &Files{target: target, set: set, warn: warn}
	if pools != "" {
		f.mu.list = append(f.mu.list, &file{path: pools, apply: f.applyPools})
	}
	if queues != "" {
		f.mu.list = append(f.mu.list, &file{path: queues, apply: f.applyQueues})
	}
	return f
}

// Empty reports whether no file was named.
func (f *Files) Empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.list) == 0
}

// applyPools hands pools to the policy.
func (f *Files) applyPools(b []byte) ([]Warning, error) {
	conf, warnings, err := ReadAllocations(bytes.NewReader(b))
	if err == nil {
		err = f.target.Reconfigure(conf)
	}
	return warnings, err
}

// applyQueues builds the policy anew with the file's queues. It keeps nothing
// from round to round that would be lost.
func (f *Files) applyQueues(b []byte) ([]Warning, error) {
	props, warnings, err := ReadProperties(bytes.NewReader(b))
	if err != nil {
		return warnings, err
	}
	set, more, err := CapacitySettings(props, nil)
	if err != nil {
		return append(warnings, more...), err
	}
	maps.Copy(set, f.set)
	return append(warnings, more...), f.target.SetPolicy(f.target.Policy(), set)
}

// Load reads the files that have changed. The first bad one is the error; then
// the policy is as it was.
func (f *Files) Load() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.mu.list {
		if err := x.load(f.warn); err != nil {
			return err
		}
	}
	return nil
}

// Again has all files read anew at the next look: the policy is another one.
func (f *Files) Again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.mu.list {
		x.seen = nil
	}
}

// Follow reloads files that change until stop is closed. A bad file is warned of
// once and changes nothing.
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

// look reads each file that has changed.
func (f *Files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.mu.list {
		if err := x.load(f.warn); err != nil {
			f.warn(err.Error() + ": the configuration stays as it was")
		}
	}
}

// load reads the file if it has changed.
func (x *file) load(warn func(string)) error {
	info, err := os.Stat(x.path)
	if err != nil {
		return err
	}
	if x.seen != nil && info.ModTime().Equal(x.seen.ModTime()) && info.Size() == x.seen.Size() {
		return nil
	}
	x.seen = info
	b, err := os.ReadFile(x.path)
	if err != nil {
		return err
	}
	warnings, err := x.apply(b)
	for _, w := range warnings {
		warn(fmt.Sprintf("%s: %v", x.path, w))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.path, err)
	}
	return nil
}
