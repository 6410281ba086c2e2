package machines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTable queries a table that changes and becomes invalid.
func TestTable(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "racks"), "# the cellar\nh1 /r1\n\nh2\t/r2 # by the door\n", 0o644)
	topo, err := OpenTopology(path)
	if err != nil {
		t.Fatal(err)
	}
	want := func(host, rack string) {
		t.Helper()
		if got, err := topo.Rack(host); got != rack || err != nil {
			t.Errorf("%s: %q, error %v, want %q", host, got, err, rack)
		}
	}
	want("h1", "/r1")
	want("h2", "/r2")
	want("h3", "")
	write(t, path, "h1 /r1\nh2 /r2\nh3 /r3\n", 0o644)
	want("h3", "/r3")
	write(t, path, "h1 /r1\nnonsense\n", 0o644)
	if got, err := topo.Rack("h3"); got != "/r3" || err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("after a bad change: %q, error %v", got, err)
	}
	want("h3", "/r3")
	if _, err := OpenTopology(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is opened")
	}
}

// TestScript queries a script that sometimes fails.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "rack.sh"), "#!/bin/sh\n[ -e "+dir+"/broken ] && { echo no >&2; exit 1; }\ncase $1 in h*) echo /rack-$1;; esac\n", 0o755)
	topo, err := OpenTopology(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := topo.Rack("h1"); got != "/rack-h1" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	for _, host := range []string{"x", "-h"} {
		if got, err := topo.Rack(host); got != "" || err == nil {
			t.Errorf("%s: %q, error %v", host, got, err)
		}
	}
	write(t, filepath.Join(dir, "broken"), "", 0o644)
	if got, err := topo.Rack("h1"); got != "/rack-h1" || err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("while it fails: %q, error %v", got, err)
	}
}
