//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package storage

import "io/fs"

func isMount(_, _ fs.FileInfo) bool { return false }
