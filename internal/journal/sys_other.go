//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package journal

import "os"

// lockFile does nothing, because this system has no such locks. The operator must
// make sure that only one master uses the directory.
func lockFile(*os.File) error { return nil }

// syncDir does nothing, because this system cannot flush directories.
func syncDir(string) error { return nil }
