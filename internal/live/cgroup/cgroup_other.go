//go:build !linux

package cgroup

import (
	"errors"
	"os"
)

// Tree and Group exist on Linux only.
type (
	Tree  struct{}
	Group struct{}
)

// Open fails: only Linux has control groups.
func Open(string) (*Tree, error) { return nil, errNone }

var errNone = errors.New("this system has no control groups")

// Own fails.
func Own() (string, error) { return "", errNone }

// OpenAt fails, as Open does.
func OpenAt(string, string, int, []string) (*Tree, error) { return nil, errNone }

// Create is never called, because there is no Tree.
func (*Tree) Create(string, Limits) (*Group, error) { return nil, errors.ErrUnsupported }

// Handle is never called, because there is no Group.
func (*Group) Handle() (*os.File, error) { return nil, errors.ErrUnsupported }

// Kill is never called, because there is no Group.
func (*Group) Kill() error { return errors.ErrUnsupported }

// OutOfMemory is never called, because there is no Group.
func (*Group) OutOfMemory() bool { return false }

// Remove is never called, because there is no Group.
func (*Group) Remove() error { return errors.ErrUnsupported }
