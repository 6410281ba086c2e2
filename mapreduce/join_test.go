package mapreduce_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// byteJoin joins files of lines key TAB value. BytesCode decodes without a copy, so a value
// that a join keeps too long would change.
var byteJoin = mapreduce.Join[string, []byte, []byte]{Key: mapreduce.StringCode, Left: mapreduce.BytesCode, Right: mapreduce.BytesCode}

func passBytes(key, value []byte, out *mapreduce.TypedEmitter[string, []byte]) error {
	out.Put(string(key), value)
	return nil
}

// joined runs a join of the files l and r.
func joined(t interface{ Fatal(...any) }, reducer func() mapreduce.Reducer, left, right string) string {
	job := &mapreduce.Job{
		Name: "join",
		Sources: []mapreduce.Source{
			{Inputs: []string{"l"}, Input: mapreduce.KeyValue, Mapper: byteJoin.LeftMapper(passBytes)},
			{Inputs: []string{"r"}, Input: mapreduce.KeyValue, Mapper: byteJoin.RightMapper(passBytes)},
		},
		Reducer: reducer,
	}
	records, err := mrtest.Run(job, map[string][]byte{"l": []byte(left), "r": []byte(right)})
	if err != nil {
		t.Fatal(err)
	}
	return mrtest.Text(records)
}

// Each join equals two nested loops over the lines.
func TestJoins(t *testing.T) {
	text := func(v *[]byte) string {
		if v == nil {
			return "-"
		}
		return string(*v)
	}
	emit := func(out *mapreduce.Emitter, words ...string) error {
		out.Emit(nil, []byte(strings.Join(words, " ")))
		return nil
	}
	reducers := map[string]func() mapreduce.Reducer{
		"inner": byteJoin.Inner(func(k string, l, r []byte, out *mapreduce.Emitter) error { return emit(out, k, string(l), string(r)) }),
		"left": byteJoin.LeftOuter(func(k string, l []byte, r *[]byte, out *mapreduce.Emitter) error {
			return emit(out, k, string(l), text(r))
		}),
		"full": byteJoin.FullOuter(func(k string, l, r *[]byte, out *mapreduce.Emitter) error { return emit(out, k, text(l), text(r)) }),
		"semi": byteJoin.Semi(func(k string, l []byte, out *mapreduce.Emitter) error { return emit(out, k, string(l)) }),
		"cogroup": byteJoin.CoGroup(func(k string, l, r [][]byte, out *mapreduce.Emitter) error {
			return emit(out, k, string(bytes.Join(l, []byte(","))), string(bytes.Join(r, []byte(","))))
		}),
	}
	type row struct{ key, value string }
	rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) row {
		return row{rapid.StringMatching(`[ab]?[c-e]`).Draw(t, "key"), rapid.StringMatching(`[0-9]{1,4}`).Draw(t, "value")}
	}), 0, 8)
	file := func(rows []row) string {
		var b strings.Builder
		for _, r := range rows {
			fmt.Fprintf(&b, "%s\t%s\n", r.key, r.value)
		}
		return b.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		left, right := rows.Draw(t, "left"), rows.Draw(t, "right")
		var keys []string
		values := map[string][2][]string{}
		for side, list := range [][]row{left, right} {
			for _, r := range list {
				v := values[r.key]
				v[side] = append(v[side], r.value)
				values[r.key] = v
				keys = append(keys, r.key)
			}
		}
		slices.Sort(keys)
		want := map[string]*strings.Builder{}
		for name := range reducers {
			want[name] = &strings.Builder{}
		}
		for _, k := range slices.Compact(keys) {
			l, r := values[k][0], values[k][1]
			for _, y := range r {
				for _, x := range l {
					for _, name := range []string{"inner", "left", "full"} {
						fmt.Fprintln(want[name], k, x, y)
					}
				}
				if len(l) == 0 {
					fmt.Fprintln(want["full"], k, "-", y)
				}
			}
			for _, x := range l {
				if len(r) > 0 {
					fmt.Fprintln(want["semi"], k, x)
					continue
				}
				fmt.Fprintln(want["left"], k, x, "-")
				fmt.Fprintln(want["full"], k, x, "-")
			}
			fmt.Fprintln(want["cogroup"], k, strings.Join(l, ","), strings.Join(r, ","))
		}
		for name, reducer := range reducers {
			if got := joined(t, reducer, file(left), file(right)); got != want[name].String() {
				t.Fatalf("%s:\n%swant\n%s", name, got, want[name])
			}
		}
	})
}

// A join whose right input stands first fails, whichever reducer it has. Without the error an
// inner join or a semi-join would have no records.
func TestJoinOrder(t *testing.T) {
	for name, reducer := range map[string]func() mapreduce.Reducer{
		"inner": byteJoin.Inner(func(string, []byte, []byte, *mapreduce.Emitter) error { return nil }),
		"semi":  byteJoin.Semi(func(string, []byte, *mapreduce.Emitter) error { return nil }),
	} {
		job := &mapreduce.Job{
			Name: "join",
			Sources: []mapreduce.Source{
				{Inputs: []string{"r"}, Input: mapreduce.KeyValue, Mapper: byteJoin.RightMapper(passBytes)},
				{Inputs: []string{"l"}, Input: mapreduce.KeyValue, Mapper: byteJoin.LeftMapper(passBytes)},
			},
			Reducer: reducer,
		}
		_, err := mrtest.Run(job, map[string][]byte{"l": []byte("k\tleft\n"), "r": []byte("k\tright\n")})
		if err == nil || !strings.Contains(err.Error(), "LeftMapper must stand first") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Encodings of Descending sort in the reverse order of the values and decode to them, also
// where one value is a prefix of another or has zero bytes.
func TestDescending(t *testing.T) {
	code := mapreduce.Descending(mapreduce.StringCode)
	pairs := mapreduce.PairCode(mapreduce.Descending(mapreduce.Int64Code), code)
	text := rapid.StringMatching(`[\x00\x01ab\x7f]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		x, y := code.Append([]byte("before"), a)[6:], code.Append(nil, b)
		if bytes.Compare(x, y) != cmp.Compare(b, a) {
			t.Fatalf("%q %q are encoded as %x %x", a, b, x, y)
		}
		if got, err := code.Decode(x); err != nil || got != a {
			t.Fatalf("%q, %v", got, err)
		}
		p := mapreduce.Pair[int64, string]{First: rapid.Int64().Draw(t, "n"), Second: a}
		if got, err := pairs.Decode(pairs.Append(nil, p)); err != nil || got != p {
			t.Fatalf("%v, %v", got, err)
		}
	})
	if _, err := code.Decode([]byte("x")); err == nil {
		t.Error("no error for a key that is not descending")
	}
}

// Wrong jobs fail with the name of the field.
func TestFieldErrors(t *testing.T) {
	identity := mapreduce.IdentityMapper
	for want, job := range map[string]*mapreduce.Job{
		"Codes.Value is nil":     {Mapper: mapreduce.Codes[string, string]{Key: mapreduce.StringCode}.Mapper(nil)},
		"Join.Left is nil":       {Mapper: mapreduce.Join[string, string, string]{Key: mapreduce.StringCode}.LeftMapper(nil)},
		"Mapper of the job":      {Mapper: func() mapreduce.Mapper { return nil }},
		"Reducer or Combiner":    {Mapper: identity, Reducer: func() mapreduce.Reducer { return nil }},
		"Sources[0].Mapper":      {Mapper: identity, Sources: []mapreduce.Source{{}}},
		"Synthetic is -1":        {Mapper: identity, Synthetic: -1},
		"KeyValue is for input":  {Mapper: identity, Output: mapreduce.KeyValue},
		"must stand first":       {Mapper: byteJoin.RightMapper(passBytes), Sources: []mapreduce.Source{{Inputs: []string{"r"}, Mapper: byteJoin.LeftMapper(passBytes)}}, Reducer: byteJoin.Inner(nil)},
		"from no mapper of the":  {Mapper: identity, Reducer: byteJoin.Inner(nil)},
		"Reduces is -3; it must": {Mapper: identity, Reducer: mapreduce.SumText, Reduces: -3},
	} {
		if _, err := mrtest.Run(job, map[string][]byte{"f": []byte("x\n"), "r": []byte("x\n")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An inner join: the orders of each user, without orders of unknown users.
func ExampleJoin() {
	type order = mapreduce.Pair[string, int64] // what, how many
	join := mapreduce.Join[string, string, order]{
		Key: mapreduce.StringCode, Left: mapreduce.StringCode, Right: mapreduce.PairCode(mapreduce.StringCode, mapreduce.Int64Code),
	}
	job := &mapreduce.Job{
		Name: "orders of users",
		Sources: []mapreduce.Source{
			{Inputs: []string{"users"}, Input: mapreduce.KeyValue, Mapper: join.LeftMapper(func(id, name []byte, out *mapreduce.TypedEmitter[string, string]) error {
				out.Put(string(id), string(name))
				return nil
			})},
			{Inputs: []string{"orders"}, Input: mapreduce.KeyValue, Mapper: join.RightMapper(func(id, what []byte, out *mapreduce.TypedEmitter[string, order]) error {
				out.Put(string(id), order{First: string(what), Second: 1})
				return nil
			})},
		},
		Reducer: join.Inner(func(_, name string, o order, out *mapreduce.Emitter) error {
			out.Emit([]byte(name), fmt.Appendf(nil, "%d %s", o.Second, o.First))
			return nil
		}),
	}
	// Package mrtest runs a job over texts in memory.
	records, err := mrtest.Run(job, map[string][]byte{"users": []byte("1\tann\n2\tbob\n"), "orders": []byte("1\ttea\n3\tsalt\n1\trice\n")})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(strings.ReplaceAll(mrtest.Text(records), "\t", ": "))
	// Output:
	// ann: 1 tea
	// ann: 1 rice
}

// A secondary sort with typed keys: the two greatest amounts of each city. RecordKey has
// the whole key of each value, of which the group shares the first part only.
func ExampleTask_RecordKey() {
	type key = mapreduce.Pair[string, int64] // city, amount from the greatest
	code := mapreduce.PairCode(mapreduce.StringCode, mapreduce.Descending(mapreduce.Int64Code))
	codes := mapreduce.Codes[key, string]{Key: code, Value: mapreduce.StringCode}
	job := &mapreduce.Job{
		Name: "greatest amounts",
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[key, string]) error {
			var k key
			var who string
			_, err := fmt.Sscan(string(line), &k.First, &k.Second, &who)
			out.Put(k, who)
			return err
		}),
		Partitioner: mapreduce.ByFirst,
		SameGroup:   mapreduce.SameFirst,
		Reducer: codes.Reducer(func(k key, names iter.Seq[string], out *mapreduce.Emitter) error {
			n := 0
			for who := range names {
				record, err := code.Decode(out.Task().RecordKey())
				if err != nil {
					return err
				}
				out.Emit([]byte(k.First), fmt.Appendf(nil, "%d %s", record.Second, who))
				if n++; n == 2 {
					break
				}
			}
			return nil
		}),
	}
	run(job, "Oslo 5 ann\nRome 7 bob\nOslo 12 cem\nOslo 9 dag\n")
	// Output:
	// Oslo 12 cem
	// Oslo 9 dag
	// Rome 7 bob
}

// A total order from the greatest to the least: the part files, one after the other, are
// in the order of the descending keys.
func ExampleDescending() {
	codes := mapreduce.Codes[int64, string]{Key: mapreduce.Descending(mapreduce.Int64Code), Value: mapreduce.StringCode}
	job := &mapreduce.Job{
		Name: "scores",
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[int64, string]) error {
			var score int64
			var who string
			_, err := fmt.Sscan(string(line), &score, &who)
			out.Put(score, who)
			return err
		}),
		TotalOrder: true,
		Reducer: codes.Reducer(func(score int64, names iter.Seq[string], out *mapreduce.Emitter) error {
			for who := range names {
				out.Emit(nil, fmt.Appendf(nil, "%d %s", score, who))
			}
			return nil
		}),
	}
	run(job, "5 ann\n-2 bob\n12 cem\n")
	// Output:
	// 12 cem
	// 5 ann
	// -2 bob
}

// errTooCold is an error of a job's author.
var errTooCold = errors.New("too cold")

// errors.Is finds the author's error in the error of Run, whichever function returned it.
func TestUserError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(file, []byte("x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	failed := fmt.Errorf("line 7: %w", errTooCold)
	for name, job := range map[string]*mapreduce.Job{
		"map": {Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func([]byte, []byte, *mapreduce.Emitter) error { return failed })
		}},
		"reduce": {Mapper: mapreduce.IdentityMapper, Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func([]byte, iter.Seq[[]byte], *mapreduce.Emitter) error { return failed })
		}},
	} {
		_, err := mapreduce.Run(t.Context(), job, mapreduce.Options{
			Inputs: []string{file}, Output: filepath.Join(t.TempDir(), "out"), Request: mapreduce.Request{MaxAttempts: 1}, Cluster: mapreduce.ClusterOptions{Workers: 1},
		})
		if !errors.Is(err, errTooCold) || !strings.Contains(err.Error(), "line 7: too cold") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
