package machines

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

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// Topology maps hosts to racks like Hadoop does, with a file. If the file is executable, Topology calls it
// with a host as argument, and it prints the rack. Otherwise the file is a table with a
// host and a rack on each line, which is read again when it changes. A Topology is safe
// for concurrent use.
type Topology struct {
	path   string
	script bool
	mu     struct {
		sync.Mutex
		seen  fs.FileInfo
		racks map[string]string // from the table, or from the script's last answers
	}
}

// scriptTimeout is the time limit of the script.
const scriptTimeout = 10 * time.Second

// OpenTopology returns the Topology of a file. It returns an error if a table cannot be read.
func OpenTopology(path string) (*Topology, error) {
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

// Rack returns the rack of a host, or "" if it is unknown. After an error it returns the
// rack that was known before, if any.
func (t *Topology) Rack(host string) (string, error) {
	if t.script {
		return t.runScript(host)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.readLocked()
	return t.mu.racks[host], err
}

// runScript calls the script and remembers its answer for the host.
func (t *Topology) runScript(host string) (string, error) {
	// The host is the worker's own word, so it must not become an option of somebody's script.
	if strings.HasPrefix(host, "-") {
		return "", fmt.Errorf("host %q: a host name must not begin with a hyphen, because the topology script would take it for an option", host)
	}
	// Outside the lock: the script may take long, and other workers register meanwhile.
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	// One host for each call, although Hadoop passes many: a worker that registers waits for its own rack only.
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
		// The rack of an earlier answer stays: a script that fails for a moment must not move the
		// worker to the default rack.
		return t.mu.racks[host], fmt.Errorf("%s %s: %w: %s", t.path, host, err, strings.TrimSpace(stderr.String()))
	}
	t.mu.racks[host] = rack
	return rack, nil
}

func checkRack(rack string) error {
	if rack == "" || len(strings.Fields(rack)) != 1 {
		return fmt.Errorf("%+.300q is not a valid name of a rack", rack)
	}
	return bounds.CheckName("the name of a rack", rack)
}

// readLocked reads the table if it has changed. An invalid table changes nothing.
func (t *Topology) readLocked() error {
	// Before the file is read: a change between the two is found by the next call.
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
	t.mu.seen = info // an invalid table is reported once
	racks, err := parseTable(b)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.mu.racks = racks
	return nil
}

// parseTable parses a table. It ignores empty lines, and text after a #.
func parseTable(b []byte) (map[string]string, error) {
	racks := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	var errs []error
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		switch {
		case len(f) == 0:
		// All bad lines are reported at once, so the file is repaired in one edit.
		case len(f) != 2 || checkRack(f[1]) != nil:
			errs = append(errs, fmt.Errorf("line %d: each line must hold a host and a rack of at most %d bytes, without control characters", n, bounds.Name))
		default:
			racks[f[0]] = f[1]
		}
	}
	return racks, errors.Join(append(errs, lines.Err())...)
}
