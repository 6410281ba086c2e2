package faultfs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/faultfs"
	"github.com/slotwise/slotwise/internal/storage/storagetest"
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

// TestTreeCrashes kills staged output on directories after every operation.
func TestTreeCrashes(t *testing.T) {
	for name, flavour := range flavours {
		t.Run(name, func(t *testing.T) {
			storagetest.RunCrashes(t, storagetest.CrashTarget{
				New: func() storagetest.Machine { return machine(faultfs.NewTree(flavour)) },
				Gap: !flavour.Exchange,
			})
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
