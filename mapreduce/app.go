package mapreduce

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
)

// App is a named program with parameters. It consists of one job or of a chain of
// jobs. [RunApp] runs it.
//
// On a cluster another process builds the jobs from the app's name, the step and
// the parameters. So Job and Steps must not depend on anything else.
type App struct {
	Name    string // as on the command line: lower case, no spaces
	Summary string // one line
	Reads   string // describes the input in a few words; "" if there is none
	Writes  string // describes the output in a few words
	Params  []Param

	// Job builds the job; nil for a chain.
	Job func(p Params) (*Job, error)
	// Steps build the jobs of a chain, by name. Chain runs the steps.
	Steps map[string]func(p Params) (*Job, error)
	Chain func(ctx context.Context, c *Chain) error

	// NoOutput marks an app whose job writes no records. It needs no output directory.
	NoOutput bool
	// Small marks an app whose result fits on a screen. The slotwise command
	// prints it if the user names no output directory.
	Small bool
}

// Param describes a parameter of an app.
type Param struct {
	Name, Default, Help string
	Required            bool
}

// Params holds the values of an app's parameters, defaults included.
type Params map[string]string

// Get returns the value of a parameter, or "" if it has none.
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
	// NaN parses as a number, and each comparison with it would be false.
	if err != nil || f != f {
		return 0, fmt.Errorf("parameter %s: %q is not a number", name, p[name])
	}
	return f, nil
}

// Chain is one run of an app that consists of several jobs. The app's Chain
// function uses it to run the steps. Intermediate outputs are in a directory that
// is removed when the function returns, even with an error.
//
// In this process the function runs once. On a cluster it runs in a driver, a process
// of a worker, and continues when the program that has submitted it ends. If the driver
// or its worker dies, another driver runs the function again from its beginning. Steps
// that have ended then return at once with the same result, and steps that run are
// joined. This asks three things of the function:
//
//   - It is deterministic: apart from the results of steps and the files that it reads,
//     nothing decides which steps it runs, with which parameters, inputs and outputs. It
//     uses no clock, no random number and no order of a Go map. Steps may run at a time.
//   - Each step writes an output that no other step writes. The output identifies the
//     step, so a loop numbers the outputs of its rounds.
//   - It plans, lists files and reads small results, and leaves heavy work to the steps: a
//     driver occupies no slot.
//
// A chain has at most 1,000 steps on a cluster. An error that is not a step's is tried
// again there, up to four times, because it may be the storage's.
type Chain struct {
	Params Params
	// Inputs are the user's inputs. Inputs of named sources are not in it: they go to each step with a
	// [Source] of that Name.
	Inputs []string

	files *Files
	made  map[string]int // outputs that Then has made, by step
	// failed is the error of the first step of Then that failed; nil if none has. Steps on other goroutines read it.
	failed atomic.Pointer[error]
	// run runs the job of a step.
	run  func(ctx context.Context, step string, p Params, in []string, out string) error
	temp string
	out  string
}

// Step runs the job of a step over inputs and returns when it has ended. output is
// a path from [Chain.Temp] or [Chain.Output]. If p is nil the step gets the
// chain's parameters. Several goroutines may run steps at a time.
func (c *Chain) Step(ctx context.Context, step string, p Params, inputs []string, output string) error {
	// A step after a failed Then would read an output that does not exist, and its error would hide the
	// first one.
	if err := c.failed.Load(); err != nil {
		return *err
	}
	if p == nil {
		p = c.Params
	}
	return c.run(ctx, step, p, inputs, output)
}

// Then runs the job of a step into a new intermediate output, and returns the path of the output, which is
// an input of later steps:
//
//	last := c.Then(ctx, "load", nil, c.Inputs...)
//	for range rounds {
//		last = c.Then(ctx, "round", nil, last)
//	}
//	return c.Step(ctx, "rank", nil, []string{last}, c.Output())
//
// If the step fails, Then returns "", later calls of Then and Step run nothing, and the chain fails with the
// error of that step, whatever its function returns. The outputs are numbered in the order of the calls, so one goroutine
// makes them; steps that run at a time use [Chain.Step].
func (c *Chain) Then(ctx context.Context, step string, p Params, inputs ...string) string {
	// Numbered by step, so that a step which the function adds between two others leaves the names of their
	// outputs alone.
	c.made[step]++
	output := c.Temp(fmt.Sprintf("then-%s-%d", step, c.made[step]))
	if err := c.Step(ctx, step, p, inputs, output); err != nil {
		c.failed.Store(&err)
		return ""
	}
	return output
}

// Files returns access to the outputs of steps and to all other files that the
// program can open.
func (c *Chain) Files() *Files { return c.files }

// Temp returns the path of an intermediate output. name is the caller's choice.
func (c *Chain) Temp(name string) string { return c.temp + "/" + name }

// Output returns the path of the chain's final output.
func (c *Chain) Output() string { return c.out }
