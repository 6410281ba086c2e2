//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDownRefuses: down removes no directory that up has not made, and none with a mount in it.
func TestDownRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := down(dir); err == nil || !strings.Contains(err.Error(), "holds no node") {
		t.Errorf("down of another directory: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := refuseMounts(dir); err != nil {
		t.Error(err)
	}
	if err := refuseMounts("/proc"); err == nil {
		t.Error("a mount point is not refused")
	}
}

// TestInitRefuses: init does nothing in the namespaces of the machine.
func TestInitRefuses(t *testing.T) {
	own, err := ownNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, outer := range []string{"", strings.Join(own, " "), "pid:[1] mnt:[1] net:[1] uts:[1]"} {
		if err := initNode(t.TempDir(), t.TempDir(), outer); err == nil || !strings.Contains(err.Error(), "use up") {
			t.Errorf("init with outer namespaces %q: %v", outer, err)
		}
	}
}
