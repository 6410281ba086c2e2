//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
)

// dialIn needs network namespaces.
func dialIn(string) (dial func(ctx context.Context, network, address string) (net.Conn, error), end func(), err error) {
	return nil, nil, errors.New("three masters run in network namespaces, which only Linux has")
}

// listenIn is not available on this system.
func listenIn(string, string) (net.Listener, error) {
	return nil, errors.ErrUnsupported
}
