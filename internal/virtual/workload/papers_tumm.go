package workload

import "fmt"

const (
	tummTimes = "task times are the middles of Table 4, and numbers of tasks those of the heterogeneous runs; the paper gives none for the homogeneous cluster"
	tummTable = "task times are the middles of Table 4"
)

// tummGenerators returns the batches of Yao et al., Self-Adjusting Slot
// Configurations.
func tummGenerators() []Generator {
	var list []Generator
	for _, b := range benches {
		list = append(list, Generator{Name: "tumm-" + b.app, Cluster: "tumm",
			Summary:     "TuMM, Figure 7: three jobs of " + b.app + ", all at once",
			Assumptions: []string{tummTimes}, Source: &Mix{Classes: []Class{b.class(b.app, 3)}}})
	}
	// Johnson's rule on Table 4: jobs whose maps are less work than their reduces
	// come first, the least maps first; then the others, the most reduces first.
	// That is the order of benches. The inverse is the worst.
	johnson, inverse := &Mix{}, &Mix{}
	random := &Mix{Sequence: Shuffled}
	for i, b := range benches {
		johnson.Classes = append(johnson.Classes, b.class(b.app, 2))
		random.Classes = append(random.Classes, b.class(b.app, 2))
		last := benches[len(benches)-1-i]
		inverse.Classes = append(inverse.Classes, last.class(last.app, 2))
	}
	for _, m := range []struct {
		name, what string
		mix        *Mix
	}{{"johnson", "in Johnson's order", johnson}, {"inverse", "in the inverse of Johnson's order", inverse},
		{"random", "in random order", random}} {
		list = append(list, Generator{Name: "tumm-mixed-" + m.name, Cluster: "tumm",
			Summary: "TuMM, Figures 8 to 11: ten jobs of five benchmarks " + m.what,
			Assumptions: []string{tummTable, "two jobs of each benchmark: the paper draws ten at random and does not say which",
				"128 maps and 80 or 150 reduces a job, as stated for the heterogeneous runs"},
			Source: m.mix})
	}
	return append(list, Generator{Name: "tumm-tpch", Cluster: "tumm-heter1",
		Summary: "TuMM, Table 5: TPC-H queries 15, 16 and 18, chains of five jobs each, submitted together",
		Assumptions: []string{"the first sub-query reads the whole 4 GB in 64 maps, each further one half as much; the paper says only that the first has most maps",
			"a reduce for each GB read, as Pig does by default",
			"tasks take the mean of Table 4's middles over the five benchmarks"},
		Source: tpchChains()})
}

// tpchChains makes three chains of five jobs.
func tpchChains() *Mix {
	m := &Mix{Sequence: InTurn}
	for step := range 5 {
		for q, query := range []string{"q15", "q16", "q18"} {
			// 4 GB in blocks of 64 MB, half as much in each step; a reduce for each GB.
			b := bench{"tpch-" + query, 64 >> step, max(1, 4>>step), meanMapTime, meanReduceTime}
			c := b.class(fmt.Sprintf("%s-%d", query, step+1), 1)
			if step > 0 {
				// The same query's previous step: three queries go round in turn.
				c.After = []int{len(m.Classes) - 3}
			}
			c.User = []string{"q15", "q16", "q18"}[q]
			m.Classes = append(m.Classes, c)
		}
	}
	return m
}
