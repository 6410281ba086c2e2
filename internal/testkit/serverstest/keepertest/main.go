// Command keepertest runs storage servers for tests: servers that the tests of several
// packages share, and servers that one process controls.
//
//	keepertest prepare hdfs s3   fetches and builds the servers (also yarn)
//	keepertest keep hdfs         runs the servers until no test uses them
//	keepertest stop hdfs s3      stops the servers at once
//	keepertest own hdfs DIR      runs servers for its parent; see serverstest.Own
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// ownDataNodes is the number of DataNodes of "own hdfs".
const ownDataNodes = 4

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
		return fmt.Errorf("usage: keepertest prepare|keep|stop KIND, or keepertest own KIND DIR")
	}
	if args[0] == "own" && len(args) == 3 {
		return serverstest.Own(ctx, args[1], args[2], ownDataNodes, os.Stdin, os.Stdout)
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
