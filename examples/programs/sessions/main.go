// Command sessions finds the visits in logs of a web server: requests of one address with pauses
// of at most --pause minutes between them.
//
//	sessions --input logs --output visits --pause 30
//
// The output is Parquet with a row for each visit. Requests need not be in the order of time: it
// is a secondary sort by address and time.
package main

import (
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

// moment is the key: a visitor and the time of a request in seconds.
type moment struct {
	Visitor string
	At      int64
}

type request struct {
	Page  string
	Bytes int64
}

type visit struct {
	Visitor  string    `column:"visitor"`
	Start    time.Time `column:"start"`
	Seconds  int64     `column:"seconds"`
	Requests int64     `column:"requests"`
	Bytes    int64     `column:"bytes"`
	Entry    string    `column:"entry"`
	Exit     string    `column:"exit"`
}

var (
	visits = mapreduce.TableOf[visit]()
	codes  = mapreduce.CodesOf[moment, request]()
	format = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^]]+)\] "\S+ (\S+) [^"]*" \d+ (\d+)$`)
)

func parse(_, line []byte, out *mapreduce.TypedEmitter[moment, request]) error {
	f := format.FindStringSubmatch(string(line))
	// Real logs have broken lines. They are counted, because a job that fails for one of a billion is of no
	// use.
	if f == nil {
		out.Count("broken lines", 1)
		return nil
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", f[2])
	if err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	n, err := strconv.ParseInt(f[4], 10, 64)
	out.Put(moment{f[1], at.Unix()}, request{f[3], n})
	return err
}

func job(p mapreduce.Params) (*mapreduce.Job, error) {
	pause, err := p.Int("pause", 1)
	return &mapreduce.Job{
		Name: "sessions", Mapper: codes.Mapper(parse), Output: visits.Output("parquet"),
		// Records are sorted by visitor and time; both functions look at the visitor alone, so one call gets
		// all of a visitor.
		Partitioner: mapreduce.ByFirst, SameGroup: mapreduce.SameFirst,
		Reducer: mapreduce.ReduceTo(codes, mapreduce.Values(visits), func(first moment, requests iter.Seq[request], out *mapreduce.TypedEmitter[mapreduce.None, visit]) error {
			var v visit
			for r := range requests {
				// first is the key of the group's first record. The time of each record is in its own key.
				now, err := codes.Key.Decode(out.Task().RecordKey())
				if err != nil {
					return err
				}
				if v.Requests > 0 && now.At-v.Start.Unix()-v.Seconds > 60*pause {
					out.PutValue(v)
					v.Requests = 0
				}
				if v.Requests == 0 {
					v = visit{Visitor: first.Visitor, Start: time.Unix(now.At, 0).UTC(), Entry: r.Page}
				}
				v.Seconds, v.Requests, v.Bytes, v.Exit = now.At-v.Start.Unix(), v.Requests+1, v.Bytes+r.Bytes, r.Page
			}
			out.PutValue(v)
			return nil
		}),
	}, err
}

func main() {
	mapreduce.MainApp(&mapreduce.App{Name: "sessions", Job: job, Params: []mapreduce.Param{
		{Name: "pause", Default: "30", Help: "`minutes` without a request that end a visit"},
	}}, formats.Readers())
}
