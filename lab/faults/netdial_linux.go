package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialIn returns a function that dials in a namespace, and one that ends it. A socket belongs to the
// namespace of the thread that makes it, so one thread enters the namespace and makes all sockets.
func dialIn(namespace string) (dial func(ctx context.Context, network, address string) (net.Conn, error), end func(), err error) {
	sockets, wanted := make(chan int), make(chan struct{})
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		f, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		if ready <- err; err != nil {
			return
		}
		for range wanted {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				fd = -1
			}
			sockets <- fd
		}
	}()
	if err := <-ready; err != nil {
		return nil, nil, err
	}
	return func(_ context.Context, _, address string) (net.Conn, error) {
		wanted <- struct{}{}
		return connect4(<-sockets, address)
	}, func() { close(wanted) }, nil
}

// listenIn listens in a namespace.
func listenIn(namespace, address string) (l net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		f, openErr := os.Open("/run/netns/" + namespace)
		if err = openErr; err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		if err == nil {
			l, err = net.Listen("tcp4", address)
		}
	}()
	<-done
	return l, err
}

// connect4 connects a socket to an address, within half a second.
func connect4(fd int, address string) (net.Conn, error) {
	a, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil || fd < 0 {
		return nil, errors.Join(err, errors.New("no socket"))
	}
	f := os.NewFile(uintptr(fd), address)
	defer f.Close()
	limit := syscall.Timeval{Usec: 500_000}
	sa := &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
	if err := errors.Join(syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit), syscall.Connect(fd, sa)); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return net.FileConn(f)
}
