package workload

import (
	"fmt"
	"slices"
)

// modfairGenerators returns the experiments of the modified Fair Scheduler.
func modfairGenerators() []Generator {
	pools := []string{"P1", "P2", "P3"}
	example := bench{"example", 3, 3, 20, 20}.class("job", 3)
	// The paper starts reduces after all maps.
	example.SlowStart = 1
	list := []Generator{{Name: "modfair-example", Cluster: "modfair-example",
		Summary: "modified Fair, Figures 4 and 5: three jobs of 3 maps and 3 reduces of 20 s, each in a pool of its own; reduces after all maps",
		Source:  &Mix{Pools: pools, Classes: []Class{example}}}}
	assumed := []string{
		"maps take 21.45 s and reduces 18.9 s, the middles of TuMM's Table 4 for WordCount; this paper gives no times",
		"all jobs come at once, the i-th in pool i mod 3; the paper says only that they are spread evenly",
		"reduces start after all maps", "inputs of 64 MiB a map, a reduce for each job (as stated)"}
	word := func(maps, n int) Class {
		b := benchOf("wordcount")
		b.maps, b.reduces = maps, 1
		c := b.class(fmt.Sprintf("size-%d", maps), n)
		c.SlowStart = 1
		return c
	}
	// Tables 5 and 6: nine cells.
	for _, size := range []int{6, 10, 18} {
		for _, n := range []int{5, 10, 15} {
			list = append(list, Generator{Name: fmt.Sprintf("modfair-a-%d-%d", size, n), Cluster: "modfair-a",
				Summary:     fmt.Sprintf("modified Fair, experiment A: %d WordCount jobs of %d maps in 3 pools", n, size),
				Assumptions: assumed, Source: &Mix{Pools: pools, Classes: []Class{word(size, n)}}})
		}
	}
	// Tables 7 and 8: 5, 10 and 15 jobs.
	for _, n := range []int{1, 2, 3} {
		var up []Class
		for _, size := range []int{6, 10, 16, 21, 25} {
			up = append(up, word(size, n))
		}
		// The paper gives no order, and it matters: if jobs are classified once, as Figure
		// 6 draws it, the shared pool of small jobs never acts on ascending sizes and takes four of five on
		// descending ones.
		down := slices.Clone(up)
		slices.Reverse(down)
		for _, v := range []struct {
			suffix, order string
			mix           *Mix
		}{{"", "ascending", &Mix{Classes: up}}, {"-descending", "descending", &Mix{Classes: down}},
			{"-shuffled", "random", &Mix{Classes: up, Sequence: Shuffled}}} {
			v.mix.Pools = pools
			list = append(list, Generator{Name: fmt.Sprintf("modfair-b-%d%s", 5*n, v.suffix), Cluster: "modfair-b",
				Summary:     fmt.Sprintf("modified Fair, experiment B: WordCount jobs of 6, 10, 16, 21 and 25 maps, %d of each", n),
				Assumptions: append(slices.Clone(assumed), "sizes in "+v.order+" order; the paper does not say"), Source: v.mix})
		}
	}
	return list
}
