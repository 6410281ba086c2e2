//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package storage

import "os"

// readable finds out by opening.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}
