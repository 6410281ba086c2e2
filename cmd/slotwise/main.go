// Command slotwise runs MapReduce jobs over files of any size, on this machine
// and with no set-up. It is flags and printing; the work is done elsewhere.
//
// What a command produces goes to standard output, everything else to standard
// error. The exit status is 0 for success, 1 for a failed job, 2 for misuse and
// 130 after an interrupt.
package main

import (
	"context"
	"io"
	"os"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/storage/schemes"
	"github.com/slotwise/slotwise/mapreduce"
)

func main() {
	mapreduce.RunAttempt(apps.Lookup)
	ctx, stop := console.Interruptible(context.Background(), "slotwise", os.Stderr)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := schemes.Register(); err != nil {
		return report(ctx, err, stderr)
	}
	root, said := newRoot(), &counted{Writer: stdout}
	root.SetArgs(args)
	root.SetOut(stdout)
	if asksJSON(args) {
		root.SetOut(said)
	}
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	code := report(ctx, err, stderr)
	if code != exitOK && said.n == 0 && asksJSON(args) && c.Flags().Lookup("json") != nil {
		printFailure(stdout, code, err)
	}
	return code
}
