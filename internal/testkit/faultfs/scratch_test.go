package faultfs

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// TestScratch writes eight bytes twice and reads them back, with one rule.
func TestScratch(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule Rule
		want error
		text string // what the file holds in the end
	}{
		{"create", Rule{Op: Create, Nth: 1}, syscall.EIO, ""},
		{"another file", Rule{Op: Create, Path: "other"}, nil, "1234567812345678"},
		{"second write", Rule{Op: Write, Nth: 2}, syscall.EIO, "123456781234"},
		{"disk full", Rule{Op: Write, Nth: 1, Err: syscall.ENOSPC}, syscall.ENOSPC, "1234"},
		{"read", Rule{Op: Read}, syscall.EIO, ""},
		{"flipped bit", Rule{Op: Read, FlipBit: true}, nil, "12345678!2345678"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := storage.NewDirScratch(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := NewScratch(dir, tc.rule)
			defer s.Close()
			f, err := s.Create("spill")
			for range 2 {
				if err == nil {
					_, err = f.Write([]byte("12345678"))
				}
			}
			b := make([]byte, 16)
			if f != nil {
				if _, rerr := f.ReadAt(b, 0); err == nil {
					err = rerr
				}
			}
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), "spill") {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := strings.TrimRight(string(b), "\x00"); got != tc.text {
				t.Errorf("holds %q, want %q", got, tc.text)
			}
		})
	}
}
