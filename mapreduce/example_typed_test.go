package mapreduce_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// A struct as key: the words of each length, from the longest on. The tag reverses the order of
// the first field.
func ExampleStructCode() {
	type key struct {
		Length int `order:"desc"`
		Word   string
	}
	codes := mapreduce.Codes[key, int64]{Key: mapreduce.StructCode[key](), Value: mapreduce.Int64Code}
	job := &mapreduce.Job{
		Name: "lengths",
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[key, int64]) error {
			for word := range strings.FieldsSeq(string(line)) {
				out.Put(key{len(word), word}, 1)
			}
			return nil
		}),
		Reducer: codes.Reducer(func(k key, _ iter.Seq[int64], out *mapreduce.Emitter) error {
			out.Emit(fmt.Append(nil, k.Length), []byte(k.Word))
			return nil
		}),
	}
	run(job, "to be or not to be\n")
	// Output:
	// 3 not
	// 2 be
	// 2 or
	// 2 to
}

// Rows of a CSV file become structs, and structs become rows of JSON: no function parses text.
func ExampleTableOf() {
	type trip struct {
		City string   `column:"city"`
		Fare *float64 `column:"fare"` // nil is null
	}
	type total struct {
		City  string  `column:"city"`
		Trips int     `column:"trips"`
		Sum   float64 `column:"sum"`
	}
	trips, totals := mapreduce.TableOf[trip](), mapreduce.TableOf[total]()
	codes := mapreduce.Codes[string, float64]{Key: mapreduce.StringCode, Value: mapreduce.Float64Code}
	job := &mapreduce.Job{
		Name:  "totals",
		Input: trips.Input("csv"),
		Mapper: mapreduce.MapTo(mapreduce.Values(trips), codes, func(_ mapreduce.None, t trip, out *mapreduce.TypedEmitter[string, float64]) error {
			if t.Fare != nil {
				out.Put(t.City, *t.Fare)
			}
			return nil
		}),
		Reducer: mapreduce.ReduceTo(codes, mapreduce.Values(totals), func(city string, fares iter.Seq[float64], out *mapreduce.TypedEmitter[mapreduce.None, total]) error {
			row := total{City: city}
			for f := range fares {
				row.Trips, row.Sum = row.Trips+1, row.Sum+f
			}
			out.PutValue(row)
			return nil
		}),
		Output: totals.Output("json"),
	}
	run(job, "id,city,fare\n1,Oslo,5\n2,Rome,7.5\n3,Oslo,9\n4,Rome,\n")
	// Output:
	// {"city":"Oslo","trips":2,"sum":14}
	// {"city":"Rome","trips":1,"sum":7.5}
}

// The two most frequent words, ordered by their counts, in the second step of a chain. The first
// step passes typed records on.
func ExampleTopN() {
	type count struct {
		Word string
		N    int64
	}
	counts := mapreduce.Codes[string, int64]{Key: mapreduce.StringCode, Value: mapreduce.Int64Code}
	top := mapreduce.TopN[mapreduce.None, count]{
		Key: mapreduce.NoneCode, Value: mapreduce.JSONCode[count](), N: 2,
		Compare: func(a, b count) int { return cmp.Compare(b.N, a.N) },
	}
	app := &mapreduce.App{
		Name: "frequent",
		Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
			"count": func(mapreduce.Params) (*mapreduce.Job, error) {
				job := wordCount()
				job.Output, job.Reducer = mapreduce.Runs, mapreduce.IdentityReducer // Aggregate has added up
				return job, nil
			},
			"top": func(mapreduce.Params) (*mapreduce.Job, error) {
				return &mapreduce.Job{
					Name: "top", Input: mapreduce.Runs, Reduces: 1, Combiner: top.Combiner(),
					Mapper: mapreduce.MapTo(counts, top.Codes(), func(word string, n int64, out *mapreduce.TypedEmitter[mapreduce.None, count]) error {
						out.PutValue(count{word, n})
						return nil
					}),
					Reducer: top.Reducer(func(_ mapreduce.None, best []count, out *mapreduce.Emitter) error {
						for _, c := range best {
							out.Emit([]byte(c.Word), fmt.Append(nil, c.N))
						}
						return nil
					}),
				}, nil
			},
		},
		Chain: func(ctx context.Context, c *mapreduce.Chain) error {
			if err := c.Step(ctx, "count", nil, c.Inputs, c.Temp("counts")); err != nil {
				return err
			}
			return c.Step(ctx, "top", nil, []string{c.Temp("counts")}, c.Output())
		},
	}
	dir, file := input("b a c\nb a\nb\n")
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out")
	if _, err := mapreduce.RunApp(context.Background(), app, nil, mapreduce.Options{Inputs: []string{file}, Output: out}); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "part-r-00000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(strings.ReplaceAll(string(text), "\t", " "))
	// Output:
	// b 3
	// a 2
}
