// Command keepertest runs the storage servers that tests of several packages share.
//
//	keepertest prepare hdfs s3   fetches and builds the servers
//	keepertest keep hdfs         runs the servers until no test uses them
//	keepertest stop hdfs s3      stops the servers at once
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slotwise/slotwise/internal/storage/serverstest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: keepertest prepare|keep|stop KIND")
	}
	var do func(kind string) error
	switch args[0] {
	case "prepare":
		do = serverstest.Prepare
	case "keep":
		do = func(kind string) error { return serverstest.Keep(ctx, kind) }
	case "stop":
		do = serverstest.Stop
	default:
		return fmt.Errorf("unknown command %q", args[0])
	}
	for _, kind := range args[1:] {
		if err := do(kind); err != nil {
			return err
		}
	}
	return nil
}
