package apps

import (
	"bytes"
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// sortLines sorts lines by their bytes, as `LC_ALL=C sort` does; equal lines
// are all kept. It is the Sort of Hadoop's examples and of PUMA, for text.
//
//	input   text
//	output  the lines; the output files, one after the other, are sorted
var sortLines = &mapreduce.App{
	Name:    "sort",
	Summary: "sorts lines of text, as LC_ALL=C sort does",
	Reads:   "text",
	Writes:  "the lines in order, over all output files",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:    "sort",
			Mapper:  func() mapreduce.Mapper { return lineKeys{} },
			Reducer: newKeyWriter,
			// Without TotalOrder each output file would be sorted and their sequence would not.
			TotalOrder: true,
		}, nil
	},
}

// lineKeys makes each line a key.
type lineKeys struct{}

var _ mapreduce.BlockMapper = lineKeys{}

// Map emits one line.
func (lineKeys) Map(_, line []byte, out *mapreduce.Emitter) error {
	out.Emit(line, nil)
	return nil
}

// MapBlock emits many.
func (lineKeys) MapBlock(block []byte, out *mapreduce.Emitter) error {
	for len(block) > 0 {
		line := block
		if end := bytes.IndexByte(block, '\n'); end >= 0 {
			line, block = block[:end], block[end+1:]
		} else {
			block = nil
		}
		out.Emit(line, nil)
	}
	return nil
}

// keyWriter writes a key once for each of its values. An empty line is an empty
// key, which is written, and not a nil one, which is not.
type keyWriter struct {
	key  []byte
	out  *mapreduce.Emitter
	each func([]byte) bool
}

func newKeyWriter() mapreduce.Reducer {
	w := &keyWriter{}
	w.each = func([]byte) bool {
		w.out.Emit(w.key, nil)
		return true
	}
	return w
}

// Reduce writes one line as often as it occurred.
func (w *keyWriter) Reduce(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	w.key, w.out = key, out
	values(w.each)
	return nil
}
