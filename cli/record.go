package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/study"
)

// unrecorded are flags of simulating commands that change no number, such as the location and the form
// of the results. A new flag is recorded unless it is named here, which is the safe side.
var unrecorded = []string{"help", "print", "json", "quiet", "out", "overwrite", "events", "explain", "memory", "workers", "dry-run"}

// recordOf begins the record of a simulating command: the program, the command, and all flags with
// their values. Flags from a file of settings or the environment are in the command, too. Copied to
// a shell in the same directory, the command makes the same numbers again.
func recordOf(c *cobra.Command, args []string) *report.Record {
	r := &report.Record{Program: readBuild().program()}
	words := append([]string{"slotwise", c.Name()}, args...)
	// Without the profiling flags of the root, which change no number either.
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(unrecorded, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			// A value of such a flag is one word with commas; of stringArray each is a separate word,
			// since it may contain commas.
			if f.Value.Type() == "stringSlice" && len(values) > 0 {
				values = []string{strings.Join(values, ",")}
			}
		}
		r.Settings = append(r.Settings, report.Setting{Name: f.Name, Value: strings.Join(values, " ")})
		// All settings are in the record; in the command the defaults would hide the choices.
		if f.Value.String() == f.DefValue {
			return
		}
		for _, v := range values {
			words = append(words, "--"+f.Name, v)
		}
	})
	for i, w := range words {
		words[i] = shellWord(w)
	}
	r.Command = strings.Join(words, " ")
	return r
}

// plainWord matches words that a shell leaves unchanged. It is narrow: a word that is quoted
// without need does no harm.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:=,+@%-]+$`) })

// shellWord quotes a word for a shell of Unix if it needs quotes.
func shellWord(w string) string {
	if plainWord().MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// addFiles adds the files that a setting names to a record. A name that is no file, such as the name
// of a world or the short form of a cluster, is left out.
func addFiles(r *report.Record, use string, names ...string) error {
	for _, name := range names {
		f, err := study.FileOf(use, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", use, err)
		}
		r.Files = append(r.Files, f)
	}
	return nil
}

// program returns the version with the commit of the sources.
func (f buildFacts) program() string {
	name, _, _ := strings.Cut(f.String(), " (go")
	return name
}
