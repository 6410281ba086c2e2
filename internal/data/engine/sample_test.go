package engine

import (
	"testing"

	"github.com/slotwise/slotwise/internal/data/input"
)

// closing counts the mappers that are open.
type closing struct{ open *int }

// Map implements Mapper.
func (closing) Map(_, _ []byte) error { return nil }

// Close implements Mapper.
func (c closing) Close() error { *c.open--; return nil }

// TestSampleCloses samples a split that cannot be opened, and one whose file is missing. Each mapper that was made is
// closed, since it may have started a command.
func TestSampleCloses(t *testing.T) {
	open := 0
	p := &Program{Sources: []Source{{NewMapper: func(*Task, Sink) (Mapper, error) { open++; return closing{&open}, nil }}}}
	for name, rows := range map[string]string{"a wrong format": "no format", "a missing file": ""} {
		piece := input.Piece{URI: t.TempDir() + "/missing", Length: 100, FileSize: 100}
		splits := []SourceSplit{{Split: input.Split{Pieces: []input.Piece{piece}, Bytes: 100, Rows: rows}}}
		if _, err := SampleCuts(t.Context(), nil, p, &Task{Meter: &Meter{}}, splits, 2); err == nil {
			t.Errorf("%s: no error", name)
		}
		if open != 0 {
			t.Errorf("%s: %d mappers are open", name, open)
		}
	}
}
