// Package generate makes inputs for jobs: text, records and whatever else the
// built-in apps read.
//
// What is made depends on kind, size, seed and parameters and on nothing else:
// not on the number of cores, not on the machine, not on the time. Each file
// has a seed of its own, derived by name and number, so files can be made in
// any order and at once.
//
// A data set becomes visible as a whole: it is written into a directory beside
// the one asked for, which takes its name when everything is there. When
// something fails or the caller gives up, nothing is left.
package generate

import (
	"context"
	"fmt"
	"strconv"
)

// Options say what to make and where.
type Options struct {
	// Size is about how many bytes to make, in all files together. Kinds that
	// cut their output at records make at most that many.
	Size int64
	// Seed picks one of many data sets of the same kind.
	Seed uint64
	// Dir is the directory to make. It must not exist, or be empty, unless
	// Overwrite is set.
	Dir string
	// Overwrite replaces Dir, once the new data set is complete.
	Overwrite bool
	// Params are the kind's own parameters; missing ones have their defaults.
	Params Params
	// Progress, if set, is told how many bytes were written so far. Calls never
	// overlap, but may come from different goroutines.
	Progress func(written int64)
}

// Kind is one kind of data set.
type Kind struct {
	Name    string // as on the command line
	Summary string // one line
	Params  []Param
	// Func makes the data set. On an error, ctx's too, it leaves nothing.
	Func func(ctx context.Context, o Options) error
}

// Param is a parameter of a kind, with its default.
type Param struct {
	Name, Default, Help string
}

// Params are the values given for a kind's parameters.
type Params map[string]string

// Get returns the value of a parameter, "" if there is none.
func (p Params) Get(name string) string { return p[name] }

// Int returns a parameter as an integer of at least min.
func (p Params) Int(name string, min int64) (int64, error) {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parameter %s: %q is not a whole number", name, p[name])
	}
	if n < min {
		return 0, fmt.Errorf("parameter %s: %d is less than %d", name, n, min)
	}
	return n, nil
}

// Float returns a parameter as a number.
func (p Params) Float(name string) (float64, error) {
	f, err := strconv.ParseFloat(p[name], 64)
	if err != nil || f != f {
		return 0, fmt.Errorf("parameter %s: %q is not a number", name, p[name])
	}
	return f, nil
}

// Run makes a data set of kind k, with defaults filled in and parameters that
// the kind does not have refused.
func (k Kind) Run(ctx context.Context, o Options) error {
	if o.Size < 0 {
		return fmt.Errorf("size %d is negative", o.Size)
	}
	params := make(Params, len(k.Params))
	for _, p := range k.Params {
		params[p.Name] = p.Default
	}
	for name, value := range o.Params {
		if _, ok := params[name]; !ok {
			return &UnknownParamError{Kind: k, Name: name}
		}
		params[name] = value
	}
	o.Params = params
	return k.Func(ctx, o)
}

// UnknownParamError says that a kind has no parameter of that name.
type UnknownParamError struct {
	Kind Kind
	Name string
}

// Error names the kind and the parameter.
func (e *UnknownParamError) Error() string {
	return fmt.Sprintf("%s has no parameter %q", e.Kind.Name, e.Name)
}
