package mapreduce_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

type (
	fare struct {
		City   string `column:"city"`
		Amount int    `column:"amount"`
	}
	total struct {
		City   string         `column:"city"`
		Sum    int            `column:"sum"`
		ByHour map[int]string `column:"-"`
	}
)

// A chain passes structs from step to step: no step parses text, and the schema of the Parquet
// output comes from the struct.
func TestTypedChain(t *testing.T) {
	type state struct{ Sums []int }
	fares, totals := mapreduce.TableOf[fare](), mapreduce.TableOf[total]()
	amounts, states := mapreduce.CodesOf[string, int64](), mapreduce.CodesOf[string, state]()
	app := &mapreduce.App{
		Name: "totals",
		Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
			"collect": func(mapreduce.Params) (*mapreduce.Job, error) {
				return &mapreduce.Job{
					Name: "collect", Input: fares.Input("csv"), Output: mapreduce.Runs,
					Mapper: mapreduce.MapTo(mapreduce.Values(fares), amounts, func(_ mapreduce.None, f fare, out *mapreduce.TypedEmitter[string, int64]) error {
						out.Put(f.City, int64(f.Amount))
						return nil
					}),
					Reducer: mapreduce.ReduceTo(amounts, states, func(city string, values iter.Seq[int64], out *mapreduce.TypedEmitter[string, state]) error {
						var s state
						for v := range values {
							s.Sums = append(s.Sums, int(v))
						}
						out.Put(city, s)
						return nil
					}),
				}, nil
			},
			"sum": func(mapreduce.Params) (*mapreduce.Job, error) {
				return &mapreduce.Job{
					Name: "sum", Input: mapreduce.Runs, Output: totals.Output("parquet"),
					Mapper: mapreduce.MapTo(states, mapreduce.Values(totals), func(city string, s state, out *mapreduce.TypedEmitter[mapreduce.None, total]) error {
						sum := 0
						for _, v := range s.Sums {
							sum += v
						}
						out.PutValue(total{City: city, Sum: sum})
						return nil
					}),
				}, nil
			},
		},
		Chain: func(ctx context.Context, c *mapreduce.Chain) error {
			return c.Step(ctx, "sum", nil, []string{c.Then(ctx, "collect", nil, c.Inputs...)}, c.Output())
		},
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("when,amount,city\n1,5,Oslo\n2,7,\"Rome,\tII\"\n3,-2,Oslo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mapreduce.RunApp(t.Context(), app, nil, mapreduce.Options{Inputs: []string{in}, Output: out, Features: []mapreduce.Feature{formats.Readers()}}); err != nil {
		t.Fatal(err)
	}
	files, err := mapreduce.OpenFiles(formats.Readers())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	err = mapreduce.ReadTyped(t.Context(), files, out, totals.Input("parquet"), mapreduce.Values(totals), func(_ mapreduce.None, row total) error {
		got[row.City] = row.Sum
		return nil
	})
	if err != nil || len(got) != 2 || got["Oslo"] != 3 || got["Rome,\tII"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

// Codes that are unfit for their use in a job fail it, with an error that names the field and
// the remedy, at once and not four times.
func TestCodesWithLimits(t *testing.T) {
	grouped := mapreduce.Codes[point, point]{Key: mapreduce.JSONCode[point](), Value: mapreduce.JSONCode[point]()}
	bad := mapreduce.Codes[string, total]{Key: mapreduce.StringCode, Value: mapreduce.TableOf[total]()}
	pass := func(_, line []byte, out *mapreduce.TypedEmitter[point, point]) error {
		x := float64(len(line))
		if string(line) == "nan" {
			x = math.NaN()
		}
		out.Put(point{X: 1}, point{X: x})
		return nil
	}
	job := func() *mapreduce.Job {
		return &mapreduce.Job{Name: "limits", Mapper: grouped.Mapper(pass), Reducer: mapreduce.IdentityReducer}
	}
	descending := mapreduce.Codes[point, point]{Key: mapreduce.Descending(grouped.Key), Value: grouped.Value}
	for _, c := range []struct {
		text   string
		change func(*mapreduce.Job)
		want   string
	}{
		{"a", func(j *mapreduce.Job) { j.TotalOrder = true }, "TotalOrder needs keys whose encodings have the order of their values"},
		{"a", func(j *mapreduce.Job) { j.Mapper = descending.Mapper(pass) }, "Codes.Key: the codec that Descending reverses has no order"},
		{"a", func(j *mapreduce.Job) {
			j.Mapper = mapreduce.MapTo(mapreduce.Values(mapreduce.StringCode), mapreduce.Codes[point, string]{Key: never{}, Value: mapreduce.StringCode},
				func(mapreduce.None, string, *mapreduce.TypedEmitter[point, string]) error { return nil })
		}, "Codes.Key: equal values of type mapreduce_test.point may have different encodings"},
		{"nan", func(*mapreduce.Job) {}, "a value of type mapreduce_test.point has no encoding: json: unsupported value: NaN"},
		{"a", func(j *mapreduce.Job) {
			j.Reducer = mapreduce.ReduceTo(grouped, mapreduce.Codes[string, total]{Key: mapreduce.StringCode}, func(point, iter.Seq[point], *mapreduce.TypedEmitter[string, total]) error { return nil })
		}, "the output's Codes.Value is nil"},
		{"a", func(j *mapreduce.Job) {
			j.Mapper = mapreduce.MapTo(mapreduce.Values(mapreduce.TableOf[int]()), bad, func(mapreduce.None, int, *mapreduce.TypedEmitter[string, total]) error { return nil })
		}, "the input's Codes.Value: a table needs a struct type, not int"},
	} {
		j := job()
		c.change(j)
		dir := t.TempDir()
		in := filepath.Join(dir, "in")
		if err := os.WriteFile(in, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := mapreduce.Run(t.Context(), j, mapreduce.Options{Inputs: []string{in}, Output: filepath.Join(dir, "out")})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "panic") {
			t.Errorf("%v, want %s", err, c.want)
		}
		if r != nil && r.Failures > 1 {
			t.Errorf("%s: %d failures of an error that is final", c.want, r.Failures)
		}
	}
	if got, err := mrtest.Run(job(), map[string][]byte{"f": []byte("a\nbb\n")}); err != nil || len(got) != 2 {
		t.Errorf("grouping by JSON: %v, %v", got, err)
	}
	if _, err := mrtest.Run(job(), map[string][]byte{"f": []byte("nan")}); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a panic of a codec in mrtest: %v", err)
	}
}

type point struct{ X, Y float64 }

// never is a codec whose encodings cannot be keys.
type never struct{ mapreduce.Codec[point] }

// Limits implements mapreduce.Limited.
func (never) Limits() (mapreduce.KeyUse, error) { return mapreduce.KeyNever, nil }

// Outputs of Then have names of their own, in loops, too, and a failed step ends the chain with its error: no later
// step runs, and the error of a function that reads the output which is not there does not replace it.
func TestThen(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(in, []byte("a\t1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ran []string
	step := func(name string, err error) func(mapreduce.Params) (*mapreduce.Job, error) {
		return func(mapreduce.Params) (*mapreduce.Job, error) {
			ran = append(ran, name)
			return &mapreduce.Job{Name: name, Input: mapreduce.KeyValue, Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(key, value []byte, out *mapreduce.Emitter) error {
					out.Emit(append(key[:len(key):len(key)], 'x'), value)
					return err
				})
			}}, nil
		}
	}
	for _, fails := range []bool{false, true} {
		var chain string
		ran = nil
		app := &mapreduce.App{
			Name:  "then",
			Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){"good": step("good", nil), "bad": step("bad", mapreduce.Permanent(errors.New("too bad")))},
			Chain: func(ctx context.Context, c *mapreduce.Chain) error {
				last := c.Then(ctx, "good", nil, c.Inputs...)
				for range 2 {
					last = c.Then(ctx, "good", nil, last)
				}
				if fails {
					last = c.Then(ctx, "good", nil, c.Then(ctx, "bad", nil, last))
					chain = last
					if err := c.Step(ctx, "good", nil, []string{last}, c.Output()); err == nil {
						t.Error("a step runs after a failed one")
					}
					return errors.New("a consequence")
				}
				return c.Step(ctx, "good", nil, []string{last}, c.Output())
			},
		}
		out := filepath.Join(t.TempDir(), "out")
		_, err := mapreduce.RunApp(t.Context(), app, nil, mapreduce.Options{Inputs: []string{in}, Output: out})
		switch text, _ := os.ReadFile(filepath.Join(out, "part-m-00000")); {
		case fails && (err == nil || !strings.Contains(err.Error(), "too bad") || strings.Contains(err.Error(), "consequence") || chain != "" || strings.Join(ran, " ") != "good good good bad"):
			t.Errorf("%v, %q, %v", err, chain, ran)
		case !fails && (err != nil || string(text) != "axxxx\t1\n"):
			t.Errorf("%q, %v", text, err)
		}
	}
}
