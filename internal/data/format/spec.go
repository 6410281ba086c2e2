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
	// Stream is the form in which Hadoop's streaming passes keys and values of a SequenceFile to a mapper, here
	// with the escapes of a line: StreamTyped, StreamBytes, StreamString, or "" for other fields.
	Stream string
	// NoHeader says that the first line of a CSV file is a record. Columns then have the
	// names 1, 2 and so on.
	NoHeader bool
	// Separator is the character between the fields of a CSV file.
	Separator rune
	// SingleLines promises that no field of a CSV file contains an LF, so that the file can
	// be divided.
	SingleLines bool
	// SkipBad leaves out records of CSV files and JSON lines that do not have the form of their format, instead of
	// failing the job. Source.CountBad counts them.
	SkipBad bool
	// NoPartitions says that directories such as part=0 in the paths of files are no columns.
	NoPartitions bool
	// Missing is the rule for a column that a file or a JSON object lacks: null, error, or "" for null
	// in JSON and an error elsewhere.
	Missing string
	// Where are conditions on columns; a record is read if it meets all conditions. The columns need not
	// be read otherwise.
	Where []Condition
	// Columns are the columns to read, in the order of the fields. Empty means all.
	Columns []string
	// First, if not nil, is the layout of the input's first file. Without Columns all other
	// files are read in its order. It is no part of the text that Parse parses.
	First *Layout
}

// The values of Spec.Stream.
const (
	StreamTyped  = "typed"  // typed bytes
	StreamBytes  = "bytes"  // Java's toString, except for BytesWritable and its kin, of which the bytes
	StreamString = "string" // Java's toString
)

// Layout is the columns of the first file of an input, or of all its files if Spec.Missing is null.
// Planning finds it, and it travels with the splits: each task aligns its files without opening others.
type Layout struct {
	File    string   `json:"file"`              // URI
	Columns []string `json:"columns,omitempty"` // nil for a file of lines of text
}

// usage explains the grammar in error messages.
const usage = "want auto, text, csv, json, parquet, avro or sequence, then options such as as=json or missing=null; csv has header=no, separator=C and lines=single, csv and json have bad=skip"

// Parse parses a format: its name, and options after commas. The option columns=A,B is the
// last one. "" is auto.
func Parse(text string) (*Spec, error) {
	s := &Spec{Separator: ','}
	// columns= comes last, so that the names of columns may be anything, even the name of an option.
	// Cut takes the first ",columns=". A condition cannot contain one, because String writes its commas as
	// %2C.
	options, columns, project := strings.Cut(","+text, ",columns=")
	if project {
		s.Columns = strings.Split(columns, ",")
	}
	// Without the comma that was put before the text. It is absent if the text begins with columns=, which
	// leaves options empty.
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
	// Refused and not ignored: header=no for JSON would suggest that the first line is treated in another
	// way.
	if s.Name != CSV && slices.Contains([]string{"header", "separator", "lines"}, name) {
		return fmt.Errorf("%q is an option of csv, not of %s", w, s.Name)
	}
	switch {
	case w == "as=json":
		s.JSON = true
	case w == "as=raw":
		s.Raw = true
	case name == "as" && s.Name == Sequence && slices.Contains([]string{StreamTyped, StreamBytes, StreamString}, value):
		s.Stream = value
	case w == "header=no":
		s.NoHeader = true
	case w == "lines=single":
		s.SingleLines = true
	case w == "bad=skip":
		if s.Name != CSV && s.Name != JSON {
			return fmt.Errorf("%q is an option of csv and json, not of %s", w, s.Name)
		}
		s.SkipBad = true
	case w == "partitions=no":
		s.NoPartitions = true
	case name == "missing":
		return s.SetMissing(value)
	// The text has one level of escapes, which String adds. ParseCondition itself knows none, so a flag
	// --where takes the value literally.
	case name == "where":
		return s.addWhere(unescapePath(value))
	default:
		r, ok := separator(value)
		if name != "separator" || !ok {
			return fmt.Errorf("unknown option %q: %s", w, usage)
		}
		s.Separator = r
	}
	return nil
}

// The rules for missing columns.
const (
	MissingNull  = "null"
	MissingError = "error"
)

// SetMissing sets the rule for missing columns.
func (s *Spec) SetMissing(rule string) error {
	if rule != MissingNull && rule != MissingError {
		return fmt.Errorf("unknown rule %q for missing columns (%s, %s)", rule, MissingNull, MissingError)
	}
	s.Missing = rule
	return nil
}

// maxConditions bounds the conditions of a job.
const maxConditions = 100

// addWhere adds a condition.
func (s *Spec) addWhere(text string) error {
	c, err := ParseCondition(text)
	if err == nil && len(s.Where) == maxConditions {
		err = fmt.Errorf("more than %d conditions", maxConditions)
	}
	s.Where = append(s.Where, c)
	return err
}

// Choice holds a user's options for reading an input, one for each flag of the same name.
type Choice struct {
	Format, Missing string
	Where, Columns  []string
}

// Given reports whether the user has chosen anything.
func (c *Choice) Given() bool {
	return c.Format != "" || c.Missing != "" || len(c.Where)+len(c.Columns) > 0
}

// Spec returns the choice as a Spec. Errors name the flag.
func (c *Choice) Spec() (*Spec, error) {
	s, err := Parse(c.Format)
	if err != nil {
		return nil, fmt.Errorf("--format %w", err)
	}
	if c.Missing != "" {
		if err := s.SetMissing(c.Missing); err != nil {
			return nil, fmt.Errorf("--missing: %w", err)
		}
	}
	for _, w := range c.Where {
		if err := s.addWhere(w); err != nil {
			return nil, fmt.Errorf("--where %w", err)
		}
	}
	if len(c.Columns) > 0 {
		s.Columns = c.Columns
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("--columns %s: %w", strings.Join(c.Columns, ","), err)
		}
	}
	return s, nil
}

// check returns an error for options that exclude each other.
func (s *Spec) check() error {
	// Conditions are not refused here: a file of lines below part=0/ has a column from its path.
	// CheckTextWhere tests them file by file.
	if s.Name == Text && (len(s.Columns) > 0 || s.JSON || s.Raw) {
		return fmt.Errorf("format text has no columns; for files with columns name their format (csv, json, parquet, avro)")
	}
	for i, c := range s.Columns {
		if c == "" {
			return fmt.Errorf("the list of columns %q has an empty name", strings.Join(s.Columns, ","))
		}
		// A JSON object cannot have a name twice.
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
	}{{"as=json", s.JSON}, {"as=raw", s.Raw}, {"as=" + s.Stream, s.Stream != ""}, {"header=no", s.NoHeader}, {"lines=single", s.SingleLines}, {"bad=skip", s.SkipBad}, {"partitions=no", s.NoPartitions}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if s.Separator != ',' {
		words = append(words, "separator="+strings.ReplaceAll(string(s.Separator), "\t", "tab"))
	}
	if s.Missing != "" {
		words = append(words, "missing="+s.Missing)
	}
	for i := range s.Where {
		// A comma would end the option.
		words = append(words, "where="+strings.NewReplacer("%", "%25", ",", "%2C").Replace(s.Where[i].String()))
	}
	if len(s.Columns) > 0 {
		words = append(words, "columns="+strings.Join(s.Columns, ","))
	}
	// Most splits then have no rows in JSON (Split.Rows), of which a job may have a hundred thousand.
	if text := strings.Join(words, ","); text != Auto {
		return text
	}
	return ""
}

// As returns the spec with another name, such as the format that a file's first bytes have
// identified.
// It copies, because one Spec serves all files of an input, which planning opens on several goroutines. The
// slices stay shared: nothing changes them after Parse.
func (s *Spec) As(name string) *Spec {
	c := *s
	c.Name = name
	return &c
}

// Selection is the part of a file's columns that a Spec wants.
type Selection struct {
	// At are the positions in the file of the columns to read, in the order in which Line takes them.
	At   []int
	Line *Line
	// Names are all columns of the file and of its path.
	Names []string
}

// missingColumn is the position of a column that the file lacks.
const missingColumn = -1

// Select chooses among the columns of a file and of its path. A column in the path takes the place of
// a column of the same name in the file, and others follow the file's. Without a choice all columns are
// read, in the order of the input's layout.
func (s *Spec) Select(src *Source, names []string) (*Selection, error) {
	sel := &Selection{Names: names}
	partitions := src.Partitions
	for i := range partitions {
		// Behind the file's own columns, as Hive and Spark show them. A name in both is the path's, as in
		// Spark, whose own writer leaves such a column out of the files.
		if !slices.Contains(names, partitions[i].Name) {
			// The capacity is cut, because names belongs to the caller.
			sel.Names = append(sel.Names[:len(sel.Names):len(sel.Names)], partitions[i].Name)
		}
	}
	chosen, err := s.choose(sel.Names)
	if err != nil {
		return nil, err
	}
	var fields []field
	add := func(at int, f field) {
		// The path comes before the test of missingColumn: a column that only the path has is not missing.
		switch i := findPartition(partitions, f.name); {
		case i >= 0:
			f.fixed = &partitions[i]
		case at == missingColumn:
			f.fixed = &Partition{Name: f.name, Null: true}
		default:
			sel.At = append(sel.At, at)
		}
		fields = append(fields, f)
	}
	for _, c := range chosen {
		add(c.at, field{name: c.name, conditions: s.ConditionsOn(c.name)})
	}
	// Behind the others come the columns that only conditions need.
	// Last in the line's order, so that leaving them out changes the position of no wanted field. Each column
	// is added once, and field.conditions has all conditions on it.
	for i, w := range s.Where {
		if slices.ContainsFunc(fields, func(f field) bool { return f.name == w.Column }) {
			continue
		}
		at, err := s.find(sel.Names, w.Column)
		if err != nil {
			return nil, fmt.Errorf("the condition %s: %w", s.Where[i].String(), err)
		}
		add(at, field{name: w.Column, hidden: true, conditions: s.ConditionsOn(w.Column)})
	}
	sel.Line = newLine(s, fields)
	return sel, nil
}

// chosenColumn is a wanted column and its position among the columns of a file and its path.
type chosenColumn struct {
	name string
	at   int
}

// choose returns the wanted columns.
func (s *Spec) choose(names []string) (all []chosenColumn, err error) {
	switch {
	case len(s.Columns) > 0:
		for _, c := range s.Columns {
			at, err := s.find(names, c)
			if err != nil {
				return nil, err
			}
			all = append(all, chosenColumn{c, at})
		}
	// Without this case each file would give its columns in its own order. Two files of one table, written by
	// two versions of a program, would then mix their fields without an error.
	case s.First != nil:
		at, err := s.First.align(names, s.Missing == MissingNull)
		if err != nil {
			return nil, err
		}
		for i, c := range s.First.Columns {
			all = append(all, chosenColumn{c, at[i]})
		}
	default:
		for i, c := range names {
			all = append(all, chosenColumn{c, i})
		}
	}
	return all, nil
}

// find returns the position of a column.
func (s *Spec) find(names []string, column string) (int, error) {
	i := slices.Index(names, column)
	switch {
	case i < 0 && s.Missing == MissingNull:
		return missingColumn, nil
	case i < 0:
		return 0, fmt.Errorf("there is no column %q; the file has %s", column, list(names))
	// Only a wanted column is refused. CSV exports often repeat a name such as an empty one that no job
	// reads.
	case slices.Contains(names[i+1:], column):
		return 0, fmt.Errorf("the file has several columns %q", column)
	}
	return i, nil
}

// align returns the position of each column of the layout among the names of another file's
// columns. A column that only one of the files has is an error: its fields would be taken for
// the fields of another column. With lenient the position of a missing column is missingColumn.
func (l *Layout) align(names []string, lenient bool) ([]int, error) {
	at := make([]int, len(l.Columns))
	// Nearly all files of an input have the same columns, so this saves the maps.
	// Equal lists may have a name twice: the position is then meaning enough, and the file is as good as the
	// first.
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
		// With lenient an additional column is an error all the same. The layout of such a job is the union
		// of all files (input.schema), so a column beyond it belongs to a file that was written after the
		// plan was made.
		if at[i], ok = position[name]; !ok {
			if at[i] = missingColumn; !lenient {
				missing = append(missing, name)
			}
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
	return nil, &LayoutError{fmt.Sprintf("its columns are not the columns of %s, the first file of the input: %s; read missing columns as null (--missing null), choose columns that all files have (--columns), or read the files by different jobs",
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

// CheckTextWhere returns an error if a condition is on a column that a file of lines lacks.
func (s *Spec) CheckTextWhere(partitions []Partition) error {
	for i := range s.Where {
		if w := &s.Where[i]; findPartition(partitions, w.Column) < 0 {
			return fmt.Errorf("the condition %s needs a column %s, and the file is text below no directory %[2]s=…: name its format, csv or json", w.String(), w.Column)
		}
	}
	return nil
}

// list joins names for a message. It leaves out names after the 30th.
func list(names []string) string {
	const most = 30
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
