package generate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
)

// The eight tables of the TPC-H benchmark as text, with one row per line and a
// '|' after every column, as in the .tbl files of the benchmark's generator.
//
// Cardinalities, keys, formulas, lists of values and dates follow the
// specification (clause 4.2), with two simplifications. Comments are substrings
// of one megabyte of text with a similar grammar and a part of the vocabulary
// (see tpchText). The random numbers differ, so that rows differ from other
// generators' while their distributions agree.
//
// Every row depends only on the seed, its table and its number. Tables are
// therefore independent of each other and of the number of cores.

// The bounds of the scale factor: at a thousandth ten suppliers are left, of
// which each part needs four; the specification ends at the upper one.
const (
	minTPCHScale = 0.001
	maxTPCHScale = 1e5
)

// tpchUnit is the approximate number of bytes of all tables at scale factor 1.
const tpchUnit = 1.10e9

// tpch writes all tables into o.Dir, each to a file called after it.
func tpch(ctx context.Context, o Options) error {
	scale, err := tpchScale(o)
	if err != nil {
		return err
	}
	d := newTPCHData(scale, o.Seed)
	return inDir(o, func(dir string) error {
		m := &meter{ctx: ctx, progress: o.Progress}
		for i := range tpchTables {
			t := &tpchTables[i]
			err := writeFile(m, dir, t.name+".tbl", func(w io.Writer) error { return d.write(ctx, t, w) })
			if err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		return nil
	})
}

// tpchScale returns the parameter scale. If it is 0, it returns the scale at
// which the tables have about o.Size bytes.
func tpchScale(o Options) (float64, error) {
	scale, err := o.Params.Float("scale")
	if err != nil {
		return 0, err
	}
	if scale == 0 {
		// No upper bound here: the size already says how much space the user expects.
		return max(minTPCHScale, float64(o.Size)/tpchUnit), nil
	}
	if scale < minTPCHScale || scale > maxTPCHScale {
		return 0, fmt.Errorf("parameter scale: %v is not between %v and %v", scale, minTPCHScale, maxTPCHScale)
	}
	return scale, nil
}

// tpchTable is one of the eight tables: its name, the number of its entries
// (rows; for partsupp, parts; for lineitem, orders), and the function that
// appends the rows of entry i, counted from 0.
type tpchTable struct {
	name  string
	count func(d *tpchData) int64
	row   func(d *tpchData, r rng, i int64, out []byte) []byte
}

var tpchTables = []tpchTable{
	{"region", func(*tpchData) int64 { return int64(len(tpchRegions)) }, (*tpchData).region},
	{"nation", func(*tpchData) int64 { return int64(len(tpchNations)) }, (*tpchData).nation},
	{"supplier", func(d *tpchData) int64 { return d.suppliers }, (*tpchData).supplier},
	{"part", func(d *tpchData) int64 { return d.parts }, (*tpchData).part},
	{"partsupp", func(d *tpchData) int64 { return d.parts }, (*tpchData).partsupp},
	{"customer", func(d *tpchData) int64 { return d.customers }, (*tpchData).customer},
	{"orders", func(d *tpchData) int64 { return d.orders }, (*tpchData).orderRow},
	{"lineitem", func(d *tpchData) int64 { return d.orders }, (*tpchData).lineRows},
}

// tpchData holds the data that rows are made from. It is read-only once made.
type tpchData struct {
	seed                                        uint64
	suppliers, parts, customers, orders, clerks int64
	complaintBlock                              int64
	complaints, orderings                       stream
	text                                        []byte
	dates                                       [][]byte
}

func newTPCHData(scale float64, seed uint64) *tpchData {
	scaled := func(base float64) int64 { return max(1, int64(math.Round(base*scale))) }
	d := &tpchData{
		seed:       seed,
		suppliers:  scaled(10_000),
		parts:      scaled(200_000),
		customers:  scaled(150_000),
		clerks:     scaled(1_000),
		complaints: newStream(seed, "tpch complaints"),
		orderings:  newStream(seed, "tpch orderings"),
		text:       tpchText(seed),
		dates:      tpchDates(),
	}
	// Clause 4.2.5: ten orders for each customer, though a third of the customers have none.
	d.orders = 10 * d.customers
	// Five suppliers in 10,000 have complaints: one in each 2,000. A table too
	// small for one still gets one, or query 16 would have nothing to leave out.
	d.complaintBlock = min(2000, d.suppliers)
	return d
}

// tpchChunk is the number of entries that a goroutine makes at a time, some 100
// kB.
const tpchChunk = 1000

// write writes one table.
func (d *tpchData) write(ctx context.Context, t *tpchTable, w io.Writer) error {
	n := t.count(d)
	rows := newStream(d.seed, "tpch "+t.name)
	buffered := bufio.NewWriterSize(w, 1<<18)
	err := inOrder(ctx, (n+tpchChunk-1)/tpchChunk, func(chunk int64, out []byte) []byte {
		for i := chunk * tpchChunk; i < min(n, (chunk+1)*tpchChunk); i++ {
			out = t.row(d, rows.at(i), i, out)
		}
		return out
	}, func(b []byte) error {
		_, err := buffered.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	return buffered.Flush()
}
