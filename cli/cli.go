// Package cli is the slotwise command line: flags, printing and exit codes. The
// work is done by other packages.
//
// A command writes its result to standard output and everything else to standard
// error. The exit status is 0 for success, 1 for a failed job, 2 for misuse and
// 130 after an interrupt.
package cli

import (
	"context"
	"io"
	"os"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/storage/schemes"
	"github.com/slotwise/slotwise/mapreduce"
)

// Main runs the command line of this process and exits with its status. It does
// not return.
func Main() {
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
