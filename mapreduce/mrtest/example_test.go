package mrtest_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// A function that counts the values of a key is right as a reducer, and wrong as a combiner: it
// would count counts. The simplest run has no combiner, and the others show the mistake.
func ExampleRun() {
	codes := mapreduce.Codes[string, int64]{Key: mapreduce.StringCode, Value: mapreduce.Int64Code}
	count := func(word string, ones iter.Seq[int64], out *mapreduce.TypedEmitter[string, int64]) error {
		n := int64(0)
		for range ones {
			n++
		}
		out.Put(word, n)
		return nil
	}
	job := &mapreduce.Job{
		Name: "count",
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, int64]) error {
			for word := range strings.FieldsSeq(string(line)) {
				out.Put(word, 1)
			}
			return nil
		}),
		Reducer: mapreduce.ReduceTo(codes, codes, count),
	}
	files := map[string][]byte{"in.txt": []byte("a b a\na c\nb a\n")}
	out, err := mrtest.Run(job, files)
	for _, r := range out {
		fmt.Println(string(r.Key), mapreduce.Int64(r.Value), err)
	}

	job.Combiner = codes.Combiner(count)
	_, err = mrtest.Run(job, files)
	if wrong, ok := errors.AsType[*mrtest.Difference](err); ok {
		fmt.Println(wrong.Cause)
	}
	// Output:
	// a 4 <nil>
	// b 2 <nil>
	// c 1 <nil>
	// the output depends on how often Combiner or Aggregate is applied; it must emit what the mapper could have emitted, and must not change what the reducer makes of the key
}
