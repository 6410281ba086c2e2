// Package generate makes inputs for jobs: text, records and the other formats
// that the built-in apps read.
//
// The bytes depend on kind, size, seed and parameters only, and not on the
// number of cores, the machine or the time. Each file has a seed derived from
// the data set's seed, its name and its number, so that files can be made
// concurrently and in any order.
//
// A data set becomes visible as a whole: it is written into a temporary
// directory, which is renamed when all files are complete. After an error or a
// cancellation the directory is removed.
package generate

import (
	"context"
	"fmt"
	"strconv"
)

// Options describe a data set and its directory.
type Options struct {
	// Size is the approximate number of bytes in all files together. Kinds with
	// records do not exceed it.
	Size int64
	// Seed selects one of many data sets of a kind.
	Seed uint64
	// Dir is the directory to make. It must not exist, or must be empty, unless
	// Overwrite is set.
	Dir string
	// Overwrite replaces an earlier data set in Dir, once the new one is complete: a
	// directory with files that kinds make, and no others. Force replaces Dir whatever
	// files it contains; it implies Overwrite.
	Overwrite, Force bool
	// Params are the parameters of the kind; missing ones have their defaults.
	Params Params
	// Progress, if set, is called with the number of bytes written so far.
	// Calls do not overlap, but may come from different goroutines.
	Progress func(written int64)
}

// Kind is one kind of data set.
type Kind struct {
	Name    string // as on the command line
	Summary string // one line
	Params  []Param
	// Func makes the data set. After an error, including the error of a cancelled
	// ctx, it leaves no files.
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
	// NaN parses, and every comparison with a bound would be false.
	if err != nil || f != f {
		return 0, fmt.Errorf("parameter %s: %q is not a number", name, p[name])
	}
	return f, nil
}

// Run makes a data set of kind k. It fills in default parameters and rejects
// unknown ones.
//
// A parameter that is unknown is an error and not ignored, because a typing error would make another data set
// under the name that the user expects.
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

// UnknownParamError means that a kind has no parameter of that name.
type UnknownParamError struct {
	Kind Kind
	Name string
}

// Error names the kind and the parameter.
func (e *UnknownParamError) Error() string {
	return fmt.Sprintf("%s has no parameter %q", e.Kind.Name, e.Name)
}
