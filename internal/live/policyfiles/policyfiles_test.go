package policyfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop/fair"
)

// conf is a cluster that remembers what the files have configured.
type conf struct {
	pools  int // pools of the allocations in force; -1 if the policy has none
	refuse error
}

func (c *conf) Policy() string { return "fair" }

func (c *conf) SetPolicy(string, map[string]string) error { return nil }

func (c *conf) Reconfigure(allocations any) error {
	if c.refuse == nil {
		c.pools = len(allocations.(fair.Allocations).Pools)
	}
	return c.refuse
}

// TestBadVersions replaces the file of pools by every kind of bad version. The configuration in
// force stays, also when the policy is replaced meanwhile, and the next good version is used.
func TestBadVersions(t *testing.T) {
	good := func(pools int) string {
		return "<allocations>" + strings.Repeat("<pool name=\"p\"/>", min(1, pools)) + strings.Repeat("<pool name=\"q\"/>", max(0, pools-1)) + "</allocations>"
	}
	for name, spoil := range map[string]func(path string) error{
		"no XML":    func(path string) error { return os.WriteFile(path, []byte("<allocations><pool"), 0o600) },
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"removed":   os.Remove,
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		path := filepath.Join(t.TempDir(), "pools.xml")
		if err := os.WriteFile(path, []byte(good(2)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, said := &conf{pools: -1}, ""
		f := New(c, nil, path, "", nil, func(text string) { said += text + "\n" })
		if err := f.Load(); err != nil || c.pools != 2 {
			t.Fatalf("%v, %d pools", err, c.pools)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		f.look()
		if c.pools != 2 || !strings.Contains(said, "the configuration stays as it was") {
			t.Errorf("%s: %d pools; %q", name, c.pools, said)
		}
		c.pools = -1 // another policy, which knows no pools yet
		f.Again()
		if err := f.Load(); err == nil || !strings.Contains(err.Error(), "its last valid version is in force") || c.pools != 2 {
			t.Errorf("%s, after a change of the policy: %v, %d pools", name, err, c.pools)
		}
		c.pools, c.refuse = -1, errors.New("the policy has no pools")
		f.Again()
		if err := f.Load(); err == nil || strings.Contains(err.Error(), "in force") || c.pools != -1 {
			t.Errorf("%s, a policy without pools: %v, %d pools", name, err, c.pools)
		}
		c.refuse = nil
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(good(1)), 0o600); err != nil {
			t.Fatal(err)
		}
		f.look()
		if c.pools != 1 {
			t.Errorf("%s: after the repair there are %d pools", name, c.pools)
		}
	}
}

// TestUnreadableVersion checks that a version that could not be read once, for example because
// too many files were open, is read at a later check, though it does not change again.
func TestUnreadableVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pools.xml")
	c := &conf{}
	f := New(c, nil, path, "", nil, func(string) {})
	if err := os.Mkdir(path, 0o700); err != nil { // stat succeeds and reading fails
		t.Fatal(err)
	}
	f.look()
	if f.mu.list[0].seen != nil {
		t.Error("a version that was not read counts as seen")
	}
}

// replacing is a cluster whose user installs the policy fair while a changed file of queues is applied.
type replacing struct {
	conf
	files  *Files
	policy string
	user   sync.WaitGroup
	asked  int
}

// Policy lets the user begin at the second call, which applyQueues makes just before it installs the policy again.
func (r *replacing) Policy() string {
	if r.asked++; r.asked == 2 {
		r.user.Go(func() {
			_ = r.files.Replace(func() error { r.policy = "fair"; return nil })
		})
		time.Sleep(10 * time.Millisecond)
	}
	return "capacity"
}

func (r *replacing) SetPolicy(spec string, _ map[string]string) error {
	r.policy = spec
	return nil
}

// TestReplacedMeanwhile installs another policy while a file is applied to the former one: the new policy stays.
func TestReplacedMeanwhile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queues.xml")
	text := "<configuration><property><name>mapred.capacity-scheduler.queue.a.capacity</name><value>100</value></property></configuration>"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	r := &replacing{}
	r.files = New(r, nil, "", file, nil, func(text string) { t.Log(text) })
	if err := r.files.Load(); err != nil {
		t.Fatal(err)
	}
	r.user.Wait()
	if r.asked != 2 || r.policy != "fair" {
		t.Errorf("the policy is %s after %d calls", r.policy, r.asked)
	}
}
