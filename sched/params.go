package sched

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Param documents one parameter of a part or policy. Write the fields
// up to Tune and pass the Param to Bind, which fills in the rest.
type Param struct {
	Name string
	// Default is the value in effect when the user gives none, as the user
	// would write it.
	Default string
	// Help is a paragraph for users: what the parameter does, its unit, and
	// what goes wrong when the value is too small or too large.
	Help string
	// Aliases are other names that users may write, such as the name in the part's paper.
	// An alias must not name two parameters.
	Aliases []string
	// Tune lists values worth trying when the parameter is tuned, from small to large. Without
	// any, the parameter keeps its value.
	Tune []string
	// Accepts describes the valid values, such as "a number from 0 to 1". Bind
	// copies it from the parameter's Values.
	Accepts string

	normalize func(text string) (string, error)
}

// Normalize parses text as a value of the parameter and returns the value as the
// parameter prints it. The error names the parameter, the text and the accepted
// values. Normalize is idempotent: normalizing its own result changes nothing.
func (p Param) Normalize(text string) (string, error) {
	// A Param that no Bind has completed, in a test's table.
	if p.normalize == nil {
		return text, nil
	}
	return p.normalize(text)
}

// Values is the set of values that a parameter of type T accepts, with their
// text form. Parse must accept whatever Print writes and give the value back.
// The constructors below cover the usual sets; write a literal for others.
type Values[T any] struct {
	// Accepts completes the sentence "must be …" in error messages.
	Accepts string
	Parse   func(text string) (T, error)
	Print   func(T) string
}

// A Binding connects a Param to the field of a Config that holds its value.
type Binding struct {
	Param Param
	// parse reads text and returns a function that stores the value in the
	// field, so that Set can check every value before it stores the first.
	parse func(text string) (store func(), err error)
	print func() string
}

// Bind declares that the parameter p sets *field to one of the values v. The
// field keeps its value until Bindings.Set or Kit.Read is called.
func Bind[T any](field *T, v Values[T], p Param) Binding {
	p.Accepts = v.Accepts
	parse := func(text string) (T, error) {
		x, err := v.Parse(text)
		switch {
		case err == nil:
			return x, nil
		// This error has no text to add.
		case err == errNotAccepted:
			err = fmt.Errorf("parameter %s: bad value %q: must be %s", p.Name, text, v.Accepts)
		default:
			err = fmt.Errorf("parameter %s: bad value %q: %w; must be %s", p.Name, text, err, v.Accepts)
		}
		return x, err
	}
	p.normalize = func(text string) (string, error) {
		x, err := parse(text)
		if err != nil {
			return "", err
		}
		return v.Print(x), nil
	}
	return Binding{
		Param: p,
		parse: func(text string) (func(), error) {
			x, err := parse(text)
			return func() { *field = x }, err
		},
		print: func() string { return v.Print(*field) },
	}
}

// Bindings declare all parameters of a part, each once: its name, default, help
// and valid values, and the field of the part's Config that it sets. By
// convention a part's Config has a method that returns them, from which
// everything else follows:
//
//	func (c *Config) bind() sched.Bindings {
//		return sched.Bindings{
//			sched.Bind(&c.Lag, sched.DurationFrom(0), sched.Param{Name: "lag", Default: "1m", Help: "…"}),
//			sched.Bind(&c.Cap, sched.Float(0, 1), sched.Param{Name: "cap", Default: "0.1", Help: "…"}),
//		}
//	}
//
//	// Params documents the parameters, for the registry.
//	func Params() []sched.Param { return new(Config).bind().Params() }
//
//	// Read returns the part with the parameters that the user has set.
//	func Read(k *sched.Kit) (sched.Speculate, error) {
//		var c Config
//		if err := k.Read(c.bind()); err != nil {
//			return nil, err
//		}
//		return New(c), nil
//	}
//
// Rules that concern several parameters at once ("the shares must not exceed 1
// together") belong in Read, after Kit.Read has returned.
type Bindings []Binding

// Params returns the declared parameters in order.
func (b Bindings) Params() []Param {
	params := make([]Param, len(b))
	for i := range b {
		params[i] = b[i].Param
	}
	return params
}

// Set stores a value in the field of every binding: the one in set under the
// parameter's name, otherwise its default. If any value is invalid, Set stores
// nothing and returns the errors of all invalid values. Names in set that are not bound
// are ignored, because set may hold the parameters of other parts.
func (b Bindings) Set(set map[string]string) error {
	// The fields belong to a Config of any types, so a function that stores is kept and not the value.
	stores := make([]func(), len(b))
	var errs []error
	for i := range b {
		// A parameter that two parts share, such as early-reduces, is bound by each and gets one value.
		text, ok := set[b[i].Param.Name]
		if !ok {
			// Defaults are text and take the way of a user's value, so a default that the parameter does
			// not accept is an error, too.
			text = b[i].Param.Default
		}
		var err error
		// All values are parsed before one is stored: after an error the Config has no mixture of old and
		// new values.
		if stores[i], err = b[i].parse(text); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, store := range stores {
		store()
	}
	return nil
}

// Print returns the present value of every field by the name of its parameter.
// Set accepts the result and restores the same values.
func (b Bindings) Print() map[string]string {
	set := make(map[string]string, len(b))
	for i := range b {
		set[b[i].Param.Name] = b[i].print()
	}
	return set
}

// A Kit is the argument of the constructor of a part or policy.
type Kit struct {
	// Seed is the seed of the run. A part that draws random numbers derives a
	// separate generator from Seed and its name.
	Seed       uint64
	values     map[string]string
	utilities  map[string]Utility
	evaluators map[string]Evaluator
	build      func(spec string) (Policy, error) // nil outside a registry
}

// Build makes a fresh policy of the same registry for the same run, with its parameters at
// their defaults. It is for policies that have others decide; those cannot do so again.
func (k *Kit) Build(spec string) (Policy, error) {
	if k.build == nil {
		return nil, fmt.Errorf("policy %s: a policy that another one has chosen cannot choose among others", spec)
	}
	return k.build(spec)
}

// Read sets the bound fields to the values that the user has given, or to the
// defaults. See Bindings.Set for the errors.
func (k *Kit) Read(b Bindings) error { return b.Set(k.values) }

// NewKit returns a kit with the given options. The registry calls it for each
// part; tests may call it to construct a part directly.
func NewKit(opt Options) *Kit {
	return &Kit{Seed: opt.Seed, values: opt.Set, utilities: opt.utilities, evaluators: opt.evaluators}
}

// checkSettings returns an error for each name in set that is no parameter of
// the policy, and for each value that its parameter does not accept. It runs
// before any part is built, so that users see all mistakes at once.
func checkSettings(info Info, set map[string]string) error {
	known := paramNames(info)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(known, name) {
			errs = append(errs, unknown("parameter of "+info.Name, name, known))
		}
	}
	for _, part := range info.Parts {
		for _, p := range part.Params {
			text, ok := set[p.Name]
			if !ok {
				continue
			}
			if _, err := p.Normalize(text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", part.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// errNotAccepted is the error of a Values.Parse that has nothing to add to
// Values.Accepts.
var errNotAccepted = errors.New("not accepted")

// accept returns x if ok and err is nil, and errNotAccepted otherwise.
func accept[T any](x T, err error, ok bool) (T, error) {
	if err != nil || !ok {
		return x, errNotAccepted
	}
	return x, nil
}

// Int accepts the whole numbers from low to high. math.MinInt and math.MaxInt mean no
// bound.
func Int(low, high int) Values[int] {
	from, to := "", ""
	if low != math.MinInt {
		from = strconv.Itoa(low)
	}
	if high != math.MaxInt {
		to = strconv.Itoa(high)
	}
	return Values[int]{
		Accepts: "a whole number" + between(from, to),
		Parse: func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			return accept(n, err, low <= n && n <= high)
		},
		Print: strconv.Itoa,
	}
}

// Float accepts the finite numbers from low to high, both included. Infinite bounds mean
// no bound.
func Float(low, high float64) Values[float64] {
	from, to := "", ""
	if !math.IsInf(low, -1) {
		from = printFloat(low)
	}
	if !math.IsInf(high, 1) {
		to = printFloat(high)
	}
	return Values[float64]{
		Accepts: "a number" + between(from, to),
		Parse:   func(text string) (float64, error) { return parseFloat(text, low, high) },
		Print:   printFloat,
	}
}

// PositiveFloat accepts the finite numbers above 0.
func PositiveFloat() Values[float64] {
	v := Float(math.SmallestNonzeroFloat64, math.Inf(1))
	v.Accepts = "a number above 0"
	return v
}

func parseFloat(text string, low, high float64) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	return accept(x, err, low <= x && x <= high && !math.IsInf(x, 0)) // false for NaN
}

func printFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// DurationFrom accepts durations of at least low, such as 1m30s.
func DurationFrom(low time.Duration) Values[time.Duration] {
	bound := " of at least " + low.String()
	switch low {
	case 1:
		bound = " above 0"
	case math.MinInt64:
		bound = ""
	}
	return Values[time.Duration]{
		Accepts: "a duration" + bound + ", such as 1m30s",
		Parse: func(text string) (time.Duration, error) {
			// With its unit. A number without one is refused, because Hadoop's settings are in milliseconds
			// and others in seconds.
			d, err := time.ParseDuration(text)
			return accept(d, err, d >= low)
		},
		Print: time.Duration.String,
	}
}

// PositiveDuration accepts durations above 0.
func PositiveDuration() Values[time.Duration] { return DurationFrom(1) }

// Bool accepts true and false, and the other spellings of strconv.ParseBool.
func Bool() Values[bool] {
	return Values[bool]{
		Accepts: "true or false",
		Parse: func(text string) (bool, error) {
			x, err := strconv.ParseBool(text)
			return accept(x, err, true)
		},
		Print: strconv.FormatBool,
	}
}

// Choice accepts words, in any case of letters; words[i] means values[i].
// The two slices have the same length.
func Choice[T comparable](words []string, values []T) Values[T] {
	accepts := "one of " + strings.Join(words, ", ")
	if len(words) == 2 {
		accepts = words[0] + " or " + words[1]
	}
	return Values[T]{
		Accepts: accepts,
		Parse: func(text string) (x T, err error) {
			for i, word := range words {
				if strings.EqualFold(word, text) {
					return values[i], nil
				}
			}
			return x, errNotAccepted
		},
		// Another value comes from a Config made by hand, a mistake in the program: it panics here.
		Print: func(x T) string { return words[slices.Index(values, x)] },
	}
}

// Switch accepts two words; the first one means false.
func Switch(no, yes string) Values[bool] {
	return Choice([]string{no, yes}, []bool{false, true})
}

// Enum accepts words; the word at index i means the value T(i).
func Enum[T ~uint8](words ...string) Values[T] {
	values := make([]T, len(words))
	for i := range values {
		values[i] = T(i)
	}
	return Choice(words, values)
}

// Word accepts one of the given words.
func Word(words ...string) Values[string] { return Choice(words, words) }

// Or accepts word as another spelling of special, and all values of v. Use it
// for values that measure nothing, such as "auto" beside durations.
func Or[T comparable](word string, special T, v Values[T]) Values[T] {
	return Values[T]{
		Accepts: word + " or " + v.Accepts,
		Parse: func(text string) (T, error) {
			if text == word {
				return special, nil
			}
			return v.Parse(text)
		},
		Print: func(x T) string {
			if x == special {
				return word
			}
			return v.Print(x)
		},
	}
}

// List accepts values of v separated by commas, and nothing for an empty list.
// plural describes the elements, such as "durations".
func List[T any](plural string, v Values[T]) Values[[]T] {
	return Values[[]T]{
		Accepts: plural + " separated by commas",
		Parse: func(text string) ([]T, error) {
			if text == "" {
				return nil, nil
			}
			var all []T
			for _, word := range strings.Split(text, ",") {
				x, err := v.Parse(strings.TrimSpace(word))
				if err != nil {
					return nil, fmt.Errorf("%q is not %s", word, v.Accepts)
				}
				all = append(all, x)
			}
			return all, nil
		},
		Print: func(all []T) string {
			words := make([]string, len(all))
			for i, x := range all {
				words[i] = v.Print(x)
			}
			return strings.Join(words, ",")
		},
	}
}

// between is the end of a phrase for a range; "" means no bound.
func between(from, to string) string {
	switch {
	case from == "" && to == "":
		return ""
	case to == "":
		return " of at least " + from
	case from == "":
		return " of at most " + to
	}
	return " from " + from + " to " + to
}
