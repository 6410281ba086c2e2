package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readKeys reads single keys from a terminal without echo. Interrupts still work, because ISIG
// stays set. restore resets the terminal; without it the user's shell would not show typed text.
// keys is nil if in is not a terminal, and a receive from it never happens.
func readKeys(in io.Reader) (keys <-chan byte, restore func()) {
	f, ok := in.(*os.File)
	if !ok {
		return nil, func() {}
	}
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, func() {}
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, func() {}
	}
	// The goroutine stays blocked in a read until the command ends.
	out := make(chan byte)
	go func() {
		var b [1]byte
		for {
			if n, err := f.Read(b[:]); n == 0 || err != nil {
				return
			}
			out <- b[0]
		}
	}()
	return out, func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }
}

// terminalSize returns columns and lines of a terminal, or a VT100's if it does not say: a serial
// line and some pseudo-terminals have the size 0.
func terminalSize(f *os.File) (width, height int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}
