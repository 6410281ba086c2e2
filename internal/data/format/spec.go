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
	// First, if not nil, is the layout of the input's first file. Without Columns all other
	// files are read in its order. It is no part of the text that Parse parses.
	First *Layout
}

// Layout is the columns of the first file of an input. Planning finds it, and it travels
// with the splits: each task aligns its files with the first file without opening it.
type Layout struct {
	File    string   `json:"file"`              // URI
	Columns []string `json:"columns,omitempty"` // nil for a file of lines of text
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

// Choose returns the positions of the wanted columns among the names of a file's columns. If
// no columns are wanted, it returns all, in the order of the input's first file.
func (s *Spec) Choose(names []string) ([]int, error) {
	if len(s.Columns) == 0 && s.First != nil {
		return s.First.align(names)
	}
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

// align returns the position of each column of the layout among the names of another file's
// columns. A column that only one of the files has is an error: its fields would be taken for
// those of another column.
func (l *Layout) align(names []string) ([]int, error) {
	at := make([]int, len(l.Columns))
	if slices.Equal(l.Columns, names) {
		for i := range at {
			at[i] = i
		}
		return at, nil
	}
	// Text has no columns to which the columns of this file could correspond.
	if len(l.Columns) == 0 {
		return nil, &LayoutError{fmt.Sprintf("it has the columns %s, and %s, the first file of the input, is text: read them by different jobs, or exclude one of them", list(names), l.File)}
	}
	position, twice := positions(names)
	wanted, twiceFirst := positions(l.Columns)
	var missing, extra []string
	for i, name := range l.Columns {
		var ok bool
		if at[i], ok = position[name]; !ok {
			missing = append(missing, name)
		}
	}
	for _, name := range names {
		if _, ok := wanted[name]; !ok {
			extra = append(extra, name)
		}
	}
	var differences []string
	for _, d := range []struct {
		what  string
		names []string
	}{{"it lacks", missing}, {"it also has", extra}, {"a name stands for several columns:", append(twice, twiceFirst...)}} {
		if len(d.names) > 0 {
			differences = append(differences, d.what+" "+list(d.names))
		}
	}
	if len(differences) == 0 {
		return at, nil
	}
	return nil, &LayoutError{fmt.Sprintf("its columns are not the columns of %s, the first file of the input: %s; choose columns that all files have (--columns), or read the files by different jobs",
		l.File, strings.Join(differences, ", "))}
}

// LayoutError is the error for a file that cannot be aligned with the input's first file. Its
// text names the first file; the caller adds the name of the other one.
type LayoutError struct{ text string }

// Error returns the text of the error.
func (e *LayoutError) Error() string { return e.text }

// positions returns the position of each name, and the names that occur more than once.
func positions(names []string) (at map[string]int, twice []string) {
	at = make(map[string]int, len(names))
	for i, name := range names {
		if _, ok := at[name]; ok {
			twice = append(twice, name)
		}
		at[name] = i
	}
	return at, twice
}

// CheckText returns an error if a file of lines cannot be read beside the input's first file,
// because that file has columns.
func (s *Spec) CheckText() error {
	if s.First == nil || len(s.First.Columns) == 0 {
		return nil
	}
	return &LayoutError{fmt.Sprintf("it is text without columns, and %s, the first file of the input, has the columns %s: read them by different jobs, or exclude one of them",
		s.First.File, list(s.First.Columns))}
}

// list joins names for a message. It leaves out names after the 30th.
func list(names []string) string {
	const most = 30
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
