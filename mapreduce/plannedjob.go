package mapreduce

import (
	"cmp"
	"errors"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// Plan describes a job that has been planned and not started.
type Plan struct {
	Job          string `json:"job"`
	Files        int    `json:"files"`                   // that are read
	FilesSkipped int    `json:"files_skipped,omitempty"` // by conditions on partitions
	Bytes        int64  `json:"bytes"`                   // of the files, as stored
	Maps         int    `json:"maps"`                    // one for each split
	LargestSplit int64  `json:"largest_split"`           // in bytes
	Reduces      int    `json:"reduces"`
	MapSlots     int    `json:"map_slots"` // of all workers
	ReduceSlots  int    `json:"reduce_slots"`
	// Memory bounds the bytes that all tasks together hold, and MapBuffer the bytes that one map sorts; more
	// goes to files in TempDir. Memory is 0 and TempDir "" for a cluster, whose workers have their own.
	Memory    int64  `json:"memory,omitempty"`
	MapBuffer int64  `json:"map_buffer"`
	TempDir   string `json:"temp_dir,omitempty"`
	Output    string `json:"output,omitempty"`
}

// errDryRun ends a run of Options.DryRun behind its first plan. Chains pass it on.
var errDryRun = errors.New("the plan of the job was wanted, and not its run")

// describe returns the plan of a job.
func (p *planner) describe(j *feature.PlannedJob, o *Options) Plan {
	out := Plan{
		Job: j.Name, FilesSkipped: j.FilesSkipped, Maps: len(j.Splits) + j.Synthetic, Reduces: j.Reduces,
		MapSlots: p.target.MapSlots(), ReduceSlots: p.target.ReduceSlots(), MapBuffer: p.target.MapBuffer(), Output: cmp.Or(o.Output, j.Output),
	}
	out.Files, out.Bytes, out.LargestSplit = countInput(j.Splits)
	// The memory of a cluster belongs to its workers, which may all differ.
	if t, ok := p.target.(localTarget); ok {
		out.Memory, out.TempDir = t.Memory(), o.Cluster.TempDir
	}
	return out
}

// countInput returns the number of files of the splits, their size, and the size of the largest split. The
// splits of one file may be anywhere, as Hadoop orders them by size.
func countInput(splits []engine.SourceSplit) (files int, bytes, largest int64) {
	known := map[string]bool{}
	for i := range splits {
		s := &splits[i].Split
		bytes += s.Bytes
		largest = max(largest, s.Bytes)
		for k := range s.Pieces {
			known[s.Pieces[k].URI] = true
		}
	}
	return len(known), bytes, largest
}
