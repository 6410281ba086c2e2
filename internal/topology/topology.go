// Package topology tells in which rack a machine stands, as Hadoop does: by a
// table in a file, or by asking a script.
package topology

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Topology answers from a file: an executable one is called with a host as its
// argument and prints its rack; any other is a table with a host and a rack on
// each line, read again when it has changed. It is safe for concurrent use.
type Topology struct {
	path   string
	script bool
	mu     struct {
		sync.Mutex
		seen  fs.FileInfo
		racks map[string]string // of the table, or as the script has said
	}
}

// scriptTimeout is how long the script may take.
const scriptTimeout = 10 * time.Second

// maxRack is the longest name of a rack.
const maxRack = 255

// Open opens a file. A table must be readable now.
func Open(path string) (*Topology, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	t := &Topology{path: path, script: info.Mode()&0o111 != 0}
	t.mu.racks = map[string]string{}
	if t.script {
		if t.path, err = filepath.Abs(path); err != nil { // exec looks up bare names elsewhere
			return nil, err
		}
		return t, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.readLocked()
}

// Rack returns the rack of a host, "" if it is not known. An error comes with the
// rack that was known before, if there was one.
func (t *Topology) Rack(host string) (string, error) {
	if t.script {
		return t.ask(host)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.readLocked()
	return t.mu.racks[host], err
}

// ask calls the script. What it has said of a host holds until it says
// otherwise.
func (t *Topology) ask(host string) (string, error) {
	if strings.HasPrefix(host, "-") {
		return "", fmt.Errorf("host %q: looks like an option", host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.path, host)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	rack := strings.TrimSpace(string(out))
	if err == nil {
		err = checkRack(rack)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		return t.mu.racks[host], fmt.Errorf("%s %s: %w: %s", t.path, host, err, strings.TrimSpace(stderr.String()))
	}
	t.mu.racks[host] = rack
	return rack, nil
}

func checkRack(rack string) error {
	if rack == "" || len(rack) > maxRack || strings.ContainsAny(rack, " \t\r\n\x00") {
		return fmt.Errorf("%q is no name of a rack", rack)
	}
	return nil
}

// readLocked reads the table if it has changed. A bad one changes nothing.
func (t *Topology) readLocked() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return err
	}
	if s := t.mu.seen; s != nil && info.ModTime().Equal(s.ModTime()) && info.Size() == s.Size() {
		return nil
	}
	b, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	t.mu.seen = info // a bad table is told of once
	racks, err := parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.mu.racks = racks
	return nil
}

// parse reads a table. Empty lines and what follows a # are passed over.
func parse(b []byte) (map[string]string, error) {
	racks := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	var errs []error
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		switch {
		case len(f) == 0:
		case len(f) != 2 || len(f[1]) > maxRack:
			errs = append(errs, fmt.Errorf("line %d: want a host and a rack", n))
		default:
			racks[f[0]] = f[1]
		}
	}
	return racks, errors.Join(append(errs, lines.Err())...)
}
