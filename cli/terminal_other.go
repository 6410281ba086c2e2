//go:build !linux

package cli

import (
	"io"
	"os"
)

// readKeys reads nothing here: an interrupt ends what would listen to keys.
func readKeys(io.Reader) (keys <-chan byte, restore func()) { return nil, func() {} }

// terminalSize returns a size that nearly every terminal has.
func terminalSize(*os.File) (width, height int) { return 80, 24 }
