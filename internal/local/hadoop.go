package local

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/slotwise/slotwise/internal/hadoopconf"
)

// reloadEvery is how often Hadoop's files are looked at, as Hadoop does.
const reloadEvery = 10 * time.Second

// hadoopFile is one of Hadoop's configuration files, followed as it changes.
type hadoopFile struct {
	path  string
	apply func(content []byte) ([]hadoopconf.Warning, error)
	seen  fs.FileInfo // when it was last read
}

// hadoopFiles lists the files that the configuration names.
func (c *Cluster) hadoopFiles() []*hadoopFile {
	var files []*hadoopFile
	if p := c.cfg.FairScheduler; p != "" {
		files = append(files, &hadoopFile{path: p, apply: c.applyFair})
	}
	if p := c.cfg.CapacityScheduler; p != "" {
		files = append(files, &hadoopFile{path: p, apply: c.applyCapacity})
	}
	return files
}

// applyFair hands pools to the policy.
func (c *Cluster) applyFair(b []byte) ([]hadoopconf.Warning, error) {
	conf, warnings, err := hadoopconf.ReadAllocations(bytes.NewReader(b))
	if err == nil {
		err = c.Reconfigure(conf)
	}
	return warnings, err
}

// applyCapacity builds the policy anew with the file's queues. It keeps nothing
// from round to round that would be lost.
func (c *Cluster) applyCapacity(b []byte) ([]hadoopconf.Warning, error) {
	props, warnings, err := hadoopconf.ReadProperties(bytes.NewReader(b))
	if err != nil {
		return warnings, err
	}
	set, more, err := hadoopconf.CapacitySettings(props, nil)
	if err != nil {
		return append(warnings, more...), err
	}
	maps.Copy(set, c.cfg.PolicySet) // what the user says himself goes before the file
	return append(warnings, more...), c.SetPolicy(c.Policy(), set)
}

// load reads the file if it has changed. After an error the policy is as it
// was.
func (f *hadoopFile) load(warn func(string)) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if f.seen != nil && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return nil
	}
	f.seen = info
	b, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	warnings, err := f.apply(b)
	for _, w := range warnings {
		warn(fmt.Sprintf("%s: %v", f.path, w))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

// follow reloads files that change, until the cluster is closed. A bad file is
// told of once and changes nothing.
func (c *Cluster) follow(files []*hadoopFile) {
	tick := time.NewTicker(c.cfg.Reload)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, f := range files {
				if err := f.load(c.warn); err != nil {
					c.warn(err.Error() + ": the configuration stays as it was")
				}
			}
		case <-c.stopped:
			return
		}
	}
}

// warn tells the user of something.
func (c *Cluster) warn(text string) {
	if c.cfg.Warn != nil {
		c.cfg.Warn(text)
	}
}
