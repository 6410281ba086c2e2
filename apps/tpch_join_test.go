package apps

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// TestJoins compares both joins with nested loops, over small tables in which
// keys are missing and repeat on either side.
func TestJoins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Int64Range(-2, 3), 0, 12)
		left, right := rows.Draw(t, "left"), rows.Draw(t, "right")
		var inner, anti []string
		for i, r := range right {
			matched := false
			for k, l := range left {
				if l == r {
					inner = append(inner, fmt.Sprintf("%d %d-%d", r, k, i))
					matched = true
				}
			}
			if !matched {
				anti = append(anti, fmt.Sprintf("%d %d", r, i))
			}
		}
		joined := runJoin(t, left, right, innerJoin(func(key, l, r []byte, out *mapreduce.Emitter) {
			out.Emit(nil, fmt.Appendf(nil, "%d %s-%s", mapreduce.Int64(key), l, r))
		}))
		if slices.Sort(inner); !slices.Equal(joined, inner) {
			t.Fatalf("inner join: %q, want %q", joined, inner)
		}
		missing := runJoin(t, left, right, antiJoin(func(key, r []byte, out *mapreduce.Emitter) {
			out.Emit(nil, fmt.Appendf(nil, "%d %s", mapreduce.Int64(key), r))
		}))
		if slices.Sort(anti); !slices.Equal(missing, anti) {
			t.Fatalf("anti-join: %q, want %q", missing, anti)
		}
	})
}

// runJoin joins two tables of key|row number and returns the values, sorted.
func runJoin(t *rapid.T, left, right []int64, reducer func() mapreduce.Reducer) []string {
	side := func(mark byte, name string) mapreduce.Source {
		return mapreduce.Source{Inputs: []string{name}, Mapper: tableSide(mark, name, 2, func(r *tableRow) bool {
			r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
			r.value = append(r.value[:0], r.text(1)...)
			return true
		})}
	}
	table := func(keys []int64) []byte {
		var b strings.Builder
		for i, k := range keys {
			fmt.Fprintf(&b, "%d|%d|\n", k, i)
		}
		return []byte(b.String())
	}
	job := joinJob("join", side(leftSide, "left"), side(rightSide, "right"), reducer)
	out, err := mrtest.Run(job, map[string][]byte{"left": table(left), "right": table(right)})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range out {
		lines = append(lines, string(r.Value))
	}
	slices.Sort(lines)
	return lines
}
