package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKeptHash hashes a program, finds its hash again, and changes the program and the cache.
func TestKeptHash(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "program")
	hash := func() string {
		t.Helper()
		h, err := hashOf(path, true)
		if err != nil || len(h) != 64 {
			t.Fatal(h, err)
		}
		return h
	}
	write := func(text string) (line string) {
		t.Helper()
		first := ""
		for paused := true; paused; { // again, if the file is no longer new when it is hashed
			began := time.Now()
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			line = identity(f)
			f.Close()
			first = hash()
			if paused = time.Since(began) >= settledTime; !paused && line != "" {
				t.Fatal("a file that was changed a moment ago has an identity")
			}
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		time.Sleep(settledTime + 100*time.Millisecond)
		if line = identity(f); line == "" || keptHash(line) != "" || hash() != first || keptHash(line) != first {
			t.Fatalf("the hash of %q is not kept: %q", text, line)
		}
		return line
	}
	line := write("one")
	// What the cache says counts while the file is the same.
	other := strings.Repeat("0", 64)
	if err := keepHash(line, other); err != nil || hash() != other {
		t.Fatal("the cache is not read", err)
	}
	if h, err := hashOf(path, false); err != nil || h == other {
		t.Fatal("the cache is read for a file that must be hashed", err)
	}
	kept := hashFile(line)
	if err := os.Chmod(kept, 0o622); err != nil || hash() == other {
		t.Fatal("a cache that others may write is believed", err)
	}
	if err := keepHash(line, other); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte(line+"x\n"), 0o600); err != nil || hash() == "x" {
		t.Fatal("a damaged cache is believed", err)
	}
	// The same size, and a time of the change that the writer has set back.
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("two"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := keepHash(line, other); err != nil || hash() == other {
		t.Fatal("the hash of another content is returned", err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if h := hash(); h == other {
		t.Fatal("a hash without a cache directory")
	}
}
