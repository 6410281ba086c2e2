package format

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Condition is a condition on one column, such as fare>=2.5. A record is read if all conditions of
// a Spec hold.
//
// A value that is a number is compared with numbers: a field that is no number differs from it and is
// neither less nor greater. Any other value, and one in single quotes, is compared with the text of the
// field, byte by byte; dates and times are compared as points in time. \N is null, with = and != only.
// For all other values a null field meets no condition.
type Condition struct {
	Column string
	op     string // one of operators
	value  string // without quotes
	null   bool   // the value is \N
	number *number
}

// operators are the operators, each before its own prefix.
var operators = []string{"!=", "<>", "<=", ">=", "=", "<", ">"}

// maxCondition bounds the text of a condition in bytes.
const maxCondition = 64 << 10

// ParseCondition parses COLUMN, an operator and a value.
func ParseCondition(text string) (c Condition, err error) {
	at := strings.IndexAny(text, "=<>!")
	if at < 0 || len(text) > maxCondition {
		return c, fmt.Errorf("%.100q: want a column, one of %s, and a value, such as part=0", text, strings.Join(operators, " "))
	}
	c.Column = strings.TrimSpace(text[:at])
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
	if c.op == "<>" {
		c.op = "!="
	}
	switch quoted := len(c.value) >= 2 && c.value[0] == '\'' && c.value[len(c.value)-1] == '\''; {
	case quoted:
		c.value = strings.ReplaceAll(c.value[1:len(c.value)-1], "''", "'")
	case c.value == `\N`:
		if c.null = true; c.op != "=" && c.op != "!=" {
			return c, fmt.Errorf("%q: null is neither less nor greater than a value; use = or !=", text)
		}
	default:
		c.number = parseNumber(c.value)
	}
	return c, nil
}

// String returns the text that ParseCondition parses.
func (c *Condition) String() string {
	value := c.value
	if c.number == nil && !c.null && (value == `\N` || parseNumber(value) != nil || strings.TrimSpace(value) != value || value == "" || value[0] == '\'' || strings.ContainsAny(value[:1], "=<>")) {
		value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return c.Column + c.op + value
}

// class says how a field is compared.
type class uint8

// The classes of fields.
const (
	classText class = iota
	classNumber
	classTime // an ISO date, a time, or both
)

// match reports whether a field meets the condition. text is the field without escapes.
func (c *Condition) match(text []byte, null bool, is class) bool {
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

// compare orders a field and the value. comparable is false for a field that is no number, if the value is
// one.
func (c *Condition) compare(text []byte, is class) (order int, comparable bool) {
	switch {
	case c.number != nil && is != classTime:
		n := parseNumber(string(text))
		if n == nil {
			return 0, false
		}
		return n.compare(c.number), true
	case is == classTime:
		return compareTimes(string(text), c.value), true
	}
	return bytes.Compare(text, []byte(c.value)), true
}

// matchPartition reports whether the files of a partition can have records that meet the condition.
func (c *Condition) matchPartition(p *Partition) bool {
	return c.match([]byte(p.Value), p.Null, classText)
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
	if c.null || (c.number != nil) != numbers && !times {
		return false
	}
	low, ok1 := c.compare(least, is)
	high, ok2 := c.compare(most, is)
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

// parseNumber returns a number, or nil for text that is none. NaN and infinity are no numbers.
func parseNumber(s string) *number {
	if s == "" || len(s) > 400 || !strings.ContainsAny(s[len(s)-1:], "0123456789.") {
		return nil
	}
	n := &number{text: s}
	var err error
	if n.i, err = strconv.ParseInt(s, 10, 64); err == nil {
		n.exact, n.f = true, float64(n.i)
		return n
	}
	if strings.ContainsAny(s, "_xXpP") {
		return nil
	}
	if n.f, err = strconv.ParseFloat(s, 64); err != nil {
		return nil
	}
	return n
}

// compare orders two numbers. Integers and decimals that a float64 cannot tell apart are compared digit
// by digit.
func (n *number) compare(m *number) int {
	if n.exact && m.exact {
		return cmp.Compare(n.i, m.i)
	}
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
	return signA * cmp.Or(cmp.Compare(len(wholeA), len(wholeB)), strings.Compare(wholeA, wholeB), strings.Compare(fractionA, fractionB))
}

// compareTimes orders two ISO dates or times. A date is the beginning of its day, T may be a space, and
// the fraction of a second may have any number of digits.
func compareTimes(a, b string) int {
	split := func(s string) (whole, fraction string) {
		s = strings.TrimSuffix(strings.Replace(s, " ", "T", 1), "Z")
		if whole, fraction, _ = strings.Cut(s, "."); len(whole) == len("2006-01-02") {
			whole += "T00:00:00"
		}
		return whole, strings.TrimRight(fraction, "0")
	}
	wa, fa := split(a)
	wb, fb := split(b)
	return cmp.Or(strings.Compare(wa, wb), strings.Compare(fa, fb))
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
