package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// printForms are the values of --print, whose short form is -o, as in kubectl. There is one flag
// for all commands, so that a script needs not know which commands list and which report.
var printForms = []string{"text", "json"}

// printForm is the value of --print: false for text, true for JSON.
type printForm bool

// String implements pflag.Value.
func (f *printForm) String() string {
	if *f {
		return "json"
	}
	return "text"
}

// Set implements pflag.Value.
func (f *printForm) Set(text string) error {
	if !slices.Contains(printForms, text) {
		return fmt.Errorf("%q: must be text or json", text)
	}
	*f = text == "json"
	return nil
}

// Type implements pflag.Value.
func (*printForm) Type() string { return "form" }

// oldJSON is the value of --json, which was the flag of some commands before --print.
type oldJSON bool

// String implements pflag.Value.
func (f *oldJSON) String() string { return fmt.Sprint(bool(*f)) }

// Set implements pflag.Value.
func (f *oldJSON) Set(text string) error {
	switch text {
	case "true", "false":
		*f = text == "true"
		return nil
	}
	return fmt.Errorf("%q: must be true or false", text)
}

// Type implements pflag.Value.
func (*oldJSON) Type() string { return "bool" }

// addPrint adds the flag -o, --print to a command that prints data. It sets asJSON. The
// hidden flag --json does the same: version 0.2 accepts it, a later one will not.
func addPrint(c *cobra.Command, asJSON *bool) {
	s := c.Flags()
	s.VarP((*printForm)(asJSON), "print", "o", "`form` of the results: text or json")
	completeWords(c, "print", printForms)
	old := s.VarPF((*oldJSON)(asJSON), "json", "", "")
	old.Hidden, old.NoOptDefVal = true, "true"
}

// commandLineOnly is an annotation of flags that the environment and files of settings do
// not set.
const commandLineOnly = "command line only"

// addListingPrint is addPrint for a command that lists things. Its flag used to be --format,
// which is hidden now, like --json. A file of settings does not set it, because it may
// serve submit too, whose --format is the input's.
func addListingPrint(c *cobra.Command, asJSON *bool) {
	addPrint(c, asJSON)
	old := c.Flags().VarPF((*printForm)(asJSON), "format", "", "")
	old.Hidden, old.Annotations = true, map[string][]string{commandLineOnly: nil}
}

// notAForm returns the error for a wrong value of -o. Users of other tools expect -o to name
// the output.
func notAForm(c *cobra.Command, value string) error {
	if c.Flags().Lookup("output") == nil {
		return misuse("-o %q: must be text or json", value)
	}
	return misuse("-o %q: must be text or json, the form of what is printed; --output %s names the output", value, value)
}

// wantsJSON reports whether a command line of c asks for JSON. The command line may be
// invalid: then the flags behind the mistake have not been parsed.
func wantsJSON(c *cobra.Command, args []string) bool {
	f := c.Flags().Lookup("print")
	if f == nil {
		return false
	}
	if f.Value.String() == "json" {
		return true
	}
	// Behind it all words are arguments.
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	flags := []string{"--print", "-o"}
	if isPrintForm(c.Flags().Lookup("format")) {
		flags = append(flags, "--format")
	}
	// Each word is compared, because the parser has stopped at the mistake, perhaps before the flag.
	for i, a := range args {
		name, value, joined := strings.Cut(a, "=")
		switch {
		case a == "--json", a == "--json=true", a == "-ojson":
			return true
		case slices.Contains(flags, name) && joined && value == "json":
			return true
		case slices.Contains(flags, a) && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

// isPrintForm reports whether a flag chooses the form of the printed result. --format of run is
// the format of the input.
func isPrintForm(f *pflag.Flag) bool {
	if f == nil {
		return false
	}
	_, ok := f.Value.(*printForm)
	return ok
}

// encodeIndented prints a value as JSON on several lines, for people.
func encodeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// encode prints a value as JSON on one line.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
