//go:build !linux

package storage

import "errors"

func exchange(_, _ string) error { return errors.ErrUnsupported }
