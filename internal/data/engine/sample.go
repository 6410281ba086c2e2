package engine

import (
	"bytes"
	"context"
	"slices"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Sampling reads at most samplePieces pieces of sampleBytes each, spread evenly
// over the input, and keeps at most sampleKeys keys of each.
const (
	samplePieces = 64
	sampleBytes  = 64 << 10
	sampleKeys   = 4096
)

// SourceSplit is a split with the index of its source in Program.Sources.
type SourceSplit struct {
	Source int
	Split  input.Split
}

// SampleCuts maps a sample of the input and returns up to parts-1 keys that divide
// the emitted keys evenly, for RangePartition. The sample depends only on the
// input files and not on how they are split.
func SampleCuts(ctx context.Context, schemes *storage.Schemes, p *Program, t *Task, splits []SourceSplit, parts int) ([][]byte, error) {
	s := &sampleSink{schemes: schemes}
	for _, piece := range samplePoints(splits) {
		if err := s.sample(ctx, p, t, piece); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.keys, bytes.Compare)
	cuts := make([][]byte, 0, parts-1)
	for i := 1; i < parts && len(s.keys) > 0; i++ {
		// Equal cuts are kept: a key that is more frequent than a range gets a range alone, and the ones
		// between equal cuts stay empty.
		cuts = append(cuts, s.keys[i*len(s.keys)/parts])
	}
	return cuts, nil
}

// samplePoints returns small splits, taken at even distances from the given ones.
func samplePoints(splits []SourceSplit) []SourceSplit {
	var total int64
	for _, s := range splits {
		total += s.Split.Bytes
	}
	// An input of less than 4 MiB is read whole.
	step := max(sampleBytes, total/samplePieces)
	var out []SourceSplit
	next := int64(0) // distance to the next sample from the start of the piece
	for _, s := range splits {
		for _, p := range s.Split.Pieces {
			for ; next < p.Length; next += step {
				q := p
				q.Offset += next
				q.Length = min(sampleBytes, p.Length-next)
				out = append(out, SourceSplit{s.Source, input.Split{Pieces: []input.Piece{q}, Bytes: q.Length, Rows: s.Split.Rows, First: s.Split.First, Sample: true}})
			}
			// Carried over to the next piece, so that small files are sampled as often as the same bytes in
			// one file.
			next -= p.Length
		}
	}
	return out
}

// sample maps the records of one small split until it has enough keys.
func (s *sampleSink) sample(ctx context.Context, p *Program, t *Task, at SourceSplit) error {
	src := &p.Sources[at.Source]
	sub := at.Split
	// Records of a fixed length begin at multiples of that length. A sample that begins elsewhere would give
	// keys from the middles of two records.
	if n := int64(src.Format.RecordLen); src.Format.Kind == input.Fixed {
		first := &sub.Pieces[0]
		first.Offset -= first.Offset % n
		first.Length = max(n, first.Length-first.Length%n)
	}
	r, err := input.Open(ctx, s.schemes, sub, src.Format, sampleBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	s.left = sampleKeys
	// Behind Open: from here on every way out passes Close, which ends a command that the mapper has started.
	mapper, err := src.NewMapper(t, s)
	if err != nil {
		return err
	}
	step := func() error {
		// Checked every few records, or after a whole block. Emit drops the keys beyond.
		if s.left <= 0 {
			return errEnough
		}
		return context.Cause(ctx)
	}
	var unused counters.Set
	if src.Format.Kind == input.Runs {
		err = mapStream(r, mapper, step, t, &unused)
	} else {
		err = mapBlocks(r, src.Format, mapper, step, t, &unused)
	}
	if err == errEnough {
		err = nil
	}
	if cerr := mapper.Close(); err == nil {
		err = cerr
	}
	return err
}

type enough struct{}

func (enough) Error() string { return "enough sampled" }

var errEnough error = enough{}

// sampleSink collects emitted keys.
type sampleSink struct {
	schemes *storage.Schemes // of the input
	keys    [][]byte
	left    int
}

// Emit collects the key.
func (s *sampleSink) Emit(key, _ []byte) {
	if s.left > 0 {
		s.left--
		s.keys = append(s.keys, bytes.Clone(key))
	}
}

// Add collects the key.
func (s *sampleSink) Add(key []byte, _ int64) { s.Emit(key, nil) }
