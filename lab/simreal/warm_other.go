//go:build !linux

package main

// warm does nothing on this system.
func warm(int) {}
