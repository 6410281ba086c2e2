package cli

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// newSchema returns the command that prints the columns of files. It reads by the same package as
// jobs do, with the same flags, so that a table which is shown here is the table that a job gets.
func newSchema() *cobra.Command {
	opts := input.Options{}
	choice := format.Choice{}
	var asJSON, files bool
	c := &cobra.Command{
		Use:   "schema INPUT...",
		Short: "Print the columns of files and their types",
		Long: `Prints the columns of all files of an input, with their types, and which files lack
one. Inputs are files, directories or globs of CSV, JSON lines, Parquet, Avro or
SequenceFiles, compressed or not. Directories such as part=0 are columns, too.

Parquet and Avro files state types. Of CSV and JSON lines the first 1000 records of
each file show them. A column whose files differ has the type that fits all, and
the types of the files in parentheses.

With --where only the files are read whose directories meet the condition.`,
		Example: `  slotwise schema trips
  slotwise schema trips.csv --format 'csv,separator=;'
  slotwise schema trips --files -o json`,
		Args: atLeastOne("input"),
		RunE: func(c *cobra.Command, args []string) error {
			rows, err := choice.Spec()
			if err != nil {
				return misuseError{err}
			}
			opts.Inputs, opts.Rows, opts.Schemes = args, rows, storages()
			// Waits for a storage that is away, as the planning of a job does.
			s, err := retry.Do(c.Context(), feature.Outages{}.ForStorage("the storage of the input"), func(ctx context.Context) (*input.Schema, error) {
				return input.ReadSchema(ctx, opts)
			})
			switch {
			case err != nil:
				// A file that cannot be read as the format says is the user's to correct, as for
				// run.
				return misuseError{err}
			case asJSON:
				return encode(c.OutOrStdout(), s)
			}
			return printSchema(c.OutOrStdout(), s, files)
		},
	}
	f := c.Flags()
	f.StringVar(&choice.Format, "format", "", "`format` of the input, as in slotwise run (default: by the first bytes, then by the names)")
	f.StringArrayVar(&choice.Where, "where", nil, "read only files whose directories meet this `condition`, as part=0 (repeatable)")
	f.StringArrayVar(&opts.Include, "include", nil, "read only files whose names match this `glob` (repeatable)")
	f.StringArrayVar(&opts.Exclude, "exclude", nil, "skip files whose names match this `glob` (repeatable)")
	f.BoolVar(&files, "files", false, "also print a line for each file")
	completeWords(c, "format", format.Names)
	addPrint(c, &asJSON)
	return c
}

// printSchema prints a schema for people: the files by format, the columns, and, with files, each
// file. It goes through the files once, for sums that the head needs and a column's share of the
// files.
func printSchema(w io.Writer, s *input.Schema, files bool) error {
	total := int64(0)
	kinds := map[string]int{}
	var order []string
	guessed := ""
	withColumns := 0
	for i := range s.Files {
		f := &s.Files[i]
		total += f.Bytes
		kind := strings.TrimSpace(f.Format + " " + f.Codec)
		// The order of the first appearance, because a map has none.
		if kinds[kind]++; kinds[kind] == 1 {
			order = append(order, kind)
		}
		if f.Guessed {
			guessed = f.Format
		}
		// An empty file has no columns, and lacks none.
		if len(f.Columns)+len(f.InPath) > 0 {
			withColumns++
		}
	}
	for i, k := range order {
		order[i] = fmt.Sprintf("%d %s", kinds[k], terminal.Escape(k))
	}
	terminal.Fprintf(w, "%s, %s: %s\n", terminal.Plural(len(s.Files), "file"), terminal.Bytes(total), strings.Join(order, ", "))
	t := table(w)
	if len(s.Columns) > 0 {
		terminal.Fprintf(t, "\nCOLUMN\tTYPE\tFILES\n")
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		kind := c.Type
		// Only if files differ: the type that fits all, and what the files say.
		if len(c.Types) > 0 {
			kind += " (" + strings.Join(c.Types, ", ") + ")"
		}
		if c.InPath {
			kind += ", in the path"
		}
		where := "all"
		// One file as an example, which a user can open; the JSON lists all.
		if c.Files < withColumns {
			// Files of partitions often have one name, so the directory belongs to it.
			dir, name := path.Split(c.Without[0])
			where = fmt.Sprintf("%d of %d, not %s", c.Files, withColumns, path.Join(path.Base(dir), name))
		}
		terminal.Fprintf(t, "%s\t%s\t%s\n", terminal.Escape(c.Name), terminal.Escape(kind), terminal.Escape(where))
	}
	if files {
		terminal.Fprintf(t, "\nFILE\tSIZE\tFORMAT\tCOLUMNS\n")
		for i := range s.Files {
			f := &s.Files[i]
			names := make([]string, 0, len(f.Columns))
			for _, c := range append(f.Columns[:len(f.Columns):len(f.Columns)], f.InPath...) {
				names = append(names, c.Name+" "+c.Type)
			}
			terminal.Fprintf(t, "%s\t%s\t%s\t%s\n", terminal.Escape(f.URI), terminal.Bytes(f.Bytes), terminal.Escape(strings.TrimSpace(f.Format+" "+f.Codec)), terminal.Escape(strings.Join(names, ", ")))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	// schema guesses by the content, and a job takes text for lines unless --format says otherwise.
	// Without this line the user would expect columns.
	if guessed != "" {
		terminal.Fprintf(w, "\nJobs read such files as lines unless they are told --format %s.\n", guessed)
	}
	return nil
}
