package format

import (
	"fmt"
	"slices"
	"strings"
)

// Spec is a format with its options, the value of --format.
type Spec struct {
	Name string // one of Names
	// JSON makes each line a JSON object instead of fields with TABs.
	JSON bool
	// Raw writes fields without escapes, as hadoop fs -text does.
	Raw bool
	// NoHeader says that the first line of a CSV file is a record. Columns then have the
	// names 1, 2 and so on.
	NoHeader bool
	// Separator is the character between the fields of a CSV file.
	Separator rune
	// SingleLines promises that no field of a CSV file contains an LF, so that the file can
	// be divided.
	SingleLines bool
	// Columns are the columns to read, in the order of the fields. Empty means all.
	Columns []string
}

// usage explains the grammar in error messages.
const usage = "want auto, text, csv, json, parquet, avro or sequence, then options such as as=json; csv has header=no, separator=C and lines=single"

// Parse parses a format: its name, and options after commas. The option columns=A,B is the
// last one. "" is auto.
func Parse(text string) (*Spec, error) {
	s := &Spec{Separator: ','}
	options, columns, project := strings.Cut(","+text, ",columns=")
	if project {
		s.Columns = strings.Split(columns, ",")
	}
	words := strings.Split(options[min(1, len(options)):], ",")
	if s.Name = words[0]; s.Name == "" {
		s.Name = Auto
	}
	if !slices.Contains(Names, s.Name) {
		return nil, fmt.Errorf("%q: %s", s.Name, usage)
	}
	for _, w := range words[1:] {
		if err := s.option(w); err != nil {
			return nil, err
		}
	}
	return s, s.check()
}

// option applies one option.
func (s *Spec) option(w string) error {
	name, value, _ := strings.Cut(w, "=")
	if s.Name != CSV && slices.Contains([]string{"header", "separator", "lines"}, name) {
		return fmt.Errorf("%q is an option of csv, not of %s", w, s.Name)
	}
	switch {
	case w == "as=json":
		s.JSON = true
	case w == "as=raw":
		s.Raw = true
	case w == "header=no":
		s.NoHeader = true
	case w == "lines=single":
		s.SingleLines = true
	default:
		r, ok := separator(value)
		if name != "separator" || !ok {
			return fmt.Errorf("unknown option %q: %s", w, usage)
		}
		s.Separator = r
	}
	return nil
}

// check returns an error for options that exclude each other.
func (s *Spec) check() error {
	if s.Name == Text && (len(s.Columns) > 0 || s.JSON || s.Raw) {
		return fmt.Errorf("format text has no columns; for files with columns name their format (csv, json, parquet, avro)")
	}
	for i, c := range s.Columns {
		if c == "" {
			return fmt.Errorf("the list of columns %q has an empty name", strings.Join(s.Columns, ","))
		}
		if slices.Contains(s.Columns[:i], c) {
			return fmt.Errorf("column %s is named twice", c)
		}
	}
	return nil
}

// String returns the text that Parse parses, and "" for auto without options.
func (s *Spec) String() string {
	words := []string{s.Name}
	for _, o := range []struct {
		word string
		on   bool
	}{{"as=json", s.JSON}, {"as=raw", s.Raw}, {"header=no", s.NoHeader}, {"lines=single", s.SingleLines}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if s.Separator != ',' {
		words = append(words, "separator="+strings.ReplaceAll(string(s.Separator), "\t", "tab"))
	}
	if len(s.Columns) > 0 {
		words = append(words, "columns="+strings.Join(s.Columns, ","))
	}
	if text := strings.Join(words, ","); text != Auto {
		return text
	}
	return ""
}

// As returns the spec with another name, such as the format that a file's first bytes have
// identified.
func (s *Spec) As(name string) *Spec {
	c := *s
	c.Name = name
	return &c
}

// Choose returns the positions of the wanted columns among the names of a file's columns,
// or of all columns.
func (s *Spec) Choose(names []string) ([]int, error) {
	var at []int
	if len(s.Columns) == 0 {
		for i := range names {
			at = append(at, i)
		}
		return at, nil
	}
	for _, c := range s.Columns {
		i := slices.Index(names, c)
		if i < 0 {
			return nil, fmt.Errorf("there is no column %q; the file has %s", c, list(names))
		}
		if slices.Contains(names[i+1:], c) {
			return nil, fmt.Errorf("the file has several columns %q", c)
		}
		at = append(at, i)
	}
	return at, nil
}

// list joins names for a message. It leaves out names after the 30th.
func list(names []string) string {
	const most = 30
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
