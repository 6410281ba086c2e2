//go:build !linux

package storage

import "errors"

// renameNoReplace is not available.
func renameNoReplace(_, _ string) error { return errors.ErrUnsupported }
