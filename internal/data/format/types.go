package format

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// ColumnType is a column of a file and its type: null (no record has a value), bool, int, float,
// decimal(P,S), string, bytes, date, time, timestamp, timestamp UTC, uuid, list, map, record, or one that
// the format itself names.
type ColumnType struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// typed are Records whose file states the types of its columns.
type typed interface {
	// Types returns the columns of the file without the columns of its path.
	Types() []ColumnType
}

// SampleRecords is the number of records from which Types infers the types of a file that states none.
const SampleRecords = 1000

// Types returns the columns of a file and their types: as the file states them, or as the first
// SampleRecords records show them, if sampled. Columns of the path are left out.
func Types(src *Source, s *Spec) (columns []ColumnType, sampled bool, err error) {
	// Without the user's columns and conditions: the types of all columns are wanted.
	// As JSON, because inferRecord must distinguish null, text and numbers, which fields between TABs do not
	// show.
	plain := &Spec{Name: s.Name, JSON: true, NoHeader: s.NoHeader, Separator: s.Separator, SingleLines: s.SingleLines, SkipBad: s.SkipBad}
	without := *src
	without.Partitions = nil
	r, err := Open(&without, plain)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if t, ok := r.(*reader).records.(typed); ok {
		return t.Types(), false, nil
	}
	for _, name := range r.(*reader).records.Columns() {
		// A CSV file states the names and the order. Null is the neutral type of UniteTypes: a column without
		// any value in the sample keeps it.
		columns = append(columns, ColumnType{name, "null"})
	}
	lines := bufio.NewReader(r)
	for range SampleRecords {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, true, err
		}
		if columns, err = inferRecord(columns, line, s.Name == CSV); err != nil {
			return nil, true, err
		}
	}
	return columns, true, nil
}

// inferRecord adds the fields of a JSON object to the columns. texts says that numbers are strings.
func inferRecord(columns []ColumnType, line []byte, texts bool) ([]ColumnType, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	// With format json a line is a line of the file, so an error here is the file's.
	if _, err := d.Token(); err != nil {
		return nil, retry.Permanent(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, retry.Permanent(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, retry.Permanent(err)
		}
		t := typeOfJSON(value, texts)
		// A search and no map: the order in which fields first occur is the result, and most objects have few
		// fields.
		at := slices.IndexFunc(columns, func(c ColumnType) bool { return c.Name == name })
		switch {
		case at >= 0:
			columns[at].Type = UniteTypes(columns[at].Type, t)
		// Objects whose names are data, such as ids, would make a schema without end.
		case len(columns) == maxColumns:
			return nil, fmt.Errorf("the objects have more than %d fields", maxColumns)
		default:
			columns = append(columns, ColumnType{name.(string), t})
		}
	}
	return columns, nil
}

// typeOfJSON returns the type of a value. A text is a date or a time if it looks like one.
func typeOfJSON(v json.RawMessage, texts bool) string {
	switch v[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "bool"
	case '[':
		return "list"
	case '{':
		return "record"
	case '"':
		var s string
		if json.Unmarshal(v, &s) != nil {
			return "string"
		}
		return TypeOfText(s, texts)
	}
	if n := parseNumber(string(v)); n != nil && n.exact {
		return "int"
	}
	return "float"
}

// momentType returns the type of a date or a time as conditions read it, and "" for other text.
func momentType(s string) string {
	m, ok := parseMoment(s)
	at := strings.IndexAny(s, " Tt")
	switch {
	case !ok:
		return ""
	case m.clock:
		return "time"
	case at < 0:
		return "date"
	case strings.ContainsAny(s[at:], "Zz+-"):
		return "timestamp UTC"
	}
	return "timestamp"
}

// truth has the words for true, 1, and false, -1: of JSON and SQL, of Python, and of Excel.
var truth = map[string]int{"true": 1, "True": 1, "TRUE": 1, "false": -1, "False": -1, "FALSE": -1}

// TypeOfText returns the type that a text looks like. numbers says that numbers and truth values are written as
// text, as in CSV and in paths. A number with leading zeros is a string, such as a post code.
func TypeOfText(s string, numbers bool) string {
	if numbers {
		switch n := parseNumber(s); {
		// Before the numbers: 01234 parses as one, and a schema that calls a post code an int would lose its
		// zero.
		case n != nil && len(s) > 1 && s[0] == '0' && s[1] != '.':
			return "string"
		case n != nil && n.exact:
			return "int"
		case n != nil:
			return "float"
		case truth[s] != 0:
			return "bool"
		}
	}
	return cmp.Or(momentType(s), "string")
}

// UniteTypes returns the type of a column that has values of two types: null and a type are the type,
// int and a float or decimal the latter, a date and a timestamp the latter, and all others are string.
func UniteTypes(a, b string) string {
	// In the order of names, so that each pair needs one case.
	if a > b {
		a, b = b, a
	}
	switch {
	case a == b || b == "null":
		return a
	case a == "null":
		return b
	case a == "float" && b == "int":
		return a
	case strings.HasPrefix(a, "decimal") && (b == "int" || b == "float"):
		return "float"
	// A date is the beginning of its day without a zone. With a zone, in timestamp UTC, it would name another
	// moment, so that pair is a string.
	case a == "date" && b == "timestamp":
		return b
	}
	return "string"
}
