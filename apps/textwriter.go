package apps

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// textWriter writes random sentences, as RandomTextWriter of Hadoop's examples
// does: a disk-bound job without input, whose output is input for others.
//
//	parameters  maps: number of map tasks; bytes: approximate output of each task
//	            seed: another one gives another text
//	output      on each line a key of 5 to 10 words, TAB, a value of 10 to 100
//
// A thousand made-up words are drawn with equal probability. Each task has its own
// random generator, so the same parameters give the same text.
var textWriter = &mapreduce.App{
	Name:    "textwriter",
	Summary: "writes random text",
	Writes:  "words TAB words",
	Params: []mapreduce.Param{
		{Name: "maps", Default: "2", Help: "number of map tasks"},
		{Name: "bytes", Default: "16777216", Help: "bytes that each map task writes"},
		{Name: "seed", Default: "1", Help: "picks one of many texts"},
	},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		tasks, err := p.Int("maps", 1)
		if err != nil {
			return nil, err
		}
		size, err := p.Int("bytes", 0)
		if err != nil {
			return nil, err
		}
		seed, err := p.Int("seed", 0)
		if err != nil {
			return nil, err
		}
		words := madeUpWords(1000)
		return &mapreduce.Job{
			Name:      "textwriter",
			Synthetic: int(tasks),
			Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, task []byte, out *mapreduce.Emitter) error {
					return writeText(task, words, size, uint64(seed), out)
				})
			},
		}, nil
	},
}

// writeText writes lines until there are enough bytes.
func writeText(task []byte, words []string, size int64, seed uint64, out *mapreduce.Emitter) error {
	n, err := strconv.ParseUint(string(task), 10, 32)
	if err != nil {
		return fmt.Errorf("task %q has no number", task)
	}
	// Seeded by task, so that an attempt that is repeated writes the same text.
	rng := rand.New(rand.NewPCG(seed, n))
	sentence := func(b []byte, least, most int) []byte {
		for i := range least + rng.IntN(most-least+1) {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, words[rng.IntN(len(words))]...)
		}
		return b
	}
	ctx := out.Task().Context()
	var key, value []byte
	for size > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		key = sentence(key[:0], 5, 10)
		value = sentence(value[:0], 10, 100)
		out.Emit(key, value)
		// The last line is written whole: files are up to a line longer than asked for.
		size -= int64(len(key) + len(value) + len("\t\n"))
	}
	return nil
}

// madeUpWords returns n different words of two to four syllables, always the
// same ones.
func madeUpWords(n int) []string {
	const consonants, vowels = "bdfghklmnprstvz", "aeiou"
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	words := make([]string, 0, n) // of 4, 6 or 8 letters
	for len(words) < n {
		var w []byte
		for range 2 + rng.IntN(3) {
			w = append(w, consonants[rng.IntN(len(consonants))], vowels[rng.IntN(len(vowels))])
		}
		if !seen[string(w)] {
			seen[string(w)] = true
			words = append(words, string(w))
		}
	}
	return words
}
