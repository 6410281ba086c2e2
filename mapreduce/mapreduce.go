// Package mapreduce is the API for authors of MapReduce jobs.
//
// A job has a map function and usually a reduce function:
//
//	job := &mapreduce.Job{
//		Name: "wordcount",
//		Mapper: func() mapreduce.Mapper {
//			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
//				for word := range bytes.FieldsSeq(line) {
//					out.Add(word, 1)
//				}
//				return nil
//			})
//		},
//		Aggregate: mapreduce.Sum,
//		Reducer:   mapreduce.SumText,
//	}
//	mapreduce.Main(job)
//
// [Main] turns a job into a program with flags for input, output and memory. [Run]
// runs a job from Go code. Both run it in this process, on all cores; the
// packages below this one add storage and clusters (see [Feature]).
//
// Keys and values are byte slices. They are valid only during the call, and in a
// reducer each value only until the next one, so a function must not keep them;
// emitted slices are copied at once. Keys are ordered as unsigned bytes. Typed
// keys (see [Codes]) are encoded so that the order of the bytes is the order of
// the values.
//
// A job gives the same output for any number of reduces, any split size and any
// memory limit, with or without the combiner. Records with equal keys reach the
// reducer in the order of the input.
package mapreduce

import "iter"

// Mapper turns one input record into any number of emitted records. For text
// input the key is nil and the value is a line without its LF; [Format] lists the
// keys and values of the other formats. Each attempt has its own Mapper and
// calls it from one goroutine. An error fails the attempt.
//
// A Mapper may also implement [BlockMapper], [Starter] and [Finisher].
type Mapper interface {
	Map(key, value []byte, out *Emitter) error
}

// MapperFunc is a function that implements [Mapper].
type MapperFunc func(key, value []byte, out *Emitter) error

// Map calls f.
func (f MapperFunc) Map(key, value []byte, out *Emitter) error { return f(key, value, out) }

// BlockMapper is a [Mapper] that takes many lines of text in one call, which is
// faster if it does not need the ends of lines. Every line ends with LF, except
// perhaps the last one of a file. For text input MapBlock is called instead of
// Map.
//
// The block may be a part of a file that is mapped into memory. Only the goroutine that calls
// MapBlock must read it: in another one a file that becomes shorter meanwhile, which fails the
// attempt, would end the process.
type BlockMapper interface {
	MapBlock(block []byte, out *Emitter) error
}

// Reducer is called once for each key, in key order, with all values of the key.
// It can range over the values once and may stop early. A value is valid until the
// next one: a reducer that collects values clones them. Keys and values are never
// nil, even if nil was emitted. An error fails the attempt.
//
// A range over values allocates a closure for each key. A reducer for many
// millions of small groups avoids that by calling values with a function that it
// has made once, as [IdentityReducer] does.
//
// A Reducer may also implement [Starter] and [Finisher].
type Reducer interface {
	Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error
}

// ReducerFunc is a function that implements [Reducer].
type ReducerFunc func(key []byte, values iter.Seq[[]byte], out *Emitter) error

// Reduce calls f.
func (f ReducerFunc) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	return f(key, values, out)
}

// Starter is implemented by mappers and reducers that prepare for a task. Start is
// called before the first record. An error fails the attempt.
type Starter interface {
	Start(task *Task) error
}

// Finisher is implemented by mappers and reducers that emit or count at the end of
// a task. Finish is called after the last record.
type Finisher interface {
	Finish(out *Emitter) error
}

// Partitioner returns the number of the reduce, 0 to n-1, that gets a key. It must
// return the same number each time for the same key and n.
// It must not keep or change the key.
type Partitioner func(key []byte, n int) int
