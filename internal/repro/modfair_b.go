package repro

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// mfRow is a row of Tables 7 and 8.
type mfRow struct {
	each                     int // jobs of each size
	orig, mod, fifo          float64
	origLoc, modLoc, fifoLoc float64
}

var mfTable7 = []mfRow{{1, 1242, 364.6, 513.6, 0.25, 0.26, 0.27}, {2, 2343.1, 1372.5, 1532.2, 0.32, 0.44, 0.36},
	{3, 5585.3, 2285.5, 2131.9, 0.32, 0.44, 0.36}}

var mfSizesB = []int{6, 10, 16, 21, 25}

// mfOrders are orders of submission.
var mfOrders = []string{"ascending", "descending", "shuffled"}

// mfOrdered puts jobs in an order; a shuffle is the seed's.
func mfOrdered(sizes []int, order string, seed uint64) []int {
	switch order {
	case "descending":
		slices.Reverse(sizes)
	case "shuffled":
		g := rand.New(rand.NewPCG(seed, 0x6d6f64666169720a))
		g.Shuffle(len(sizes), func(a, b int) { sizes[a], sizes[b] = sizes[b], sizes[a] })
	}
	return sizes
}

// mfTriple is a test under the three schedulers.
type mfTriple struct{ orig, mod, fifo mfOutcome }

// runModfairB makes Tables 7 and 8 in each order of submission.
func runModfairB(ctx context.Context, o Options) (*Report, error) {
	r := &Report{}
	var modes [2][][]mfTriple
	for m, mode := range []string{"promise", "cap"} {
		all, err := mfRunB(ctx, o, pick(o, 1, 10), mode)
		if err != nil {
			return nil, err
		}
		modes[m] = all
		for i, order := range mfOrders {
			mfTablesB(r, fmt.Sprintf("maximum as a %s, %s order", mode, order), all[i])
		}
	}
	mfClaimsB(r, modes[0], modes[1])
	mfDrawB(r, modes[0][2])
	return r, mfWhyB(ctx, o, r, mfClaimsOfB)
}

// mfDrawB draws Table 7 with a shuffled order.
func mfDrawB(r *Report, rows []mfTriple) {
	var groups []string
	s := []Series{{Name: "original"}, {Name: "original, paper", Paper: true}, {Name: "modified"}, {Name: "modified, paper", Paper: true}, {Name: "FIFO"}, {Name: "FIFO, paper", Paper: true}}
	for i, c := range mfTable7 {
		groups = append(groups, fmt.Sprintf("%d jobs", 5*c.each))
		for k, y := range []float64{rows[i].orig.time(), c.orig, rows[i].mod.time(), c.mod, rows[i].fifo.time(), c.fifo} {
			s[k].Y = append(s[k].Y, y)
		}
	}
	r.bars("modfair-table7", "Modified Fair, Table 7: jobs of five sizes, shuffled", "mean turnaround [s]", groups, s...)
}

// mfRunB runs the three tests in each order. A shuffle differs from seed to seed,
// so each seed is a case of its own.
func mfRunB(ctx context.Context, o Options, seeds int, mode string) ([][]mfTriple, error) {
	var cases []mfCase
	for _, order := range mfOrders {
		for _, row := range mfTable7 {
			for s := range seeds {
				t := mfTest{slots: 2, sizes: mfOrdered(repeat(row.each, mfSizesB...), order, o.Seed+uint64(s)),
					mfReading: mfReading{mode, true, false, hadoop12}}
				cases = append(cases, mfCase{t, mfOriginal()}, mfCase{t, mfModified(mode)}, mfCase{t, mfFIFO()})
			}
		}
	}
	out := make([]mfOutcome, 0, len(cases))
	for s := range seeds {
		var own []mfCase
		for i := range cases {
			if i/3%seeds == s {
				own = append(own, cases[i])
			}
		}
		got, err := runModfair(ctx, Options{Quick: o.Quick, Seed: o.Seed + uint64(s)}, 1, own)
		if err != nil {
			return nil, err
		}
		for i := range got {
			if s == 0 {
				out = append(out, got[i])
				continue
			}
			out[i].turnaround = append(out[i].turnaround, got[i].turnaround...)
			out[i].locality = append(out[i].locality, got[i].locality...)
			out[i].makespan = append(out[i].makespan, got[i].makespan...)
		}
	}
	all := make([][]mfTriple, len(mfOrders))
	for i := range out {
		if i%3 == 0 {
			all[i/3/len(mfTable7)] = append(all[i/3/len(mfTable7)], mfTriple{out[i], out[i+1], out[i+2]})
		}
	}
	return all, nil
}

func mfTablesB(r *Report, title string, rows []mfTriple) {
	t := r.table("Table 7, mean turnaround (s): "+title, "jobs", "original", "paper", "modified", "paper", "FIFO", "paper",
		"gain", "paper", "modified to FIFO", "paper", "FIFO to original", "paper")
	for i, c := range mfTable7 {
		x := &rows[i]
		t.add(fmt.Sprint(5*c.each), interval95(x.orig.turnaround, 1), number(c.orig, 1), interval95(x.mod.turnaround, 1), number(c.mod, 1),
			interval95(x.fifo.turnaround, 1), number(c.fifo, 1), percent(x.mod.time()/x.orig.time()-1), percent(c.mod/c.orig-1),
			percent(x.mod.time()/x.fifo.time()-1), percent(c.mod/c.fifo-1), percent(x.fifo.time()/x.orig.time()-1), percent(c.fifo/c.orig-1))
	}
	t = r.table("Table 8, share of maps with their data on the node: "+title, "jobs", "original", "paper", "modified", "paper", "FIFO", "paper")
	for i, c := range mfTable7 {
		x := &rows[i]
		t.add(fmt.Sprint(5*c.each), number(x.orig.local(), 2), number(c.origLoc, 2), number(x.mod.local(), 2), number(c.modLoc, 2),
			number(x.fifo.local(), 2), number(c.fifoLoc, 2))
	}
}

// mfMeanGain is the mean gain of the modified scheduler over some rows, against
// the original and against FIFO, and of FIFO against the original.
func mfMeanGain(rows []mfTriple) (orig, fifo, fifoOrig float64) {
	n := float64(len(rows))
	for i := range rows {
		x := &rows[i]
		orig += (x.mod.time()/x.orig.time() - 1) / n
		fifo += (x.mod.time()/x.fifo.time() - 1) / n
		fifoOrig += (x.fifo.time()/x.orig.time() - 1) / n
	}
	return orig, fifo, fifoOrig
}

func mfClaimsB(r *Report, promise, hard [][]mfTriple) {
	var gains [2][3]float64
	var toFIFO, fifoOrig [3]float64
	fifoAll := true
	for i := range mfOrders {
		gains[0][i], toFIFO[i], fifoOrig[i] = mfMeanGain(promise[i])
		gains[1][i], _, _ = mfMeanGain(hard[i])
		for k := range promise[i] {
			x := &promise[i][k]
			fifoAll = fifoAll && x.fifo.time() < x.orig.time()
		}
	}
	r.claim(sized(printed{-57, -57, "%"}, gains[0][2]), "the modified scheduler takes 57 % less time than the original on average",
		"mean gains with jobs in ascending, descending and shuffled order: %s, %s, %s (promise), %s, %s, %s (cap). The printed "+
			"original cannot come from another order of the same work: it takes 1242 s for 5 jobs on average, and a FIFO with the printed "+
			"mean of 513.6 s has done all of them after %s s",
		percent(gains[0][0]), percent(gains[0][1]), percent(gains[0][2]), percent(gains[1][0]), percent(gains[1][1]), percent(gains[1][2]),
		number(mean(promise[2][0].fifo.makespan), 0))
	wins := func(k int) bool { return promise[2][k].mod.time() < promise[2][k].fifo.time() }
	r.claim(ordered(wins(0) && wins(1) && !wins(2)), "the modified scheduler beats FIFO for 5 and 10 jobs, FIFO wins with 15",
		"the modified against FIFO: %s ascending, %s descending, %s shuffled, which is what is judged. In ascending order FIFO is shortest job first, which "+
			"nothing beats", percent(toFIFO[0]), percent(toFIFO[1]), percent(toFIFO[2]))
	r.claim(ordered(fifoAll), "FIFO beats the original in all three tests",
		"FIFO against the original: %s ascending, %s descending, %s shuffled", percent(fifoOrig[0]), percent(fifoOrig[1]), percent(fifoOrig[2]))
	x := &promise[2][2]
	r.claim(worded(max(x.mod.local(), x.orig.local(), x.fifo.local()) < low, "low"), "locality is low under the three schedulers",
		"15 jobs, shuffled: original %.2f, modified %.2f, FIFO %.2f", x.orig.local(), x.mod.local(), x.fifo.local())
}

// mfClaimsOfB is how many claims mfClaimsB makes.
const mfClaimsOfB = 4

func abs(x float64) float64 { return max(x, -x) }
