//go:build !linux

package main

// warm does nothing here.
func warm(int) {}
