package apps

import (
	"bytes"
	"io"

	"github.com/slotwise/slotwise/mapreduce"
)

// urlGet fetches pages of text, as a web crawler does: the URLGet job that
// learning schedulers were measured with, bound by waiting for servers.
//
//	input       a URL on each line; empty lines and # comments are skipped
//	parameters  timeout, max-bytes
//	output      URL TAB line, for each line of each page
//
// Pages that cannot be had or are too large are counted by the kind of error.
var urlGet = &mapreduce.App{
	Name:    "urlget",
	Summary: "fetches pages of text",
	Reads:   "URLs",
	Writes:  "URL TAB line of the page",
	Params:  fetchParams("16777216"),
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		fetch, err := newFetcher(p)
		if err != nil {
			return nil, err
		}
		return &mapreduce.Job{
			Name:   "urlget",
			Mapper: func() mapreduce.Mapper { return &pageGetter{fetcher: fetch()} },
		}, nil
	},
}

// pageGetter fetches and emits pages.
type pageGetter struct {
	*fetcher
	page bytes.Buffer
}

// Map fetches a page. It is emitted when it is there as a whole.
func (g *pageGetter) Map(_, line []byte, out *mapreduce.Emitter) error {
	address := target(line)
	if address == "" {
		return nil
	}
	g.page.Reset()
	ok, err := g.fetch(out.Task().Context(), address, func(body io.Reader) error {
		_, err := g.page.ReadFrom(body)
		return err
	})
	// A page that broke off is not emitted, and its attempt goes to the next URL.
	if !ok {
		return err
	}
	key := []byte(address)
	eachLine(g.page.Bytes(), func(line []byte) { out.Emit(key, line) })
	return nil
}
