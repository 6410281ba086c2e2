package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/generate"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// generateFlags are the flags of generate. The bytes of a data set depend on the kind, size, seed
// and params alone, so tests and benchmarks name a data set by its command line and do not store
// it.
type generateFlags struct {
	// Of all files together.
	size      terminal.Size
	seed      uint64
	output    string
	overwrite bool
	force     bool
	params    []string
	quiet     bool
	json      bool
}

// newGenerate returns the command that makes data sets.
func newGenerate() *cobra.Command {
	f := generateFlags{size: 64 << 20}
	c := &cobra.Command{
		Use:   "generate KIND --output DIR",
		Short: "Make inputs: text, records and other data for the apps",
		Long: `Makes a data set of KIND in a new directory. The same kind, size, seed and
parameters give the same bytes on any machine. Without KIND it lists the kinds.`,
		Example: `  slotwise generate
  slotwise generate text --size 1GiB --seed 1 --output words
  slotwise generate records --size 100MiB --output records`,
		Args:              atMostOne("kind"),
		ValidArgsFunction: completeFirst(kindNames, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listKinds(c.OutOrStdout(), f.json)
			}
			return f.run(c, args[0])
		},
	}
	c.Flags().SortFlags = false
	// 64 MiB unless it is given: enough for several maps, and made in a second.
	c.Flags().Var(&f.size, "size", "how many bytes, in all files together")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "`number` that picks one of many data sets of a kind")
	c.Flags().StringVar(&f.output, "output", "", "`directory` to make")
	// Both words as in run: --overwrite for an earlier data set, --force for anything.
	c.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace an earlier data set in the directory")
	c.Flags().BoolVar(&f.force, "force", false, "like --overwrite, and replace the directory even if it contains other files")
	c.Flags().StringArrayVar(&f.params, "param", nil, "parameter of the kind, `name=value` (repeatable)")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	addPrint(c, &f.json)
	return c
}

// run makes the data set.
func (f *generateFlags) run(c *cobra.Command, name string) error {
	kind, ok := generate.Lookup(name)
	if !ok {
		return unknown("kind", name, kindNames())
	}
	// No default such as the kind's name: the command replaces nothing unasked, and would fail in a
	// second run.
	if f.output == "" {
		return misuse("--output is missing: the directory to make")
	}
	if scheme, rest := storage.SplitURI(f.output); scheme == "file" {
		f.output = rest
	} else if scheme != "" {
		return misuse("--output %s: generate writes local files only; name a local directory and copy it with the storage's own tools", f.output)
	}
	params, err := parseAssignments("param", f.params)
	if err != nil {
		return err
	}
	start := time.Now()
	written, err := f.make(c, kind, params)
	if err != nil {
		return f.explain(err)
	}
	return f.summarize(c, kind, written, time.Since(start))
}

// make runs the generator with a progress display and returns the number of bytes written. The
// count is the last one that the generator has reported: files end at whole records, so it differs
// from --size.
func (f *generateFlags) make(c *cobra.Command, kind generate.Kind, params map[string]string) (int64, error) {
	show := newByteDisplay(c.ErrOrStderr(), f.quiet, kind.Name, int64(f.size))
	defer show.close()
	var written int64
	err := kind.Run(c.Context(), generate.Options{
		Size:      int64(f.size),
		Seed:      f.seed,
		Dir:       f.output,
		Overwrite: f.overwrite,
		Force:     f.force,
		Params:    params,
		// Called by one goroutine, as byteDisplay requires.
		Progress: func(n int64) { written = n; show.update(n) },
	})
	return written, err
}

// explain adds advice to an error. All errors but errors of files count as
// misuse.
func (f *generateFlags) explain(err error) error {
	var param *generate.UnknownParamError
	var file *fs.PathError
	var foreign *generate.ForeignFileError
	switch {
	case errors.As(err, &param):
		var names []string
		for _, p := range param.Kind.Params {
			names = append(names, p.Name)
		}
		return unknown(param.Kind.Name+" parameter", param.Name, names)
	case errors.As(err, &foreign):
		return misuse("--output %s: %w", f.output, foreign)
	// Before the case of a PathError, which such an error may be, too.
	case errors.Is(err, fs.ErrExist):
		return misuse("--output %s: exists and is not empty; --overwrite replaces an earlier data set", f.output)
	case errors.As(err, &file):
		return fmt.Errorf("--output %s: %w", f.output, file.Err)
	}
	return misuseError{err}
}

// summarize prints the size and the time of the new data set, on standard error like the summary of
// a job: the result is the directory.
func (f *generateFlags) summarize(c *cobra.Command, kind generate.Kind, written int64, took time.Duration) error {
	if f.json {
		return encode(c.OutOrStdout(), struct {
			Kind    string        `json:"kind"`
			Seed    uint64        `json:"seed"`
			Output  string        `json:"output"`
			Bytes   int64         `json:"bytes"`
			Elapsed time.Duration `json:"elapsed_ns"`
		}{kind.Name, f.seed, f.output, written, took})
	}
	if !f.quiet {
		terminal.Fprintf(c.ErrOrStderr(), "%s: %s of %s in %s\n",
			f.output, terminal.Bytes(written), kind.Name, terminal.Duration(took))
	}
	return nil
}

// listKinds prints a line for each kind and for each of its parameters, in the form in which they
// are given on the command line.
func listKinds(w io.Writer, asJSON bool) error {
	if asJSON {
		return kindsJSON(w)
	}
	t := table(w)
	for _, k := range generate.Kinds() {
		terminal.Fprintf(t, "%s\t%s\n", k.Name, k.Summary)
		for _, p := range k.Params {
			terminal.Fprintf(t, "\t--param %s=%s: %s\n", p.Name, p.Default, p.Help)
		}
	}
	return t.Flush()
}

// kindsJSON prints the kinds as a JSON array.
func kindsJSON(w io.Writer) error {
	type param struct {
		Name    string `json:"name"`
		Default string `json:"default"`
		Help    string `json:"help"`
	}
	type kind struct {
		Name    string  `json:"name"`
		Summary string  `json:"summary"`
		Params  []param `json:"params"`
	}
	var out []kind
	for _, k := range generate.Kinds() {
		params := []param{}
		for _, p := range k.Params {
			params = append(params, param(p))
		}
		out = append(out, kind{k.Name, k.Summary, params})
	}
	return encodeIndented(w, out)
}

// kindNames returns the names of the kinds.
func kindNames() []string {
	var names []string
	for _, k := range generate.Kinds() {
		names = append(names, k.Name)
	}
	return names
}
