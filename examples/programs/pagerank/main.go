// Command pagerank ranks pages by the links between them:
//
//	pagerank --input links --rounds 20 --output ranks
//
// Lines of the input are a page, a TAB and a page that it links to. Each round is a step of a
// chain. Rounds pass structs on; no step parses text but the first.
//
// The rank of pages without links is lost in each round. To give it to all pages evenly would
// only multiply all ranks, so the last step divides them by their sum.
package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

// damping is the probability of following a link instead of jumping to any page.
const damping = 0.85

// page is a page, or what a page contributes to another one: a Rank alone.
type page struct {
	Rank  float64
	Links []string
}

type row struct {
	Page string  `column:"page"`
	Rank float64 `column:"rank"`
}

var (
	pages = mapreduce.CodesOf[string, page]()
	links = mapreduce.CodesOf[string, string]()
	sums  = mapreduce.CodesOf[mapreduce.None, float64]()
	ranks = mapreduce.TableOf[row]()
)

func load(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name: "load", Input: mapreduce.KeyValue, Output: mapreduce.Runs,
		Mapper: links.Mapper(func(from, to []byte, out *mapreduce.TypedEmitter[string, string]) error {
			out.Put(string(from), string(to))
			out.Put(string(to), "") // a page, even without links
			return nil
		}),
		Reducer: mapreduce.ReduceTo(links, pages, func(name string, to iter.Seq[string], out *mapreduce.TypedEmitter[string, page]) error {
			p := page{Rank: 1}
			for link := range to {
				if link != "" {
					p.Links = append(p.Links, link)
				}
			}
			out.Put(name, p)
			return nil
		}),
	}, nil
}

func round(mapreduce.Params) (*mapreduce.Job, error) {
	// The links come from one record of a page, all other records have a share of rank, and either may come
	// first. Ranks are sums of floating-point numbers, so their last digits depend on how the records are
	// combined.
	add := func(a, b page) page { return page{a.Rank + b.Rank, append(a.Links, b.Links...)} }
	return &mapreduce.Job{
		Name: "round", Input: mapreduce.Runs, Output: mapreduce.Runs,
		Mapper: mapreduce.MapTo(pages, pages, func(name string, p page, out *mapreduce.TypedEmitter[string, page]) error {
			// The links go along in each round: a step sees only the output of the step before.
			out.Put(name, page{Links: p.Links})
			for _, link := range p.Links {
				out.Put(link, page{Rank: p.Rank / float64(len(p.Links))})
			}
			return nil
		}),
		Combiner: pages.Fold(add),
		Reducer: mapreduce.ReduceTo(pages, pages, func(name string, parts iter.Seq[page], out *mapreduce.TypedEmitter[string, page]) error {
			p := mapreduce.FoldValues(parts, add)
			p.Rank = 1 - damping + damping*p.Rank
			out.Put(name, p)
			return nil
		}),
	}, nil
}

func total(mapreduce.Params) (*mapreduce.Job, error) {
	sum := sums.Fold(func(a, b float64) float64 { return a + b })
	return &mapreduce.Job{
		// One record is the result, so one reduce is enough, and the combiner sends it one record from each
		// map.
		Name: "total", Input: mapreduce.Runs, Output: mapreduce.Runs, Reduces: 1, Combiner: sum, Reducer: sum,
		Mapper: mapreduce.MapTo(pages, sums, func(_ string, p page, out *mapreduce.TypedEmitter[mapreduce.None, float64]) error {
			out.PutValue(p.Rank)
			return nil
		}),
	}, nil
}

func divide(p mapreduce.Params) (*mapreduce.Job, error) {
	sum, err := p.Float("sum")
	codes := mapreduce.Codes[float64, string]{Key: mapreduce.Descending(mapreduce.Float64Code), Value: mapreduce.StringCode}
	return &mapreduce.Job{
		// TotalOrder, so that the files one after the other are the ranking, however many reduces write them.
		Name: "divide", Input: mapreduce.Runs, Output: ranks.Output("parquet"), TotalOrder: true,
		Mapper: mapreduce.MapTo(pages, codes, func(name string, p page, out *mapreduce.TypedEmitter[float64, string]) error {
			out.Put(p.Rank/sum, name)
			return nil
		}),
		Reducer: mapreduce.ReduceTo(codes, mapreduce.Values(ranks), func(rank float64, names iter.Seq[string], out *mapreduce.TypedEmitter[mapreduce.None, row]) error {
			for name := range names {
				out.PutValue(row{name, rank})
			}
			return nil
		}),
	}, err
}

func chain(ctx context.Context, c *mapreduce.Chain) error {
	rounds, err := c.Params.Int("rounds", 1)
	if err != nil {
		return err
	}
	last := c.Then(ctx, "load", nil, c.Inputs...)
	for range rounds {
		last = c.Then(ctx, "round", nil, last)
	}
	// A step gets its values as parameters and not from variables of this function: on a cluster another
	// process builds the step.
	p := mapreduce.Params{}
	err = mapreduce.ReadTyped(ctx, c.Files(), c.Then(ctx, "total", nil, last), mapreduce.Runs, sums, func(_ mapreduce.None, sum float64) error {
		p["sum"] = strconv.FormatFloat(sum, 'g', -1, 64)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Step(ctx, "divide", p, []string{last}, c.Output())
}

func main() {
	mapreduce.MainApp(&mapreduce.App{
		Name: "pagerank", Chain: chain,
		Steps:  map[string]func(mapreduce.Params) (*mapreduce.Job, error){"load": load, "round": round, "total": total, "divide": divide},
		Params: []mapreduce.Param{{Name: "rounds", Default: "20", Help: "`number` of rounds"}},
	}, formats.Readers())
}
