package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxErrors bounds the errors reported for one file.
const maxErrors = 20

// reader walks a YAML file and collects its errors. Its methods return the zero
// value in place of a wrong one, so that callers continue and find further
// errors.
type reader struct {
	file  string
	errs  []error
	more  int // errors beyond maxErrors
	tasks int // stated one by one so far, over all jobs
	// known, if set, receives the keys that each kind of mapping may have. A test
	// compares them with the documentation.
	known map[string][]string
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

// yamlLine finds the line number in an error of the YAML library.
var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: line (\d+): `) })

// open parses a file that holds one mapping. It returns nil, and fails, if the
// file holds something else.
func (r *reader) open(in io.Reader, what string) *object {
	dec := yaml.NewDecoder(in)
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		r.errs = append(r.errs, fmt.Errorf("%s: is empty, it should hold a %s", r.file, what))
		return nil
	case err == nil:
		// The decoder reads one document at a time; jobs below a second --- would be ignored.
		err = dec.Decode(&second)
		if err == nil && len(second.Content) > 0 {
			r.fail(second.Content[0], "a second YAML document; a file holds one %s", what)
			return nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		// The library's "yaml: line 7: …" becomes FILE:7, the form in which editors find the place. Some of
		// its errors name no line.
		text := yamlLine().ReplaceAllString(err.Error(), "$1: ")
		sep := ":"
		if text == err.Error() {
			text, sep = strings.TrimPrefix(text, "yaml: "), ": "
		}
		r.errs = append(r.errs, fmt.Errorf("%s%s%s", r.file, sep, text))
		return nil
	}
	return r.object(doc.Content[0], what)
}

// object is a mapping. Callers read its keys one by one; end then reports the
// remaining keys as unknown.
// A call of get makes a key known: end rejects all others. So the keys that a reader gets, the keys in an
// error message and the keys of the documentation cannot differ. But a reader must get a key on every path,
// also when it does not use the value.
type object struct {
	r    *reader
	node *yaml.Node
	// what names the mapping in errors, kind in reader.known.
	what, kind string
	key        map[string]*yaml.Node // by name
	value      map[string]*yaml.Node
	read       []string
	// nullIsAbsent makes get treat a key without a value as absent.
	nullIsAbsent bool
}

// object reads a mapping; it returns nil, and fails, if n is something else. A
// YAML merge key ("<<") contributes the keys that the mapping lacks.
func (r *reader) object(n *yaml.Node, what string) *object {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: should be a mapping (key: value), is %s", what, describe(n))
		return nil
	}
	o := &object{r: r, node: n, what: what, kind: what, key: make(map[string]*yaml.Node), value: make(map[string]*yaml.Node)}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Tag == "!!merge" {
			merged = append(merged, follow(n.Content[i+1]))
			continue
		}
		// The library reports equal keys only where it decodes into a map. Here the later one would win
		// silently.
		if first := o.key[key.Value]; first != nil {
			r.fail(key, "%s: key %q again, it is on line %d too", what, key.Value, first.Line)
			continue
		}
		o.key[key.Value], o.value[key.Value] = key, follow(n.Content[i+1])
	}
	for _, m := range merged {
		o.merge(m, 0)
	}
	return o
}

// maxMerges bounds chains of merge keys, which may lead back to themselves.
const maxMerges = 8

// merge adds the keys that the object lacks from a merged mapping, or from each
// mapping of a list.
func (o *object) merge(n *yaml.Node, depth int) {
	switch {
	case depth == maxMerges:
		o.r.fail(n, "%s: merge keys (<<) are nested more than %d deep", o.what, maxMerges)
	case n.Kind == yaml.SequenceNode:
		for _, c := range n.Content {
			o.merge(follow(c), depth+1)
		}
	case n.Kind != yaml.MappingNode:
		o.r.fail(n, "%s: <<: should be a mapping or a list of them, is %s", o.what, describe(n))
	default:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], follow(n.Content[i+1])
			if key.Tag == "!!merge" {
				o.merge(value, depth+1)
			} else if o.key[key.Value] == nil {
				o.key[key.Value], o.value[key.Value] = key, value
			}
		}
	}
}

// get returns the value of a key, nil if it is absent.
func (o *object) get(key string) *yaml.Node {
	if !slices.Contains(o.read, key) {
		o.read = append(o.read, key)
	}
	n := o.value[key]
	// A key without a value is how people leave a line for later; in other mappings it would hide a mistake.
	if n != nil && o.nullIsAbsent && n.Tag == "!!null" {
		return nil
	}
	return n
}

// end reports every key that was not read: it is unknown.
func (o *object) end() {
	if o.r.known != nil {
		for _, key := range o.read {
			if !slices.Contains(o.r.known[o.kind], key) {
				o.r.known[o.kind] = append(o.r.known[o.kind], key)
			}
		}
	}
	var unknown []*yaml.Node
	for name, key := range o.key { //house:sorted sorted by line below
		if !slices.Contains(o.read, name) {
			unknown = append(unknown, key)
		}
	}
	slices.SortFunc(unknown, func(a, b *yaml.Node) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	for _, key := range unknown {
		o.r.fail(key, "%s: unknown key %q; there are %s", o.what, key.Value, strings.Join(o.read, ", "))
	}
}

// follow resolves an alias. It returns any other node unchanged.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// describe names what a node is, for errors.
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

// list returns the entries of a key's list.
func (o *object) list(key string) []*yaml.Node {
	n := o.get(key)
	if n == nil {
		return nil
	}
	return o.r.list(n, o.what+": "+key)
}

// list returns the entries of a list, with aliases resolved.
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

// textOrTexts returns a list of texts. A single text counts as a list of one.
func (o *object) textOrTexts(key string) []string {
	if n := o.get(key); n == nil || n.Kind != yaml.ScalarNode {
		return o.texts(key)
	}
	return []string{o.text(key)}
}

// params returns a mapping of names to texts. A name without a value has the
// empty text.
func (o *object) params(key string) map[string]string {
	n := o.get(key)
	if n == nil {
		return nil
	}
	in := o.r.object(n, o.what+": "+key)
	if in == nil {
		return nil
	}
	list := make(map[string]string, len(in.value))
	for _, name := range slices.Sorted(maps.Keys(in.value)) {
		v := in.value[name]
		if v.Kind != yaml.ScalarNode {
			o.r.fail(v, "%s: %s: should be a single value, is %s", in.what, name, describe(v))
			continue
		}
		list[name] = v.Value
		if v.Tag == "!!null" {
			list[name] = ""
		}
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

// scalar reads a single value with a parser.
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

// field reads the value of a key with a parser. It returns the default without
// if the key is absent.
func field[T any](o *object, key string, without T, parse func(string) (T, error)) T {
	n := o.get(key)
	if n == nil {
		return without
	}
	return scalar(o.r, n, o.what+": "+key, parse)
}

// text returns the text of a key, empty if the key is absent.
func (o *object) text(key string) string { return field(o, key, "", anyText) }

// anyText parses any text.
func anyText(s string) (string, error) { return s, nil }

// nonEmpty parses a text that must not be empty.
func nonEmpty(s string) (string, error) {
	if s == "" {
		return "", errors.New("must not be empty")
	}
	return s, nil
}

// whole returns a parser of integers between two bounds, inclusive.
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

// number returns a parser of numbers between two bounds, inclusive. It rejects
// NaN.
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

// positive parses a number above 0.
func positive(s string) (float64, error) { return positiveTo(math.MaxFloat64)(s) }

// positiveTo returns a parser of numbers above 0, up to a bound.
func positiveTo(hi float64) func(string) (float64, error) {
	return func(s string) (float64, error) {
		v, err := number(0, hi)(s)
		if err == nil && v == 0 {
			err = errors.New("0, must be above 0")
		}
		return v, err
	}
}

// duration returns the time of a key, 0 if the key is absent.
func (o *object) duration(key string) time.Duration { return field(o, key, 0, parseTime) }
