package optimum

import (
	"cmp"
	"slices"
)

// Compare orders two jobs by Johnson's rule (Johnson 1954), which ends a batch of two-phase
// jobs earliest if one job at a time is in each phase. Jobs with less work in maps than in
// reduces go first, by rising work in maps. The others follow, by falling work in reduces.
func Compare(x, y Work) int {
	first, second := x.Maps < x.Reduces, y.Maps < y.Reduces
	switch {
	case first && second:
		return cmp.Compare(x.Maps, y.Maps)
	case first:
		return -1
	case second:
		return 1
	}
	// Neither is in the first set. Equal times of both phases belong here, as in Johnson's statement with
	// ≥.
	return cmp.Compare(y.Reduces, x.Reduces)
}

// Johnson returns the indexes of jobs in the order of Johnson's rule for a given split, in
// which a phase takes its work divided by its slots. Equal jobs keep their order.
func Johnson(jobs []Work, maps, reduces int) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	spans := make([]Work, len(jobs))
	for i, j := range jobs {
		// Johnson's rule compares times on two machines. Here the machines are the two sets of slots, so
		// the order depends on the split.
		spans[i] = Work{span(j.Maps, maps), span(j.Reduces, reduces)}
	}
	slices.SortStableFunc(order, func(a, b int) int { return Compare(spans[a], spans[b]) })
	return order
}

// StaticJohnson is Static with the jobs of each split in the order of Johnson's rule for that
// split. It returns the order as well. It sorts for every split, so it costs S·n·log n.
func StaticJohnson(jobs []Work, slots, nodes int, by string) (best Split, order []int, err error) {
	batch := make([]Work, len(jobs))
	best, err = search(jobs, slots, nodes, by, func(maps, reduces int) float64 {
		for k, i := range Johnson(jobs, maps, reduces) {
			// One slice for all splits: there are as many as slots, and Makespan only reads it.
			batch[k] = jobs[i]
		}
		return Makespan(batch, maps, reduces)
	})
	if err != nil {
		return best, nil, err
	}
	return best, Johnson(jobs, best.Maps, best.Reduces), nil
}
