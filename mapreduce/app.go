package mapreduce

import (
	"context"
	"fmt"
	"strconv"
)

// App is a program with a name and parameters, made of one job or a chain of
// several. The built-in apps are Apps; so may be your own.
//
// A worker in another process rebuilds a job from the app's name, the step and
// the parameters alone, so builders depend on nothing else.
type App struct {
	Name    string // as on the command line: lower case, no spaces
	Summary string // one line
	Reads   string // what the input is, in a few words; "" if it reads none
	Writes  string // what the output is
	Params  []Param

	// Job builds the job of an app that has just one.
	Job func(p Params) (*Job, error)
	// Steps build the jobs of a chain, by name; Chain runs them.
	Steps map[string]func(p Params) (*Job, error)
	Chain func(ctx context.Context, c *Chain) error

	// Small says that the result fits a screen: it is printed when the user
	// names no output directory.
	Small bool
}

// Param is a parameter of an app. A Param without a default is required.
type Param struct {
	Name, Default, Help string
	Required            bool
}

// Params are the values given for an app's parameters, defaults filled in.
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

// Chain runs the steps of an app one after the other, or several at once.
// Intermediate outputs live in a directory of the chain's own, which is
// removed when the chain ends, well or not.
type Chain struct {
	Params Params
	Inputs []string // the user's inputs

	files *Files
	run   func(ctx context.Context, step string, p Params, in []string, out string) error
	temp  string
	out   string
}

// Step runs a step over inputs and writes to output, which is [Chain.Temp] or
// [Chain.Output]. Params nil means the chain's own. Steps may run in parallel
// from several goroutines.
func (c *Chain) Step(ctx context.Context, step string, p Params, inputs []string, output string) error {
	if p == nil {
		p = c.Params
	}
	return c.run(ctx, step, p, inputs, output)
}

// Files reads the outputs of steps, and other files that the program can open.
func (c *Chain) Files() *Files { return c.files }

// Temp returns the path of an intermediate output, by a name of the caller's.
func (c *Chain) Temp(name string) string { return c.temp + "/" + name }

// Output returns the path of the chain's final output.
func (c *Chain) Output() string { return c.out }
