package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Condition is a condition on one column, such as fare>=2.5. A record is read if all conditions of
// a Spec hold.
//
// A value that is a number is compared with numbers: a field that is no number differs from it and is
// neither less nor greater. Infinity is a number for columns of floating-point numbers only. In the same way
// a value that is a date or a time is compared with dates and times if the field's file declares no types.
// true and false equal what other programs write for them, such as True, in such files.
// Any other value, and one in single quotes, is compared with the text of the field, byte by byte. A field
// that its file declares as a date or a time is compared as a point in time, with quotes or without. \N is
// null, with = and != only. For all other values a null field meets no condition.
type Condition struct {
	Column   string
	op       string // one of operators
	value    string // without quotes
	quoted   bool
	null     bool // the value is \N
	number   *number
	infinity *number
	moment   *moment // nil if the value is no date and no time
}

// operators are the operators, each before its own prefix.
var operators = []string{"!=", "<>", "<=", ">=", "=", "<", ">"}

// maxCondition bounds the text of a condition in bytes.
const maxCondition = 64 << 10

// ParseCondition parses COLUMN, an operator and a value.
func ParseCondition(text string) (c Condition, err error) {
	// The first such character ends the column's name, so a column whose name has one cannot be named in a
	// condition.
	at := strings.IndexAny(text, "=<>!")
	if at < 0 || len(text) > maxCondition {
		return c, fmt.Errorf("%.100q: want a column, one of %s, and a value, such as part=0", text, strings.Join(operators, " "))
	}
	c.Column = strings.TrimSpace(text[:at])
	// <= is before <, or the value would begin with "=".
	for _, op := range operators {
		if strings.HasPrefix(text[at:], op) {
			c.op = op
			break
		}
	}
	if c.op == "" || c.Column == "" {
		return c, fmt.Errorf("%q: want a column, one of %s, and a value, such as part=0", text, strings.Join(operators, " "))
	}
	c.value = strings.TrimSpace(text[at+len(c.op):])
	// One spelling inside, so that String, holds and Excludes know six operators and not seven.
	if c.op == "<>" {
		c.op = "!="
	}
	switch {
	case strings.HasPrefix(c.value, "'"):
		c.quoted = true
		if c.value, err = unquote(c.value); err != nil {
			return c, fmt.Errorf("%q: %w", text, err)
		}
	case strings.HasPrefix(c.value, `"`):
		return c, fmt.Errorf("%q: a text is written in single quotes, not in double ones, and a number without quotes", text)
	case c.value != "" && strings.ContainsAny(c.value[:1], specialFirst):
		// Otherwise part==0 would compare texts with "=0", and find nothing.
		return c, fmt.Errorf("%q: a value cannot begin with %c: write the operator once (%s), and a text with such a beginning in single quotes, as in name='<b>'",
			text, c.value[0], strings.Join(operators, " "))
	case c.value == `\N`:
		if c.null = true; c.op != "=" && c.op != "!=" {
			return c, fmt.Errorf("%q: null is neither less nor greater than a value; use = or !=", text)
		}
	default:
		// Not for a value in quotes: quotes ask for a comparison as text, so '007' differs from 7.
		c.number, c.infinity = parseNumber(c.value), parseInfinity(c.value)
	}
	// For a value in quotes, too: SQL writes a date in quotes, and a column of dates compares it as one. For
	// untyped text the quotes count, see compare.
	if m, ok := parseMoment(c.value); ok {
		c.moment = &m
	}
	return c, nil
}

// specialFirst are the bytes with which a value begins only in quotes. Users of SQL write double quotes,
// which would otherwise be a part of the text.
const specialFirst = `=<>!'"`

// unquote returns the text in single quotes. A quote in it is written twice.
func unquote(quoted string) (string, error) {
	inner, closed := strings.CutSuffix(quoted[1:], "'")
	text := strings.ReplaceAll(inner, "''", "'")
	// A quote in the text is written as two. A count that does not match means an open quote, or text
	// behind the closing one.
	if !closed || strings.Count(inner, "'") != 2*(len(inner)-len(text)) {
		return "", errors.New("a text in single quotes ends with one, and a quote in it is written twice, as in 'it''s'; each condition needs a --where of its own")
	}
	return text, nil
}

// String returns the text that ParseCondition parses.
func (c *Condition) String() string {
	value := c.value
	if c.quoted {
		value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return c.Column + c.op + value
}

// class says how a field is compared.
type class uint8

// The classes of fields.
const (
	classText    class = iota
	classUntyped       // text of CSV, JSON lines and paths, which declare no types
	classNumber
	classTime // a date, a time of day, or both, as parseMoment parses it
)

// match reports whether a field meets the condition. text is the field without escapes.
func (c *Condition) match(text []byte, null bool, is class) bool {
	// As in SQL, null meets no comparison with a value, not even !=.
	// With c.null true this is IS NULL or IS NOT NULL. With only the field null it is false for every
	// operator.
	if c.null || null {
		return c.null && null == (c.op == "=")
	}
	order, comparable := c.compare(text, is)
	if !comparable {
		return c.op == "!="
	}
	return c.holds(order)
}

// holds reports whether the operator holds for a field that is less than (-1), equal to (0) or
// greater than (1) the value.
func (c *Condition) holds(order int) bool {
	switch c.op {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// compare orders a field and the value. comparable is false if only one of the two is a number, a point in
// time, or a time of day.
func (c *Condition) compare(text []byte, is class) (order int, comparable bool) {
	if is == classTime || is == classUntyped && c.moment != nil && !c.quoted {
		m, ok := parseMoment(string(text))
		// A date and a time of day have no order. Their seconds are both numbers, and comparing those would
		// find records.
		if !ok || c.moment == nil || m.clock != c.moment.clock {
			return 0, false
		}
		return m.compare(c.moment), true
	}
	// Programs write truth values in several ways. A declared type has one way, so only untyped files
	// need this.
	// Both must be such words: in a column of free text, where true is one value among others, the others
	// still compare as text.
	if is == classUntyped && !c.quoted && truth[c.value] != 0 && truth[string(text)] != 0 {
		return cmp.Compare(truth[string(text)], truth[c.value]), true
	}
	want := c.numberFor(is)
	if want == nil {
		return bytes.Compare(text, []byte(c.value)), true
	}
	n := parseNumber(string(text))
	// A declared number prints +Inf. In untyped text Infinity stays a word, as numberFor has it for the
	// value.
	if n == nil && is == classNumber {
		n = parseInfinity(string(text))
	}
	if n == nil {
		return 0, false
	}
	return n.compare(want), true
}

// numberFor returns the number that fields of a class are compared with, or nil if they are compared as
// text. In a text, such as a name in a CSV file, Infinity is a word.
func (c *Condition) numberFor(is class) *number {
	if is == classNumber && c.infinity != nil {
		return c.infinity
	}
	return c.number
}

// checkType returns an error if the column's type, as ColumnType has it, is a date or a time and the value
// is none: the condition would hold for no record.
func (c *Condition) checkType(kind string) error {
	want := "no date, with or without a time, such as 2024-05-01, 2024-05-01T08:30 or 2024-05-01T08:30:00.5+02:00"
	switch kind {
	case "time":
		want = "no time of day, such as 08:30 or 08:30:00.5"
	case "date", "timestamp", "timestamp UTC":
	default:
		return nil
	}
	// \N fits every type.
	if c.null || c.moment != nil && c.moment.clock == (kind == "time") {
		return nil
	}
	return fmt.Errorf("the condition %s: the column has the type %s, and the value is %s", c.String(), kind, want)
}

// checkTypes returns an error for a condition whose value the declared type of its column cannot have.
func (s *Spec) checkTypes(records Records, partitions []Partition) error {
	file, ok := records.(typed)
	// A format without declared types cannot contradict a value: 2024-01-01 may be a text in a CSV file.
	if !ok || len(s.Where) == 0 {
		return nil
	}
	for _, column := range file.Types() {
		if findPartition(partitions, column.Name) >= 0 {
			continue // the field of the path takes the place of the file's, and is text
		}
		for _, c := range s.ConditionsOn(column.Name) {
			if err := c.checkType(column.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// matchPartition reports whether the files of a partition can have records that meet the condition.
func (c *Condition) matchPartition(p *Partition) bool {
	return c.match([]byte(p.Value), p.Null, classUntyped)
}

// Excludes reports whether no record of a group can meet the condition. least and most are bounds of the
// column's values in the group that are not null, as text without escapes; numbers and times say how
// the column is compared.
func (c *Condition) Excludes(least, most []byte, numbers, times bool) bool {
	is := classText
	switch {
	case numbers:
		is = classNumber
	case times:
		is = classTime
	}
	// The bounds are in the order of bytes, or of numbers, and must be so for the condition, too.
	// Null: bounds cover the values that are not null and say nothing about the others.
	// A number compared with texts, or a text with numbers, follows neither order. The condition then decides
	// record by record.
	if c.null || !times && (c.numberFor(is) != nil) != numbers {
		return false
	}
	low, ok1 := c.compare(least, is)
	high, ok2 := c.compare(most, is)
	// One bound alone could still exclude for < or >, and is not used.
	if !ok1 || !ok2 {
		return false
	}
	switch c.op {
	case "=":
		return low > 0 || high < 0
	case "<":
		return low >= 0
	case "<=":
		return low > 0
	case ">":
		return high <= 0
	case ">=":
		return high < 0
	}
	return false // != : a group of equal values may have others that its bounds leave out, such as NaN
}

// number is a number of a field or of a condition.
type number struct {
	text  string
	exact bool // i is the number
	i     int64
	f     float64
}

// parseInfinity returns an infinity, as inf, Infinity and both with a sign, or nil for other text.
func parseInfinity(s string) *number {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "inf", "infinity":
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return &number{text: s, f: f}
		}
	}
	return nil
}

// parseNumber returns a number, or nil for text that is none. NaN and infinity are no numbers.
func parseNumber(s string) *number {
	// The last byte rejects words cheaply, before they are parsed.
	// 400 bytes hold every float64 in its shortest decimal notation, and bound the cost for a field of
	// megabytes.
	if s == "" || len(s) > 400 || !strings.ContainsAny(s[len(s)-1:], "0123456789.") {
		return nil
	}
	n := &number{text: s}
	var err error
	if n.i, err = strconv.ParseInt(s, 10, 64); err == nil {
		n.exact, n.f = true, float64(n.i)
		return n
	}
	// Go's notation for source code, which no data file means as a number.
	if strings.ContainsAny(s, "_xXpP") {
		return nil
	}
	// A number beyond float64 is an error of range and counts as text: infinity would make all such numbers
	// equal.
	if n.f, err = strconv.ParseFloat(s, 64); err != nil {
		return nil
	}
	return n
}

// compare orders two numbers. Integers and decimals that have the same float64 are compared digit
// by digit.
func (n *number) compare(m *number) int {
	if n.exact && m.exact {
		return cmp.Compare(n.i, m.i)
	}
	// Two decimals of at most 15 digits that differ have different float64s. With an exponent the digits have
	// no fixed position, and the float64 decides.
	if n.f != m.f || n.text == m.text || len(n.text) < 16 && len(m.text) < 16 || strings.ContainsAny(n.text+m.text, "eE") {
		return cmp.Compare(n.f, m.f)
	}
	return compareDecimals(n.text, m.text)
}

// compareDecimals orders two numbers without an exponent by their digits. Package math/big would do
// so, and every program would link it and three more packages.
func compareDecimals(a, b string) int {
	parts := func(s string) (sign int, whole, fraction string) {
		digits := strings.TrimLeft(s, "+-")
		whole, fraction, _ = strings.Cut(digits, ".")
		whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
		switch {
		case whole == "" && fraction == "":
			return 0, "", ""
		case s[0] == '-':
			return -1, whole, fraction
		}
		return 1, whole, fraction
	}
	signA, wholeA, fractionA := parts(a)
	signB, wholeB, fractionB := parts(b)
	if signA != signB {
		return cmp.Compare(signA, signB)
	}
	// Leading zeros are gone, so more digits are a larger number, and equal counts compare as text. Fractions
	// compare as text, whatever their lengths.
	return signA * cmp.Or(cmp.Compare(len(wholeA), len(wholeB)), strings.Compare(wholeA, wholeB), strings.Compare(fractionA, fractionB))
}

// ExcludesFile reports whether the partitions of a file show that none of its records is wanted.
func (s *Spec) ExcludesFile(partitions []Partition) bool {
	return slices.ContainsFunc(s.Where, func(c Condition) bool {
		i := findPartition(partitions, c.Column)
		return i >= 0 && !c.matchPartition(&partitions[i])
	})
}

// ConditionsOn returns the conditions on a column.
func (s *Spec) ConditionsOn(column string) (all []Condition) {
	for _, c := range s.Where {
		if c.Column == column {
			all = append(all, c)
		}
	}
	return all
}
