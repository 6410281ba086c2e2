package storage_test

import (
	"testing"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/storagetest"
)

func TestLocalConforms(t *testing.T) {
	storagetest.Run(t, storagetest.Target{
		New: func() storage.FS { return storage.Local{} },
		Dir: t.TempDir(),
		Steps: []storagetest.Step{
			{Name: "success"}, {Name: "decide"}, {Name: "rename"}, {Name: "clean", Published: true},
		},
		CrashAt: func(s storage.Staging, step string) { storage.CrashAt(s, storagetest.CrashHook(step)) },
	})
}
