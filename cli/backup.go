package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/master"
)

// newBackup returns the command that copies a master's directory.
func newBackup() *cobra.Command {
	to, asJSON := "", false
	c := &cobra.Command{
		Use:   "backup DIR --to FILE",
		Short: "Copy a master's directory to a file",
		Long: `Copies the directory of a master, which may be running, to a new file: the journal,
the history, and the files of jobs. All checksums are verified. Keep the file secret
like the directory: it holds the programs and the parameters of all users' jobs.`,
		Example: "  slotwise master backup /var/lib/slotwise --to /backup/slotwise-monday.tar",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return misuse("--to is missing: the file to write")
			}
			// Without a lock, because the master may run. Backup explains why the copy is consistent all
			// the same.
			sum, err := master.Backup(durable.OS(), args[0], to)
			// Asked after the error, since only then the difference matters: a wrong name is a misuse, a
			// damaged file is not.
			if _, missing := os.Stat(args[0]); err != nil && missing != nil {
				return misuse("backup of %s: %w; name the directory of a master", args[0], reason(missing))
			}
			if err != nil {
				return fmt.Errorf("backup of %s: %w", args[0], err)
			}
			return printBackup(c.OutOrStdout(), sum, to, asJSON)
		},
	}
	c.Flags().StringVar(&to, "to", "", "`file` to write; it must not exist (required)")
	addPrint(c, &asJSON)
	return c
}

// newRestore returns the command that makes a master's directory of a backup.
func newRestore() *cobra.Command {
	from, asJSON := "", false
	c := &cobra.Command{
		Use:   "restore DIR --from FILE",
		Short: "Make a master's directory from a backup",
		Long: `Makes a master's directory from a file of slotwise master backup. DIR must not exist
or be empty. It appears when all checksums and the journal have been verified.

End the former master before you start one on the restored directory.`,
		Example: "  slotwise master restore /var/lib/slotwise --from /backup/slotwise-monday.tar",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return misuse("--from is missing: the file of slotwise master backup")
			}
			sum, err := master.Restore(durable.OS(), from, args[0])
			if err != nil {
				return fmt.Errorf("restoring %s: %w", args[0], err)
			}
			return printBackup(c.OutOrStdout(), sum, args[0], asJSON)
		},
	}
	c.Flags().StringVar(&from, "from", "", "`file` of slotwise master backup (required)")
	addPrint(c, &asJSON)
	return c
}

// oneDirectory checks that the only argument is the master's directory.
func oneDirectory(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return misuse("%s: want the master's directory (usage: slotwise master %s)", c.Name(), c.Use)
	}
	return nil
}

// printBackup prints the number and size of the copied files, and the path of the copy.
func printBackup(w io.Writer, s master.BackupSummary, to string, asJSON bool) error {
	if asJSON {
		return encode(w, struct {
			Path  string `json:"path"`
			Files int    `json:"files"`
			Bytes int64  `json:"bytes"`
		}{to, s.Files, s.Bytes})
	}
	_, err := terminal.Fprintf(w, "%d files, %s: %s\n", s.Files, terminal.Bytes(s.Bytes), to)
	return err
}
