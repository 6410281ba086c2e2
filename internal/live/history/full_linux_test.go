package history

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
)

// TestFullDisk fills a real file system. The error names the reason, stored records stay readable, and the next
// record is stored when there is room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("only root may mount: ", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	s, err := Open(dir, Limits{}, func(aside string, damage error) { t.Errorf("set aside as %s: %v", aside, damage) })
	if err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 50_000)
	stream := rand.NewChaCha8([32]byte{})
	n := 0
	for err == nil && n < 100 {
		n++
		_, _ = stream.Read(random) // it never fails
		j := ended(n, "ann")
		j.Job.Message = hex.EncodeToString(random)
		err = s.Put(j)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("record %d: %v", n, err)
	}
	if list := names(t, s, Query{Limit: 100}); len(list) == 0 {
		t.Error("no record is left")
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ended(n, "ann")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
