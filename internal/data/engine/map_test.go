package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/sched/job"
)

// sometimesCounts is a BlockMapper that counts the lines of those blocks for which counts is true.
type sometimesCounts struct {
	lineMapper
	task   *Task
	counts func(block int) bool
	blocks int
}

// MapBlock implements BlockMapper.
func (m *sometimesCounts) MapBlock(block []byte) error {
	if m.counts(m.blocks) {
		m.task.BlockLines = input.CountLines(block)
	}
	m.blocks++
	return nil
}

// TestBlockLines: a map counts each line once, whichever blocks its mapper has counted.
func TestBlockLines(t *testing.T) {
	const lines = 40_000
	text := strings.Repeat("some text of a line, of which many fill a block\n", lines)
	path := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	size := int64(len(text))
	for name, counts := range map[string]func(block int) bool{
		"none": func(int) bool { return false }, "all": func(int) bool { return true },
		"the first": func(b int) bool { return b == 0 }, "every other": func(b int) bool { return b%2 == 0 }, "all but the first": func(b int) bool { return b > 0 },
	} {
		var m *sometimesCounts
		task := &MapTask{
			Program: &Program{
				Sources: []Source{{NewMapper: func(task *Task, s Sink) (Mapper, error) {
					m = &sometimesCounts{lineMapper: lineMapper{s}, task: task, counts: counts}
					return m, nil
				}}},
				NewReducer: func(_ *Task, s Sink) (Reducer, error) { return firstOnly{s}, nil },
			},
			Task:  &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: 1, Counters: &UserCounters{}, Meter: &Meter{}},
			Split: input.Split{Bytes: size, Pieces: []input.Piece{{URI: path, Length: size, FileSize: size}}},
		}
		out, count, err := RunMap(t.Context(), &Env{Mem: mem.NewPool(64 << 20), Resident: mem.NewPool(64 << 20), MapBuffer: 16 << 20}, task)
		if err != nil {
			t.Fatal(err)
		}
		out.Release()
		if got := count.Get(counters.InputRecords); got != lines || m.blocks < 3 {
			t.Errorf("a mapper that counts %s: %d records of %d lines in %d blocks", name, got, lines, m.blocks)
		}
	}
}
