package repro

import (
	"context"
	"fmt"
)

// hadoop12 is the heartbeat profile of the paper's Hadoop, 300 ms for 8 nodes.
const hadoop12 = "hadoop-1.2"

// mfReading is one way to read what the paper leaves open.
type mfReading struct {
	mode    string // of the maximum: a key of mfModes
	oneNode bool
	// own gives each map slot a core of its own, so that maps do not slow each
	// other down.
	own  bool
	beat string
}

func (x mfReading) String() string {
	place := "uniform"
	if x.oneNode {
		place = "one node"
	}
	cores := "2 cores"
	if x.own {
		cores = "a core for each slot"
	}
	beat := "0.3 s"
	if x.beat != hadoop12 {
		beat = "3 s"
	}
	return fmt.Sprintf("%s, %s, %s, %s", x.mode, place, cores, beat)
}

// mfReadings are all of them; the first two have tables of their own, and a quick
// run stops after the first four.
var mfReadings = []mfReading{{"promise", true, false, hadoop12}, {"cap", true, false, hadoop12},
	{"promise", true, true, hadoop12}, {"cap", true, true, hadoop12},
	{"promise", false, false, hadoop12}, {"cap", false, false, hadoop12},
	{"promise", true, false, "fixed:3s"}, {"cap", true, false, "fixed:3s"}}

// mfCell is a cell of Tables 5 and 6: what is tested, and what is printed.
type mfCell struct {
	size, jobs      int
	orig, mod       float64 // mean turnaround, s
	origLoc, modLoc float64
}

var mfTable5 = []mfCell{{6, 5, 289.6, 188.2, 0.09, 0.13}, {6, 10, 1083.2, 761.3, 0.22, 0.23}, {6, 15, 1791.7, 1175.2, 0.28, 0.28},
	{10, 5, 886.9, 462.2, 0.29, 0.32}, {10, 10, 1433.7, 1103.3, 0.34, 0.32}, {10, 15, 2008.1, 1577.6, 0.33, 0.35},
	{18, 5, 2212.3, 1003, 0.21, 0.25}, {18, 10, 3845, 1894.1, 0.28, 0.34}, {18, 15, 5681.4, 2988.7, 0.30, 0.36}}

// mfPair is a cell of a table under both schedulers.
type mfPair struct{ orig, mod mfOutcome }

// gain is Eq. 9, as a fraction: negative is less time.
func (p *mfPair) gain() float64 { return p.mod.time()/p.orig.time() - 1 }

// runModfairA makes Tables 5 and 6 in each reading.
func runModfairA(ctx context.Context, o Options) (*Report, error) {
	seeds, readings := pick(o, 1, 10), mfReadings[:pick(o, 4, len(mfReadings))]
	var cases []mfCase
	for _, x := range readings {
		for _, c := range mfTable5 {
			t := mfTest{slots: 4, sizes: repeat(c.jobs, c.size), mfReading: x}
			cases = append(cases, mfCase{t, mfOriginal()}, mfCase{t, mfModified(x.mode)})
		}
	}
	out, err := runModfair(ctx, o, seeds, cases)
	if err != nil {
		return nil, err
	}
	r, n := &Report{}, len(mfTable5)
	pairs := make([][]mfPair, len(readings))
	for i := range readings {
		for k := range n {
			at := 2 * (i*n + k)
			pairs[i] = append(pairs[i], mfPair{out[at], out[at+1]})
		}
	}
	for i := range 2 {
		mfTablesA(r, mfReadings[i], pairs[i])
	}
	mfSummaryA(r, pairs)
	mfClaimsA(r, pairs)
	mfDrawA(r, pairs)
	return r, mfWhyA(ctx, o, r)
}

// mfDrawA draws the gains of the nine cells.
func mfDrawA(r *Report, pairs [][]mfPair) {
	var groups []string
	series := []Series{{Name: "paper", Paper: true}, {Name: "promise, 2 cores"}, {Name: "promise, own cores"}, {Name: "cap, 2 cores"}}
	for k, c := range mfTable5 {
		groups = append(groups, fmt.Sprintf("%d × %d", c.jobs, c.size))
		series[0].Y = append(series[0].Y, 100*(c.mod/c.orig-1))
		for i, reading := range []int{0, 2, 1} {
			series[i+1].Y = append(series[i+1].Y, 100*pairs[reading][k].gain())
		}
	}
	r.bars("modfair-table5", "Modified Fair, Table 5: turnaround to the original's, jobs × maps", "modified to original [%]", groups, series...)
}

func mfTablesA(r *Report, x mfReading, pairs []mfPair) {
	t := r.table("Table 5, mean turnaround (s): "+x.String(), "maps", "jobs", "original", "paper", "modified", "paper", "gain", "paper")
	for k, c := range mfTable5 {
		p := &pairs[k]
		t.add(fmt.Sprint(c.size), fmt.Sprint(c.jobs), interval95(p.orig.turnaround, 1), number(c.orig, 1), interval95(p.mod.turnaround, 1),
			number(c.mod, 1), percent(p.gain()), percent(c.mod/c.orig-1))
	}
	t = r.table("Table 6, share of maps with their data on the node: "+x.String(), "maps", "jobs", "original", "paper", "modified", "paper")
	for k, c := range mfTable5 {
		p := &pairs[k]
		t.add(fmt.Sprint(c.size), fmt.Sprint(c.jobs), number(p.orig.local(), 2), number(c.origLoc, 2), number(p.mod.local(), 2), number(c.modLoc, 2))
	}
}

// mfMeans are the mean gain of some cells, how many have one, and mean localities.
func mfMeans(pairs []mfPair) (gain float64, better int, orig, mod float64) {
	for i := range pairs {
		p := &pairs[i]
		gain += p.gain() / float64(len(pairs))
		orig += p.orig.local() / float64(len(pairs))
		mod += p.mod.local() / float64(len(pairs))
		if p.gain() < 0 {
			better++
		}
	}
	return gain, better, orig, mod
}

func mfSummaryA(r *Report, pairs [][]mfPair) {
	t := r.table("All readings: mean gain over the nine cells, and by size", "maximum, placement, processors, heartbeat", "gain", "6 maps", "10 maps",
		"18 maps", "cells with less time", "locality, original", "modified")
	for i := range pairs {
		g, better, orig, mod := mfMeans(pairs[i])
		row := []string{mfReadings[i].String(), percent(g)}
		for k := 0; k < 9; k += 3 {
			s, _, _, _ := mfMeans(pairs[i][k : k+3])
			row = append(row, percent(s))
		}
		t.add(append(row, fmt.Sprint(better), number(orig, 2), number(mod, 2))...)
	}
	t.add("paper", "-38.2 %", "-33.0 %", "-30.7 %", "-50.9 %", "9", "0.26", "0.29")
}

func mfClaimsA(r *Report, pairs [][]mfPair) {
	gain, better, orig, mod := mfMeans(pairs[0])
	hard, hardBetter, hardOrig, hardMod := mfMeans(pairs[1])
	own, _, _, _ := mfMeans(pairs[2])
	r.claim(ordered(better == 9), "the modified scheduler has the shorter mean turnaround in all nine cells",
		"with the maximum as a promise in %d of 9, with it as a cap in %d", better, hardBetter)
	r.claim(mfShorter(pairs[0]), "each by 21 to 55 %",
		"maximum as a promise: %s", mfGainRange(pairs[0]))
	r.claim(sized(printed{-38, -38, "%"}, gain), "by 38 % on average",
		"%s as a promise, %s as a cap, %s as a promise with a core for each slot", percent(gain), percent(hard), percent(own))
	most := mfLargestFirst(pairs[0])
	r.claim(ordered(most == 3), "the largest jobs gain most at each number of jobs", "at %d of 3 numbers of jobs (maximum as a promise)", most)
	grows := true
	for k := range 9 {
		if k%3 > 0 {
			for _, p := range pairs[:2] {
				grows = grows && p[k].orig.time() > p[k-1].orig.time() && p[k].mod.time() > p[k-1].mod.time()
			}
		}
	}
	r.claim(ordered(grows), "turnaround grows with the number of jobs for each size, under both schedulers", "in both tables")
	r.claim(worded(orig < low && mod < low, "low"), "locality is low", "means %.2f and %.2f with a promise, all blocks on one node", orig, mod)
	r.claim(ordered(mod > orig), "it is slightly higher under the modified scheduler",
		"means %.2f and %.2f with a promise, %.2f and %.2f with a cap, all blocks on one node", orig, mod, hardOrig, hardMod)
}

// mfShorter judges the gains of cells by those of Table 5.
func mfShorter(pairs []mfPair) judgement {
	var gains []float64
	for i := range pairs {
		gains = append(gains, pairs[i].gain())
	}
	return sized(printed{-55, -21, "%"}, gains...)
}

// mfGainRange are the least and the greatest gain.
func mfGainRange(pairs []mfPair) string {
	least, most := pairs[0].gain(), pairs[0].gain()
	for i := range pairs {
		least, most = max(least, pairs[i].gain()), min(most, pairs[i].gain())
	}
	return percent(least) + " to " + percent(most)
}
