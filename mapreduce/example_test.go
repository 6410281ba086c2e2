package mapreduce_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// run runs a job over one file and prints its output.
func run(job *mapreduce.Job, input string) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(input), 0o666); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	_, err = mapreduce.Run(ctx, job, mapreduce.Options{Inputs: []string{in}, Output: out, Reduces: 1})
	if err != nil {
		log.Fatal(err)
	}
	err = mapreduce.ReadRecords(ctx, out, mapreduce.Text, func(_, line []byte) error {
		fmt.Println(strings.ReplaceAll(string(line), "\t", " "))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Counting words: integers are folded where they are emitted, nothing but
// distinct words is sorted.
func Example() {
	job := &mapreduce.Job{
		Name: "wordcount",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				for word := range bytes.FieldsSeq(line) {
					out.Add(word, 1)
				}
				return nil
			})
		},
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
	}
	run(job, "the cat\nthe dog and the cat\n")
	// Output:
	// and 1
	// cat 2
	// dog 1
	// the 3
}

// A job without a reducer writes what its mappers emit. A nil key is left out.
func ExampleMapperFunc() {
	job := &mapreduce.Job{
		Name: "upper",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				out.Emit(nil, bytes.ToUpper(line))
				return nil
			})
		},
	}
	run(job, "one\ntwo\n")
	// Output:
	// ONE
	// TWO
}

// Typed records: the mean temperature of each city, with a combiner that keeps
// sums and counts.
func ExampleCodes() {
	type sample = mapreduce.Pair[float64, int64] // sum and count
	codes := mapreduce.Codes[string, sample]{
		Key:   mapreduce.StringCode,
		Value: mapreduce.PairCode(mapreduce.Float64Code, mapreduce.Int64Code),
	}
	add := func(samples iter.Seq[sample]) (all sample) {
		for s := range samples {
			all.First += s.First
			all.Second += s.Second
		}
		return all
	}
	job := &mapreduce.Job{
		Name:  "mean temperature",
		Input: mapreduce.KeyValue,
		Mapper: codes.Mapper(func(city, degrees []byte, out *mapreduce.TypedEmitter[string, sample]) error {
			d, err := strconv.ParseFloat(string(degrees), 64)
			out.Put(string(city), sample{First: d, Second: 1})
			return err
		}),
		Combiner: codes.Combiner(func(city string, samples iter.Seq[sample], out *mapreduce.TypedEmitter[string, sample]) error {
			out.Put(city, add(samples))
			return nil
		}),
		Reducer: codes.Reducer(func(city string, samples iter.Seq[sample], out *mapreduce.Emitter) error {
			all := add(samples)
			out.Emit([]byte(city), fmt.Appendf(nil, "%.1f", all.First/float64(all.Second)))
			return nil
		}),
	}
	run(job, "Oslo\t-3.5\nRome\t14\nOslo\t1.5\nRome\t15\n")
	// Output:
	// Oslo -1.0
	// Rome 14.5
}

// A secondary sort: the events of each user in the order of their times. Keys
// are pairs; a group is all pairs of a user, sorted by the second part.
func ExampleSameFirst() {
	job := &mapreduce.Job{
		Name: "sessions",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				f := bytes.Fields(line) // user, time, event
				out.Emit(mapreduce.AppendPair(nil, f[0], f[1]), f[2])
				return nil
			})
		},
		Partitioner: mapreduce.ByFirst,
		SameGroup:   mapreduce.SameFirst,
		Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, events iter.Seq[[]byte], out *mapreduce.Emitter) error {
				user, _, _ := mapreduce.CutPair(key)
				var list []byte
				for e := range events {
					list = append(append(list, ' '), e...)
				}
				out.Emit(user, bytes.TrimSpace(list))
				return nil
			})
		},
	}
	run(job, "ann 09:30 buys\nbob 08:00 looks\nann 09:10 looks\nann 11:00 pays\n")
	// Output:
	// ann looks buys pays
	// bob looks
}

// A job without input: each map task is given its number.
func ExampleJob_synthetic() {
	job := &mapreduce.Job{
		Name:      "squares",
		Synthetic: 4,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, task []byte, out *mapreduce.Emitter) error {
				n, err := strconv.ParseInt(string(task), 10, 64)
				out.Add([]byte("sum of squares"), n*n)
				return err
			})
		},
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
	}
	run(job, "")
	// Output:
	// sum of squares 14
}

// Keys of two parts sort by the first, then by the second, whatever bytes they
// have.
func ExampleAppendPair() {
	key := mapreduce.AppendPair(nil, []byte("a\x00b"), []byte("c"))
	first, second, ok := mapreduce.CutPair(key)
	fmt.Printf("%q %q %v\n", first, second, ok)
	// Output:
	// "a\x00b" "c" true
}
