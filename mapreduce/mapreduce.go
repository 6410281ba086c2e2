// Package mapreduce is what the author of a job imports.
//
// A job is a map function and, mostly, a reduce function:
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
// Keys and values are byte slices which the callee may not keep: they are
// valid during the call only, and what is emitted is copied at once. Keys are
// ordered as unsigned bytes; typed keys (see [TypedMapper]) are encoded so that
// the order of their codes is the order of their values.
//
// The same job gives the same output for any number of reduces, any split
// size, any memory limit, with the combiner on or off: records with equal keys
// reach the reducer in the order of the input.
package mapreduce

import "iter"

// Mapper turns one input record into any number of key-value pairs. For text
// the key is nil and the value a line without its LF; [Format] says what the
// others give. Each task has its own Mapper, used by one goroutine.
//
// A Mapper may also be a [BlockMapper], a [Starter] and a [Finisher].
type Mapper interface {
	Map(key, value []byte, out *Emitter) error
}

// MapperFunc makes a Mapper of a function.
type MapperFunc func(key, value []byte, out *Emitter) error

// Map calls f.
func (f MapperFunc) Map(key, value []byte, out *Emitter) error { return f(key, value, out) }

// BlockMapper is a Mapper that can take many lines of text at once, which
// saves finding their ends: every line ends with LF but perhaps the last of a
// file. It is called instead of Map when the input is text.
type BlockMapper interface {
	MapBlock(block []byte, out *Emitter) error
}

// Reducer is called once for each key, in key order, with all its values. The
// values can be walked once; what is left is skipped. Neither keys nor values
// are ever nil, even if nil was emitted. Range over them; where millions of
// groups make the loop's closure felt, pass values a function made once, as
// [IdentityReducer] does.
//
// A Reducer may also be a [Starter] and a [Finisher].
type Reducer interface {
	Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error
}

// ReducerFunc makes a Reducer of a function.
type ReducerFunc func(key []byte, values iter.Seq[[]byte], out *Emitter) error

// Reduce calls f.
func (f ReducerFunc) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	return f(key, values, out)
}

// Starter is told of its task before the first record.
type Starter interface {
	Start(task *Task) error
}

// Finisher is called after the last record and may still emit.
type Finisher interface {
	Finish(out *Emitter) error
}

// Partitioner says which of n reduces gets a key: 0 to n-1, always the same
// for the same key and n.
type Partitioner func(key []byte, n int) int
