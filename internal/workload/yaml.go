package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxErrors is how many errors of a file are told at once.
const maxErrors = 20

// reader walks a YAML file and gathers all that is wrong with it. What it
// returns for a wrong value is the zero value: callers go on.
type reader struct {
	file string
	errs []error
	more int // errors beyond maxErrors
}

// fail adds an error at a node.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.errs) == maxErrors {
		r.more++
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
}

// err returns all errors, a line each.
func (r *reader) err() error {
	if r.more > 0 {
		return errors.Join(append(r.errs, fmt.Errorf("%s: and %d more errors", r.file, r.more))...)
	}
	return errors.Join(r.errs...)
}

// yamlLine finds the place in a message of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// open parses a file that holds one mapping. It returns nil, and r.err, if it
// cannot.
func (r *reader) open(in io.Reader, what string) *object {
	dec := yaml.NewDecoder(in)
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		r.errs = append(r.errs, fmt.Errorf("%s: is empty, it should hold a %s", r.file, what))
		return nil
	case err == nil:
		err = dec.Decode(&second)
		if err == nil && len(second.Content) > 0 {
			r.fail(second.Content[0], "a second YAML document; a file holds one %s", what)
			return nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		text := yamlLine.ReplaceAllString(err.Error(), "$1: ")
		sep := ":"
		if text == err.Error() {
			text, sep = strings.TrimPrefix(text, "yaml: "), ": "
		}
		r.errs = append(r.errs, fmt.Errorf("%s%s%s", r.file, sep, text))
		return nil
	}
	return r.object(doc.Content[0], what)
}

// object is a mapping whose keys are asked for one by one.
type object struct {
	r     *reader
	node  *yaml.Node
	what  string
	at    map[string]*yaml.Node // where keys are
	value map[string]*yaml.Node
	asked []string
}

// object reads a mapping; nil if it is none.
func (r *reader) object(n *yaml.Node, what string) *object {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: should be a mapping (key: value), is %s", what, describe(n))
		return nil
	}
	o := &object{r: r, node: n, what: what, at: make(map[string]*yaml.Node), value: make(map[string]*yaml.Node)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first := o.at[key.Value]; first != nil {
			r.fail(key, "%s: key %q again, it is on line %d too", what, key.Value, first.Line)
			continue
		}
		o.at[key.Value], o.value[key.Value] = key, follow(n.Content[i+1])
	}
	return o
}

// get returns the value of a key, nil if it is absent.
func (o *object) get(key string) *yaml.Node {
	if !slices.Contains(o.asked, key) {
		o.asked = append(o.asked, key)
	}
	return o.value[key]
}

// end reports the keys that nobody asked for.
func (o *object) end() {
	for i := 0; i < len(o.node.Content); i += 2 {
		key := o.node.Content[i]
		if o.at[key.Value] == key && !slices.Contains(o.asked, key.Value) {
			o.r.fail(key, "%s: unknown key %q; there are %s", o.what, key.Value, strings.Join(o.asked, ", "))
		}
	}
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

// list returns the entries of a list.
func (o *object) list(key string) []*yaml.Node {
	n := o.get(key)
	if n == nil {
		return nil
	}
	return o.r.list(n, o.what+": "+key)
}

func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s: should be a list, is %s", what, describe(n))
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		list[i] = follow(c)
	}
	return list
}

// texts returns a list of texts.
func (o *object) texts(key string) []string {
	var list []string
	for _, n := range o.list(key) {
		list = append(list, scalar(o.r, n, o.what+": "+key, nonEmpty))
	}
	return list
}

// scalar reads a single value by a parser.
func scalar[T any](r *reader, n *yaml.Node, what string, parse func(string) (T, error)) T {
	var zero T
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.fail(n, "%s: should be a single value, is %s", what, describe(n))
		return zero
	}
	v, err := parse(n.Value)
	if err != nil {
		r.fail(n, "%s: %s", what, err)
		return zero
	}
	return v
}

// field reads the value of a key by a parser, or returns what it is without.
func field[T any](o *object, key string, without T, parse func(string) (T, error)) T {
	n := o.get(key)
	if n == nil {
		return without
	}
	return scalar(o.r, n, o.what+": "+key, parse)
}

func (o *object) text(key string) string { return field(o, key, "", anyText) }

func anyText(s string) (string, error) { return s, nil }

func nonEmpty(s string) (string, error) {
	if s == "" {
		return "", errors.New("must not be empty")
	}
	return s, nil
}

// whole parses integers between two bounds, both allowed.
func whole(lo, hi int) func(string) (int, error) {
	return func(s string) (int, error) {
		v, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q is not a whole number", s)
		case v < lo:
			return 0, fmt.Errorf("%d, must be at least %d", v, lo)
		case v > hi:
			return 0, fmt.Errorf("%d, must be at most %d", v, hi)
		}
		return v, nil
	}
}

// number parses numbers between two bounds, both allowed. NaN is between none.
func number(lo, hi float64) func(string) (float64, error) {
	return func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil || math.IsNaN(v):
			return 0, fmt.Errorf("%q is not a number", s)
		case v < lo:
			return 0, fmt.Errorf("%g, must be at least %g", v, lo)
		case v > hi:
			return 0, fmt.Errorf("%g, must be at most %g", v, hi)
		}
		return v, nil
	}
}

// positive parses numbers above 0.
func positive(s string) (float64, error) { return positiveTo(math.MaxFloat64)(s) }

// positiveTo parses numbers above 0 and up to a bound.
func positiveTo(hi float64) func(string) (float64, error) {
	return func(s string) (float64, error) {
		v, err := number(0, hi)(s)
		if err == nil && v == 0 {
			err = errors.New("0, must be above 0")
		}
		return v, err
	}
}

func (o *object) duration(key string) time.Duration { return field(o, key, 0, parseTime) }
