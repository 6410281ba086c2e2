package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// encodeOld returns the file that earlier versions wrote for a job.
func encodeOld(j *slotwisev1.HistoryJob) ([]byte, error) {
	summary, err1 := proto.Marshal(j.Job)
	all, err2 := proto.Marshal(j)
	return appendPart(appendPart([]byte(magic), summary), encoder().EncodeAll(all, nil)), errors.Join(err1, err2)
}

// appendPart appends a part with its length and checksum before it.
func appendPart(b, part []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(part, castagnoli))
	return append(b, part...)
}

// writeOld writes the file of an earlier version below a master's directory.
func writeOld(t *testing.T, dir, name string, j *slotwisev1.HistoryJob) {
	t.Helper()
	b, err := encodeOld(j)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestImport opens a directory of an earlier version. The first start imports its files and
// removes them; a damaged one stays. A crash between the import and the removal changes
// nothing.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	fill := func() {
		writeOld(t, dir, "history/j0000000001.history", ended(1, "ann"))
		writeOld(t, dir, "history/j0000000002.history", ended(2, "bob"))
		chain := ended(1, "ann")
		chain.Job.Id = "chain-1"
		writeOld(t, dir, "chains/j0000000001.history", chain)
	}
	fill()
	damaged := filepath.Join(dir, "history", "j0000000003.history")
	if err := os.WriteFile(damaged, []byte("SWHIST01torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what string, s *Store) {
		t.Helper()
		if got := names(t, s, Query{Kind: All, Limit: 9}); got != "j2 chain-1 j1" && got != "j2 j1 chain-1" {
			t.Errorf("%s: %s", what, got)
		}
		if s.Broken() == "" {
			t.Errorf("%s: the damaged file is not reported", what)
		}
	}
	read, err := OpenRead(dir) // before any master of this version
	if err != nil {
		t.Fatal(err)
	}
	check("read only", read)
	temp := read.temp
	if err := read.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(temp); temp == "" || err == nil {
		t.Errorf("the temporary directory %q is left", temp)
	}
	s := open(t, dir, Limits{})
	check("first start", s)
	if left, err := oldFiles(dir); len(left) != 1 || left[0] != damaged {
		t.Errorf("left %v, %v", left, err)
	}
	if err := s.Put(ended(1, "eve")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fill() // as if the first start had ended before it removed the files
	both, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	check("files and a database", both)
	if err := both.Close(); err != nil {
		t.Error(err)
	}
	s = open(t, dir, Limits{})
	check("again", s)
	if j, err := s.Get("j1"); err != nil || j.Job.User != "eve" {
		t.Errorf("the import has replaced a newer entry: %v, %v", j, err)
	}
	if left, err := oldFiles(dir); len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestDamagedFiles flips a bit of each byte of an old file, and truncates the file to each
// length. readOld reports the damage.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	writeOld(t, dir, "x", ended(2, "ann"))
	path := filepath.Join(dir, "x")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x40
		for _, b := range [][]byte{bad, good[:i]} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readOld(path); err == nil {
				t.Errorf("damage at %d of a file of %d bytes is not reported", i, len(b))
			}
		}
	}
}
