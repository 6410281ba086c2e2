// Command gen writes the inputs of the other programs, the same for the same seed:
//
//	gen --what logs --tasks 3 --output logs
//
// It is a job without input: each map task draws a part of the data.
package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

type customer struct {
	ID      int64  `column:"id"`
	Name    string `column:"name"`
	Country string `column:"country"`
}

type order struct {
	ID       int64   `column:"id"`
	Customer int64   `column:"customer"`
	Amount   float64 `column:"amount"`
}

// kinds are the kinds of data: how a task's record number n is drawn, and the output's format.
var kinds = map[string]struct {
	output mapreduce.Format
	draw   func(r *rand.Rand, n int64, out *mapreduce.Emitter)
}{
	// Requests of 40 visitors on a day, not in the order of time, and now and then a broken line.
	"logs": {mapreduce.Text, func(r *rand.Rand, n int64, out *mapreduce.Emitter) {
		at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.ExpFloat64()*20000) * time.Second)
		line := fmt.Appendf(nil, "10.0.0.%d - - [%s] \"GET /page/%d HTTP/1.1\" 200 %d", r.IntN(40), at.Format("02/Jan/2006:15:04:05 -0700"), r.IntN(9), r.IntN(5000))
		if r.IntN(100) == 0 {
			line = line[:20]
		}
		out.Emit(nil, line)
	}},
	"customers": {mapreduce.TableOf[customer]().Output("csv"), func(r *rand.Rand, n int64, out *mapreduce.Emitter) {
		// Names have a comma, so that the CSV needs quotes.
		c := customer{n, fmt.Sprintf("customer, %d", n), []string{"NO", "IT", "JP"}[r.IntN(3)]}
		out.Emit(nil, mapreduce.TableOf[customer]().Append(nil, c))
	}},
	"orders": {mapreduce.TableOf[order]().Output("parquet"), func(r *rand.Rand, n int64, out *mapreduce.Emitter) {
		// Some orders are of customers that do not exist, as in real data.
		o := order{n, int64(r.IntN(700)), float64(r.IntN(100000)) / 100}
		out.Emit(nil, mapreduce.TableOf[order]().Append(nil, o))
	}},
	// Each line is a document: its name, a TAB and words, of which the first are frequent.
	"documents": {mapreduce.Text, func(r *rand.Rand, n int64, out *mapreduce.Emitter) {
		var text []byte
		for range 20 + r.IntN(60) {
			text = fmt.Appendf(text, "w%d ", int(r.ExpFloat64()*30))
		}
		out.Emit([]byte("doc"+strconv.FormatInt(n, 10)), text)
	}},
	// Lines of a page, a TAB and a page that it links to. Some pages have no links.
	"links": {mapreduce.Text, func(r *rand.Rand, n int64, out *mapreduce.Emitter) {
		out.Emit([]byte("p"+strconv.Itoa(r.IntN(150))), []byte("p"+strconv.Itoa(int(r.ExpFloat64()*40))))
	}},
}

func job(p mapreduce.Params) (*mapreduce.Job, error) {
	kind, ok := kinds[p.Get("what")]
	if !ok {
		return nil, fmt.Errorf("parameter what: there is no data called %q", p.Get("what"))
	}
	var numbers [3]int64
	for i, name := range []string{"tasks", "records", "seed"} {
		var err error
		if numbers[i], err = p.Int(name, 1); err != nil {
			return nil, err
		}
	}
	tasks, records, seed := numbers[0], numbers[1], numbers[2]
	return &mapreduce.Job{
		Name: "gen", Synthetic: int(tasks), Output: kind.output,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, task []byte, out *mapreduce.Emitter) error {
				t, err := strconv.ParseInt(string(task), 10, 64)
				// A generator for each task: an attempt that is repeated must write the same data.
				r := rand.New(rand.NewPCG(uint64(seed), uint64(t)))
				for i := range records {
					kind.draw(r, t*records+i, out)
				}
				return err
			})
		},
	}, nil
}

func main() {
	mapreduce.MainApp(&mapreduce.App{Name: "gen", Job: job, Params: []mapreduce.Param{
		{Name: "what", Help: "`kind` of data: logs, customers, orders, documents or links", Required: true},
		{Name: "tasks", Default: "2", Help: "`number` of files"},
		{Name: "records", Default: "300", Help: "`number` of records in each file"},
		{Name: "seed", Default: "1", Help: "`seed` of the data"},
	}}, formats.Readers())
}
