package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// envPrefix begins the names of variables that set flags: SLOTWISE_MAP_SLOTS sets --map-slots. For
// example, with max-file: 2GiB in the file, SLOTWISE_MAX_FILE=4GiB and no flag, a master takes 4
// GiB; with --max-file 1GiB it takes 1 GiB.
const envPrefix = "SLOTWISE_"

// addSettings lets the environment and a file set the flags of a command. The command line has
// priority over the environment, and the environment over the file: the nearer to this call, the
// stronger. Master and worker need it for containers, and the commands of users for the address and
// the token of their cluster. run, sim and other commands without a cluster have none. The parameter run is
// what the command does.
func addSettings(c *cobra.Command, run func(*cobra.Command, []string) error) {
	c.Flags().String("config", "", "`file` with settings: a YAML mapping of flag names to values; the variable SLOTWISE_NAME overrides it")
	// Flags are set before run looks at any; Changed is true then, as for the command line.
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := readSettings(c); err != nil {
			return err
		}
		return run(c, args)
	}
}

// envName returns the name of the variable that sets a flag. The names are made and not listed, so
// a new flag has its variable at once.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readSettings sets the flags that the command line does not set.
func readSettings(c *cobra.Command) error {
	// The environment comes first, since it may set --config. A flag that it sets is Changed, and the
	// file does not touch it.
	if err := fromEnvironment(c); err != nil {
		return err
	}
	file, err := c.Flags().GetString("config")
	if err != nil || file == "" {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return misuse("--config %s: %w", file, reason(err))
	}
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return misuse("--config %s: %w", file, err)
	}
	return fromFile(c, file, doc)
}

// fromEnvironment sets flags from variables. Variables that name no flag of this command are
// ignored: they may be another command's, and Kubernetes sets SLOTWISE_MASTER_PORT and others for a
// service of that name.
func fromEnvironment(c *cobra.Command) error {
	var errs []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(envName(f.Name))
		// An empty variable makes a list empty. For any other flag it is a common way to unset the variable.
		if _, list := f.Value.(pflag.SliceValue); value == "" && !list {
			return
		}
		if set && !f.Changed && !onCommandLineOnly(f) {
			if err := setFlag(c, f, splitList(f, value)); err != nil {
				errs = append(errs, misuse("%s: %w", envName(f.Name), err))
			}
		}
	})
	return errors.Join(errs...)
}

// fromCommandLineOnly keeps settings from setting flags that have the names of other commands'
// flags with another meaning. A variable for --name of worker would name all jobs, and one for
// --user of submit would let kill with an id kill all jobs of that user.
func fromCommandLineOnly(s *pflag.FlagSet, names ...string) {
	for _, name := range names {
		s.Lookup(name).Annotations = map[string][]string{commandLineOnly: nil}
	}
}

// onCommandLineOnly reports whether settings do not set a flag.
func onCommandLineOnly(f *pflag.Flag) bool {
	_, only := f.Annotations[commandLineOnly]
	return only
}

// splitList splits the variable of a repeatable flag at commas.
func splitList(f *pflag.Flag, value string) []string {
	if _, list := f.Value.(pflag.SliceValue); !list {
		return []string{value}
	}
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// fromFile sets flags from a file. The file may serve several commands, so names of other commands'
// flags are ignored. A name that no command has is an error, because it is a misspelt one.
func fromFile(c *cobra.Command, file string, doc map[string]yaml.Node) error {
	var errs []error
	known := map[string]bool{}
	// The executed tree has no other commands, so that their flags are looked up in another one.
	for _, sub := range newRoot(&setup{program: product}, io.Discard).Commands() {
		sub.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for name, node := range doc {
		f := c.Flags().Lookup(name)
		switch {
		case f == nil && !known[name]:
			errs = append(errs, misuse("--config %s: line %d: %w", file, node.Line, unknown("setting", name, flagNames(c))))
			continue
		case f == nil || f.Changed || name == "config" || onCommandLineOnly(f):
			continue
		}
		values, err := yamlValues(&node)
		if err == nil {
			err = setFlag(c, f, values)
		}
		if err != nil {
			errs = append(errs, misuse("--config %s: line %d: %s: %w", file, node.Line, name, err))
		}
	}
	return errors.Join(errs...)
}

// flagNames returns the names of a command's flags without hidden ones.
func flagNames(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// yamlValues reads a single value or a list of values.
func yamlValues(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	// The written text, so that 010 and yes reach the flag unchanged.
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		var values []string
		return values, n.Decode(&values)
	}
	return nil, errors.New("want a value or a list of values")
}

// setFlag sets a flag as if the command line had set it, several times for a
// list.
func setFlag(c *cobra.Command, f *pflag.Flag, values []string) error {
	if _, list := f.Value.(pflag.SliceValue); !list && len(values) != 1 {
		return errors.New("want one value")
	}
	for _, v := range values {
		// Set marks the flag as changed, which keeps a weaker source from setting it.
		if err := c.Flags().Set(f.Name, v); err != nil {
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				return invalidValue(invalid)
			}
			return err
		}
	}
	return nil
}

// onceValue is the value of a flag that may be given once. pflag takes the last of several
// values, which hides a mistake where users expect a list.
type onceValue struct {
	text  *string
	given bool
}

// String implements pflag.Value.
func (v *onceValue) String() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Set implements pflag.Value.
func (v *onceValue) Set(text string) error {
	if v.given {
		return fmt.Errorf("%q: the flag was given already, with %q; it takes one value", text, *v.text)
	}
	*v.text, v.given = text, true
	return nil
}

// Type implements pflag.Value.
func (v *onceValue) Type() string { return "string" }

// defaultMaster is the default address of a master.
const defaultMaster = "127.0.0.1:7077"

// masterNote ends the help text of commands that talk to a master.
const masterNote = `

The master is the value of --master, else of SLOTWISE_MASTER, else of "master" in
the file of --config, else ` + defaultMaster + `.`
