package mapreduce_test

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

var wordCodes = mapreduce.Codes[string, int64]{Key: mapreduce.StringCode, Value: mapreduce.Int64Code}

// typedJob counts words through the typed layer.
func typedJob(reduce mapreduce.TypedReducer[string, int64]) *mapreduce.Job {
	return &mapreduce.Job{
		Name: "typed",
		Mapper: wordCodes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, int64]) error {
			for word := range strings.FieldsSeq(string(line)) {
				out.Put(word, int64(len(word)))
			}
			return nil
		}),
		Reducer: wordCodes.Reducer(reduce),
	}
}

func TestTyped(t *testing.T) {
	job := typedJob(func(word string, lengths iter.Seq[int64], out *mapreduce.Emitter) error {
		n, sum := 0, int64(0)
		for l := range lengths {
			n, sum = n+1, sum+l
			if word == "stop" {
				break // the rest is skipped
			}
		}
		out.Emit([]byte(word), fmt.Appendf(nil, "%d %d", n, sum))
		return nil
	})
	got, err := mrtest.Run(job, map[string][]byte{"f": []byte("stop a bb a\nbb a stop stop")})
	if want := "a\t3 3\nbb\t2 4\nstop\t1 4\n"; err != nil || mrtest.Text(got) != want {
		t.Errorf("%q, %v; want %q", mrtest.Text(got), err, want)
	}
}

// Combiner and reducer fold the values of a key, in any number of steps.
func TestFold(t *testing.T) {
	add := func(a, b int64) int64 { return a + b }
	job := typedJob(nil)
	job.Combiner = wordCodes.Fold(add)
	job.Reducer = wordCodes.Reducer(func(word string, lengths iter.Seq[int64], out *mapreduce.Emitter) error {
		out.Emit([]byte(word), strconv.AppendInt(nil, mapreduce.FoldValues(lengths, add), 10))
		return nil
	})
	got, err := mrtest.Run(job, map[string][]byte{"f": []byte("bb a bb\na bb"), "g": []byte("bb ccc")})
	if want := "a\t2\nbb\t8\nccc\t3\n"; err != nil || mrtest.Text(got) != want {
		t.Errorf("%q, %v; want %q", mrtest.Text(got), err, want)
	}
	texts := mapreduce.Codes[string, []byte]{Key: mapreduce.StringCode, Value: mapreduce.BytesCode}
	job = &mapreduce.Job{Mapper: mapreduce.IdentityMapper, Input: mapreduce.KeyValue, Reducer: texts.Fold(func(a, _ []byte) []byte { return a })}
	if _, err := mrtest.Run(job, map[string][]byte{"f": []byte("a\tb\n")}); err == nil || !strings.Contains(err.Error(), "use StringCode") {
		t.Errorf("values that do not stay: %v", err)
	}
	type part = mapreduce.Pair[string, mapreduce.Pair[[]byte, int64]]
	pairs := mapreduce.Codes[string, part]{Key: mapreduce.StringCode,
		Value: mapreduce.PairCode(mapreduce.StringCode, mapreduce.PairCode(mapreduce.BytesCode, mapreduce.Int64Code))}
	job.Reducer = pairs.Fold(func(a, _ part) part { return a })
	if _, err := mrtest.Run(job, map[string][]byte{"f": []byte("a\tb\n")}); err == nil || !strings.Contains(err.Error(), "use StringCode") {
		t.Errorf("pairs with a part that does not stay: %v", err)
	}
}

// TestTypedErrors mixes records that are no codes with good ones.
func TestTypedErrors(t *testing.T) {
	job := typedJob(func(_ string, lengths iter.Seq[int64], _ *mapreduce.Emitter) error {
		for range lengths {
		}
		return nil
	})
	job.Mapper = mapreduce.IdentityMapper
	job.Input = mapreduce.KeyValue
	_, err := mrtest.Run(job, map[string][]byte{"f": []byte("key\t12345678\nkey\tbad\n")})
	if err == nil || !strings.Contains(err.Error(), "value of key key") {
		t.Errorf("a bad value: %v", err)
	}

	numbers := mapreduce.Codes[int64, int64]{Key: mapreduce.Int64Code, Value: mapreduce.Int64Code}
	job.Reducer = numbers.Reducer(func(int64, iter.Seq[int64], *mapreduce.Emitter) error { return nil })
	if _, err = mrtest.Run(job, map[string][]byte{"f": []byte("key\t12345678\n")}); err == nil || !strings.Contains(err.Error(), "key: ") {
		t.Errorf("a bad key: %v", err)
	}

	mine := errors.New("mine")
	job = typedJob(func(string, iter.Seq[int64], *mapreduce.Emitter) error { return mine })
	if _, err = mrtest.Run(job, map[string][]byte{"f": []byte("a")}); !errors.Is(err, mine) {
		t.Errorf("an error of the reducer: %v", err)
	}
}

func TestSumText(t *testing.T) {
	job := &mapreduce.Job{
		Name: "sum",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				out.Add(line[:1], int64(len(line))-5)
				return nil
			})
		},
		Reducer: mapreduce.SumText,
	}
	got, err := mrtest.Run(job, map[string][]byte{"f": []byte("a\na234567\nb\nb\n")})
	if want := "a\t-2\nb\t-8\n"; err != nil || mrtest.Text(got) != want {
		t.Errorf("%q, %v; want %q", mrtest.Text(got), err, want)
	}
}

func TestIdentity(t *testing.T) {
	job := &mapreduce.Job{Name: "identity", Input: mapreduce.KeyValue, Mapper: mapreduce.IdentityMapper, Reducer: mapreduce.IdentityReducer}
	got, err := mrtest.Run(job, map[string][]byte{"f": []byte("b\t2\na\t1\nb\t1\n")})
	if want := "a\t1\nb\t2\nb\t1\n"; err != nil || mrtest.Text(got) != want {
		t.Errorf("%q, %v; want %q", mrtest.Text(got), err, want)
	}
}
