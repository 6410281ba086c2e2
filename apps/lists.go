package apps

import (
	"bytes"
	"fmt"
	"iter"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// lists is a reducer that makes one list for each first part of keys that are
// pairs (see [mapreduce.AppendPair]), partitioned by [mapreduce.ByFirst]. The
// second parts arrive sorted and without duplicates, so that an app only
// formats them; the job's fold counts and removes duplicates.
type lists struct {
	// item adds a second part, with the values of the key, to the list.
	item func(second []byte, values iter.Seq[[]byte])
	// end emits the list and makes it empty again.
	end func(first []byte, out *mapreduce.Emitter)

	first []byte
	begun bool
}

// Reduce adds one key to the list of its first part.
func (l *lists) Reduce(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	first, second, ok := mapreduce.CutPair(key)
	if !ok {
		return fmt.Errorf("key %q is no pair", key)
	}
	// The first key has no list before it, and may be the empty one: begun, and not an empty first, says so.
	if l.begun && !bytes.Equal(first, l.first) {
		l.end(l.first, out)
	}
	l.begun = true
	// A copy, because a key is valid during its call only and the list ends in a later one.
	l.first = append(l.first[:0], first...)
	l.item(second, values)
	return nil
}

// Finish emits the last list.
func (l *lists) Finish(out *mapreduce.Emitter) error {
	if l.begun {
		l.end(l.first, out)
	}
	return nil
}

// total adds up the values of a key.
func total(values iter.Seq[[]byte]) (n int64) {
	for v := range values {
		n += mapreduce.Int64(v)
	}
	return n
}

// appendItem appends an item to a list with commas.
func appendItem(list, item []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(list, item...)
}

// eachLine calls yield for each line of a block of text, without its LF.
func eachLine(block []byte, yield func(line []byte)) {
	for len(block) > 0 {
		end := bytes.IndexByte(block, '\n')
		if end < 0 {
			yield(block)
			return
		}
		// The capacity ends with the line, so that an append to it cannot overwrite the next one.
		yield(block[:end:end])
		block = block[end+1:]
	}
}

// namesParam is the parameter of apps that name documents.
var namesParam = mapreduce.Param{Name: "names", Default: "path", Help: "name documents by their path or their base name: path, base"}

// documents is the way in which documents are named; a document is a file.
func documents(p mapreduce.Params) (func(*mapreduce.Task) string, error) {
	switch names := p.Get("names"); names {
	case "path":
		return (*mapreduce.Task).InputFile, nil
	case "base":
		return func(t *mapreduce.Task) string {
			path := t.InputFile()
			// URIs have slashes on every system, so package path/filepath would be wrong.
			return path[strings.LastIndexByte(path, '/')+1:]
		}, nil
	default:
		return nil, fmt.Errorf("parameter names: %q is neither path nor base", names)
	}
}
