package hadoop

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/slotwise/slotwise/internal/data/format"
)

// Aggregator aggregates the values of one key of Hadoop's package of aggregators.
//
// The same code serves the combiner and the reducer: a value of Partial is a value that Add accepts.
type Aggregator struct {
	kind   string // in lower case
	limit  int    // of unique values; negative for none
	n      int64  // LongValue…
	f      float64
	text   string // StringValue…
	some   bool   // a value has been added
	counts map[string]int64
}

// aggregators are the names of the kinds in lower case.
var aggregators = []string{
	"longvaluesum", "longvaluemax", "longvaluemin", "doublevaluesum", "stringvaluemax", "stringvaluemin", "uniqvaluecount", "valuehistogram",
}

// NewAggregator returns an aggregator for a key TYPE:ID, and the ID. maxUnique bounds the
// result of UniqValueCount unless it is negative.
func NewAggregator(key []byte, maxUnique int) (*Aggregator, []byte, error) {
	kind, id, ok := bytes.Cut(key, []byte(":"))
	a := &Aggregator{kind: strings.ToLower(string(kind)), limit: maxUnique, counts: map[string]int64{}}
	if !ok || !slices.Contains(aggregators, a.kind) {
		return nil, nil, fmt.Errorf("aggregate: the key %q does not begin with the name of an aggregator such as LongValueSum and a colon", key)
	}
	return a, id, nil
}

// Add adds a value.
func (a *Aggregator) Add(v string) error {
	first := !a.some
	a.some = true
	switch a.kind {
	case "longvaluesum", "longvaluemax", "longvaluemin":
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return err
		}
		switch {
		case a.kind == "longvaluesum":
			// It wraps around like Java's long.
			a.n += n
		// The first value counts whatever it is: 0 would be the maximum of negative ones.
		case first, a.kind == "longvaluemax" && n > a.n, a.kind == "longvaluemin" && n < a.n:
			a.n = n
		}
	case "doublevaluesum":
		// Java's Double.parseDouble ignores spaces around a number. Long.parseLong does not, so the case
		// above does not either.
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			return err
		}
		// The sum depends on the order of the values. The engine keeps the order of the input, so two runs
		// agree.
		a.f += f
	case "stringvaluemax", "stringvaluemin":
		// Java compares UTF-16 units, which differ from code points for characters beyond 2¹⁶.
		order := slices.Compare(utf16.Encode([]rune(v)), utf16.Encode([]rune(a.text)))
		if first || a.kind == "stringvaluemax" && order > 0 || a.kind == "stringvaluemin" && order < 0 {
			a.text = v
		}
	case "uniqvaluecount":
		// Hadoop stops collecting there, too: the result is then the limit. The counts themselves are not
		// used.
		if a.limit < 0 || len(a.counts) < a.limit {
			a.counts[v]++
		}
	case "valuehistogram":
		// Partial emits VALUE TAB COUNT. A mapper that prints a TAB in a value must print a number
		// behind it, in Hadoop, too.
		value, count, many := strings.Cut(v, "\t")
		n := int64(1)
		if many {
			var err error
			if n, err = strconv.ParseInt(count, 10, 64); err != nil {
				return err
			}
		}
		a.counts[value] += n
	}
	return nil
}

// Result returns the value for the output file.
func (a *Aggregator) Result() string {
	switch a.kind {
	case "doublevaluesum":
		return format.JavaFloat(a.f, 64)
	case "stringvaluemax", "stringvaluemin":
		return a.text
	case "uniqvaluecount":
		return strconv.Itoa(len(a.counts))
	case "valuehistogram":
		return a.histogram()
	}
	return strconv.FormatInt(a.n, 10)
}

// Partial returns the values that a combiner emits.
func (a *Aggregator) Partial() []string {
	// Counts of distinct values cannot be added, so the combiner passes the values themselves on.
	if a.kind != "uniqvaluecount" && a.kind != "valuehistogram" {
		return []string{a.Result()}
	}
	var list []string
	for v, n := range a.counts {
		if a.kind == "valuehistogram" {
			v += "\t" + strconv.FormatInt(n, 10)
		}
		list = append(list, v)
	}
	// A map has no order, and the output of an attempt must be the same in each execution.
	slices.Sort(list)
	return list
}

// histogram describes the counts of the distinct values: their number, minimum, median,
// maximum, mean and standard deviation.
func (a *Aggregator) histogram() string {
	var counts []int64
	sum := 0.0
	for _, n := range a.counts {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	for _, n := range counts {
		sum += float64(n)
	}
	k := len(counts)
	mean, squares := sum/float64(k), 0.0
	for _, n := range counts {
		squares += (float64(n) - mean) * (float64(n) - mean)
	}
	// Of an even number of counts the upper of the two in the middle is the median, as in Hadoop. k is at
	// least 1, because Add precedes Result.
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%s\t%s", k, counts[0], counts[k/2], counts[k-1], format.JavaFloat(mean, 64), format.JavaFloat(math.Sqrt(squares/float64(k)), 64))
}
