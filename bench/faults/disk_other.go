//go:build !linux

package main

import "errors"

func mountDisk(string) error   { return errors.ErrUnsupported }
func unmountDisk(string) error { return errors.ErrUnsupported }
