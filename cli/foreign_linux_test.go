package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"net/http/httptest"

	"golang.org/x/sys/unix"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// screen is a pseudo-terminal whose screen a test reads.
type screen struct {
	*os.File // the side that programs write to
	screen   clustertest.Buffer
	read     chan struct{} // closed when the program's side is closed and all is read
}

// openTerminal opens a pseudo-terminal. Without one, the test is skipped.
func openTerminal(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 400})
	}
	if err != nil {
		t.Skip(err)
	}
	file, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	p := &screen{File: file, read: make(chan struct{})}
	go func() {
		defer close(p.read)
		io.Copy(writerTo(&p.screen), master) // ends with EIO when the other side is closed
		master.Close()
	}()
	return p
}

// writerTo hides ReadFrom of a buffer from io.Copy, which would bypass its lock.
func writerTo(b *clustertest.Buffer) io.Writer { return struct{ io.Writer }{b} }

// shown closes the terminal and returns the text written to it.
func (p *screen) shown() string {
	p.Close()
	<-p.read
	return p.screen.String()
}

// The program's own escape sequences reach a terminal: progress bars, and the screen of top.
// Sequences of others do not.
func TestForeignTextOnTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	writeHostileFiles(t)
	answers := httptest.NewServer(hostileMaster{t: t})
	defer answers.Close()
	t.Setenv("SLOTWISE_MASTER", answers.URL)
	slow := `jobs: [{name: "evil\e]0;owned\a\u009b2J", mapper: "printf '\\033]0;owned\\007evil\\n' >&2; sleep 1; cat", input: in, output: o}]`
	if err := os.WriteFile("slow.yaml", []byte(slow), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		own    string // an escape sequence of the program, "" for none
		raw    bool   // the hostile text is printed unchanged
		status int
	}{
		{args: []string{"run", "--jobs", "slow.yaml"}, own: "\x1b["},
		{args: []string{"top"}, own: screenOn},
		{args: []string{"jobs", "--all"}},
		{args: []string{"jobs", "-o", "json"}},
		{args: []string{"logs", "j1_m_0_0"}},
		{args: []string{"logs", "j1_m_0_0", "--raw"}, raw: true},
		{args: []string{"run", hostile}, status: exitMisuse},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		p := openTerminal(t)
		if tt.args[0] == "top" { // it does not end by itself
			go func() {
				for !strings.Contains(p.screen.String(), "evil") && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				cancel()
			}()
		}
		if status := execute(ctx, tt.args, p.File, p.File); status != tt.status {
			t.Errorf("%q: status %d, want %d", tt.args, status, tt.status)
		}
		cancel()
		text := p.shown()
		switch obeyed := strings.Contains(text, "\x1b]0;") || strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\u009b"); {
		case !strings.Contains(text, "evil"):
			t.Errorf("%q shows no hostile text: %q", tt.args, text)
		case obeyed != tt.raw:
			t.Errorf("%q: hostile sequences unchanged: %t, want %t: %q", tt.args, obeyed, tt.raw, text)
		case !strings.Contains(text, tt.own):
			t.Errorf("%q: the program's own sequence %q is missing: %q", tt.args, tt.own, text)
		case tt.own == "" && !tt.raw && acts(strings.ReplaceAll(text, "\r\n", "\n"), true) != "":
			t.Errorf("%q: %s: %q", tt.args, acts(text, true), text)
		}
	}
}
