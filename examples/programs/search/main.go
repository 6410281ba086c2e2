// Command search builds an inverted index of documents, and prints the ones that answer a query
// best, by BM25:
//
//	search --input documents --query 'w3 w40' --n 10 --output answers
//
// Each line of the input is a document: its name, a TAB and its text. The chain counts the
// documents, makes the index with the weight of each term in each document, and adds up the
// weights of the query's terms.
package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// The usual parameters of BM25: how fast repeated terms count less, and how much the length of a
// document matters.
const (
	k1 = 1.2
	b  = 0.75
)

// posting is a document of a term. Weight is its term of the score, after the index is made.
type posting struct {
	Document string
	Times    int     `json:",omitempty"`
	Length   int     `json:",omitempty"`
	Weight   float64 `json:",omitempty"`
}

type answer struct {
	Document string  `column:"document"`
	Score    float64 `column:"score"`
}

var (
	answers  = mapreduce.TableOf[answer]()
	postings = mapreduce.CodesOf[string, posting]()
	index    = mapreduce.CodesOf[string, []posting]()
	scores   = mapreduce.CodesOf[string, float64]()
)

func count(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name: "count", Input: mapreduce.KeyValue, Aggregate: mapreduce.Sum, Reducer: mapreduce.SumText,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, text []byte, out *mapreduce.Emitter) error {
				out.Add([]byte("documents"), 1)
				out.Add([]byte("words"), int64(len(strings.Fields(string(text)))))
				return nil
			})
		},
	}, nil
}

func invert(p mapreduce.Params) (*mapreduce.Job, error) {
	documents, err := p.Float("documents")
	words, err2 := p.Float("words")
	return &mapreduce.Job{
		Name: "invert", Input: mapreduce.KeyValue, Output: mapreduce.Runs,
		Mapper: postings.Mapper(func(name, text []byte, out *mapreduce.TypedEmitter[string, posting]) error {
			terms := strings.Fields(string(text))
			times := map[string]int{}
			for _, t := range terms {
				times[t]++
			}
			for t, n := range times {
				out.Put(t, posting{Document: string(name), Times: n, Length: len(terms)})
			}
			return nil
		}),
		Reducer: mapreduce.ReduceTo(postings, index, func(term string, all iter.Seq[posting], out *mapreduce.TypedEmitter[string, []posting]) error {
			// The number of documents with the term is known only at the end, so the postings of one term
			// must fit into memory.
			list := slices.Collect(all)
			idf := math.Log(1 + (documents-float64(len(list))+0.5)/(float64(len(list))+0.5))
			for i, p := range list {
				tf := float64(p.Times)
				list[i] = posting{Document: p.Document, Weight: idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(p.Length)*documents/words))}
			}
			out.Put(term, list)
			return nil
		}),
	}, cmp.Or(err, err2)
}

func add(p mapreduce.Params) (*mapreduce.Job, error) {
	query := strings.Fields(p.Get("query"))
	sum := scores.Fold(func(a, b float64) float64 { return a + b })
	return &mapreduce.Job{
		Name: "add", Input: mapreduce.Runs, Output: mapreduce.Runs, Combiner: sum, Reducer: sum,
		Mapper: mapreduce.MapTo(index, scores, func(term string, list []posting, out *mapreduce.TypedEmitter[string, float64]) error {
			// The step reads the whole index for a few terms. A real search engine would look them up.
			if slices.Contains(query, term) {
				for _, p := range list {
					out.Put(p.Document, p.Weight)
				}
			}
			return nil
		}),
	}, nil
}

func best(p mapreduce.Params) (*mapreduce.Job, error) {
	n, err := p.Int("n", 1)
	top := mapreduce.TopN[mapreduce.None, answer]{
		Key: mapreduce.NoneCode, Value: answers, N: int(n),
		Compare: func(a, b answer) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document))
		},
	}
	return &mapreduce.Job{
		// Ties are broken by name, so that each run prints the same answers.
		Name: "best", Input: mapreduce.Runs, Output: answers.Output("csv"), Reduces: 1, Combiner: top.Combiner(),
		Mapper: mapreduce.MapTo(scores, top.Codes(), func(document string, score float64, out *mapreduce.TypedEmitter[mapreduce.None, answer]) error {
			out.PutValue(answer{document, score})
			return nil
		}),
		Reducer: top.Reducer(func(_ mapreduce.None, best []answer, out *mapreduce.Emitter) error {
			for _, a := range best {
				out.Emit(nil, answers.Append(nil, a))
			}
			return nil
		}),
	}, err
}

func chain(ctx context.Context, c *mapreduce.Chain) error {
	p := mapreduce.Params{}
	err := c.Files().ReadRecords(ctx, c.Then(ctx, "count", nil, c.Inputs...), mapreduce.KeyValue, func(name, n []byte) error {
		_, err := strconv.ParseInt(string(n), 10, 64)
		p[string(name)] = string(n)
		return err
	})
	if err != nil {
		return fmt.Errorf("counts: %w", err)
	}
	scores := c.Then(ctx, "add", nil, c.Then(ctx, "invert", p, c.Inputs...))
	return c.Step(ctx, "best", nil, []string{scores}, c.Output())
}

func main() {
	mapreduce.MainApp(&mapreduce.App{
		Name: "search", Chain: chain,
		Steps:  map[string]func(mapreduce.Params) (*mapreduce.Job, error){"count": count, "invert": invert, "add": add, "best": best},
		Params: []mapreduce.Param{{Name: "query", Help: "`words` to look for", Required: true}, {Name: "n", Default: "10", Help: "`number` of answers"}},
	})
}
