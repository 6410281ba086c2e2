package faultfs_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

var flavours = map[string]faultfs.Flavour{
	"Local": faultfs.LocalFlavour, "Plain": faultfs.PlainFlavour, "HDFS": faultfs.HDFSFlavour,
}

// TestTreeConforms holds the file system in memory to the contract of the real
// ones.
func TestTreeConforms(t *testing.T) {
	for name, flavour := range flavours {
		t.Run(name, func(t *testing.T) {
			tree := faultfs.NewTree(flavour)
			storagetest.Run(t, storagetest.Target{New: func() storage.FS { return tree }, Dir: "dir"})
		})
	}
}

// TestTreeCrashes kills staged output on directories after every operation. Syncs are
// left out: they change nothing that the next process sees.
func TestTreeCrashes(t *testing.T) {
	for name, flavour := range flavours {
		flavour.NoSync = true
		t.Run(name, func(t *testing.T) {
			storagetest.RunCrashes(t, storagetest.CrashTarget{
				New: func() storagetest.Machine { return machine(faultfs.NewTree(flavour)) },
				Gap: !flavour.Exchange,
			})
		})
	}
}

// TestTreeRandom lets jobs replace one output in random order, with random kills.
func TestTreeRandom(t *testing.T) {
	for name, flavour := range flavours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunRandom(t, storagetest.CrashTarget{
				New: func() storagetest.Machine { return machine(faultfs.NewTree(flavour)) },
				Gap: !flavour.Exchange,
			}, 300)
		})
	}
}

func machine(tree *faultfs.Tree) storagetest.Machine {
	return storagetest.Machine{
		FS: tree, Dir: "dir", Faults: &tree.Faults,
		Restart: func(age time.Duration) storagetest.Machine {
			next := tree.Restart()
			now := tree.Now
			next.Now = func() time.Time { return now().Add(age) }
			return machine(next)
		},
		Left: func() (left []string) {
			for _, name := range tree.Names() {
				if name != "dir" && name != "dir/out" && !strings.HasPrefix(name, "dir/out/") {
					left = append(left, name)
				}
			}
			return left
		},
	}
}

// TestPowerCut cuts the power after each operation of jobs on local files.
func TestPowerCut(t *testing.T) {
	storagetest.RunPowerCuts(t, faultfs.LocalFlavour)
}

// TestPowerCutPlain is TestPowerCut where directories cannot be swapped.
func TestPowerCutPlain(t *testing.T) {
	storagetest.RunPowerCuts(t, faultfs.PlainFlavour)
}

// TestPowerCutNoSync cuts the power after each operation of a commit without sync that
// replaces an output. The output is the old one whole or the new one whole.
func TestPowerCutNoSync(t *testing.T) {
	older := map[string]string{"_SUCCESS": "", "part": "the old output, longer than a page", "gone": "old"}
	newer := map[string]string{"_SUCCESS": "", "part": "the new output, longer than a page", "more": "new"}
	for name, flavour := range map[string]faultfs.Flavour{"Local": faultfs.LocalFlavour, "Plain": faultfs.PlainFlavour} {
		flavour.NoSync = true
		stopped := true
		for after := 0; stopped; after++ {
			for seed := range uint64(30) {
				tree := faultfs.NewTree(flavour)
				for file, text := range older {
					tree.Put("dir/out/"+file, []byte(text))
				}
				s := staged(t, tree, newer)
				tree.StopAfter(after)
				if err := s.Commit(t.Context()); err != nil && !tree.Stopped() {
					t.Fatal(err)
				}
				stopped = tree.Stopped()
				tree = tree.PowerCut(rand.New(rand.NewPCG(seed, uint64(after))))
				next, err := tree.Stage(t.Context(), "dir/out", storage.ReplaceAll)
				must(t, err)
				must(t, next.Abort(t.Context()))
				if got := files(tree); !maps.Equal(got, newer) && !maps.Equal(got, older) {
					t.Fatalf("%s: power cut after %d operations, seed %d: the output is %v", name, after, seed, got)
				}
			}
		}
	}
}

// TestFailedSteps makes each changing operation of a job with a shared staging fail once.
// A call that returns nil has taken effect all the same, and a file whose commit fails
// leaves no temporary file. A commit that is repeated succeeds.
func TestFailedSteps(t *testing.T) {
	ctx := t.Context()
	for name, flavour := range flavours {
		fired := true
		for nth := 1; fired; nth++ {
			tree := faultfs.NewTree(flavour)
			tree.Put("dir/out/old", []byte("old"))
			s, err := tree.StageShared(ctx, "dir/out", "t", storage.ReplaceAll)
			must(t, err)
			slow, err := s.Create(ctx, "part") // of an attempt that was given up
			must(t, err)
			w, err := s.Create(ctx, "part")
			must(t, err)
			_, err = w.Write([]byte("new"))
			must(t, err)
			tree.Inject(faultfs.Rule{Op: faultfs.Change, Nth: nth})
			what := func() string { return name + ": " + tree.LastFired() }
			if err := w.Commit(); err == nil {
				if err := slow.Commit(); err == nil {
					t.Fatalf("%s: the commit of the attempt that was given up succeeded", what())
				}
			} else {
				// The other attempt's file may be there, and this one if it cannot be removed.
				left := slices.DeleteFunc(tree.Names(), func(name string) bool { return !strings.Contains(name, "/tmp/") })
				if len(left) > 1 && !strings.HasPrefix(tree.LastFired(), "remove") {
					t.Fatalf("%s: left %v", what(), left)
				}
				w, err = s.Create(ctx, "part")
				must(t, err)
				_, err = w.Write([]byte("new"))
				must(t, err)
				must(t, w.Commit())
			}
			err = s.Commit(ctx)
			fired = tree.Fired() > 0
			if err != nil {
				must(t, s.Commit(ctx))
			}
			if got := files(tree); !maps.Equal(got, map[string]string{"part": "new", "_SUCCESS": "t\n"}) {
				t.Fatalf("%s: the commit returned %v, and the output is %v", what(), err, got)
			}
		}
	}
}

// TestPowerCutAfterRestore: a commit has moved the old output aside and fails. Once Abort
// has returned, a power cut leaves the old output.
func TestPowerCutAfterRestore(t *testing.T) {
	older := map[string]string{"_SUCCESS": "", "part": "the old output, longer than a page"}
	for _, noSync := range []bool{false, true} {
		for seed := range uint64(60) {
			tree := faultfs.NewTree(faultfs.Flavour{Local: true, NoSync: noSync})
			for file, text := range older {
				tree.Put("dir/out/"+file, []byte(text))
			}
			s := staged(t, tree, map[string]string{"part": "new"})
			tree.Inject(faultfs.Rule{Op: faultfs.Rename, Path: "dir/out", Nth: 1})
			if err := s.Commit(t.Context()); err == nil {
				t.Fatal("the commit succeeded")
			}
			must(t, s.Abort(t.Context()))
			tree = tree.PowerCut(rand.New(rand.NewPCG(seed, 1)))
			if got := files(tree); !maps.Equal(got, older) {
				t.Fatalf("no sync: %v, seed %d: the output is %v", noSync, seed, got)
			}
		}
	}
}

func staged(t *testing.T, tree *faultfs.Tree, content map[string]string) storage.Staging {
	t.Helper()
	s, err := tree.Stage(t.Context(), "dir/out", storage.ReplaceAll)
	must(t, err)
	for name, text := range content {
		if name == "_SUCCESS" {
			continue
		}
		w, err := s.Create(t.Context(), name)
		must(t, err)
		_, err = w.Write([]byte(text))
		must(t, err)
		must(t, w.Commit())
	}
	return s
}

// files returns the files of the output.
func files(tree *faultfs.Tree) map[string]string {
	content := map[string]string{}
	for _, name := range tree.Names() {
		if rel, ok := strings.CutPrefix(name, "dir/out/"); ok {
			content[rel] = string(tree.Bytes(name))
		}
	}
	return content
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
