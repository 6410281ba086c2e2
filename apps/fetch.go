package apps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// errTooLarge ends the reading of a body that is longer than allowed.
var errTooLarge = errors.New("too large")

// fetcher gets URLs for one map task. URLs that cannot be fetched are counted by the
// kind of error and never fail the job, since of a million URLs some are always
// dead. The counters:
//
//	fetched         all of the body was read and used
//	answers N       the server answered with status N, not 200; redirections
//	                are followed first
//	malformed URLs  not http or https, or no URL at all
//	timed out       within the connection, the answer or the body
//	too large       more than max-bytes, announced or met
//	unreachable     everything else that can go wrong on the way
//
// Each attempt of a task requests each URL once.
type fetcher struct {
	client *http.Client
	max    int64
	counts map[string]int64
}

// fetchParams are the parameters of apps that fetch.
func fetchParams(maxBytes string) []mapreduce.Param {
	return []mapreduce.Param{
		{Name: "timeout", Default: "30s", Help: "give up on a URL after so long"},
		{Name: "max-bytes", Default: maxBytes, Help: "give up on a URL that has more"},
	}
}

// newFetcher returns what makes a fetcher for each task.
func newFetcher(p mapreduce.Params) (func() *fetcher, error) {
	timeout, err := time.ParseDuration(p.Get("timeout"))
	if err != nil || timeout <= 0 {
		return nil, fmt.Errorf("parameter timeout: %q is no duration such as 30s", p.Get("timeout"))
	}
	limit, err := p.Int("max-bytes", 0)
	if err != nil {
		return nil, err
	}
	// One client for all tasks of the process, so that tasks that fetch from one server share its
	// connections.
	client := &http.Client{Timeout: timeout}
	return func() *fetcher {
		return &fetcher{client: client, max: limit, counts: map[string]int64{}}
	}, nil
}

// target returns the URL of a line, or "" for an empty line and a comment.
func target(line []byte) string {
	s := strings.TrimSpace(string(line))
	if strings.HasPrefix(s, "#") {
		return ""
	}
	return s
}

// fetch gets a URL and hands its body, at most max bytes, to use. It reports
// whether the whole page was read and used. It returns the error of use, or the cause
// with which the task is stopped.
func (f *fetcher) fetch(ctx context.Context, raw string, use func(body io.Reader) error) (bool, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		f.counts["malformed URLs"]++
		return false, nil
	}
	// The client's time-out covers the body too.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		f.counts["malformed URLs"]++
		return false, nil
	}
	resp, err := f.client.Do(req)
	// A killed task's request fails, too. It must not be counted: the next attempt fetches the URL again.
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		f.counts[failureCounter(err)]++
		return false, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		f.counts[fmt.Sprintf("answers %d", resp.StatusCode)]++
		return false, nil
	}
	body := &limitedBody{r: resp.Body, left: f.max}
	// Given up before the first byte. Servers may announce nothing (-1) or too little, so limitedBody counts
	// as well.
	if resp.ContentLength > f.max {
		body.err = errTooLarge
	} else if err := use(body); err != nil && body.err == nil {
		// The body gave no error, so this one is its reader's: a full disk.
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if body.err != nil {
		f.counts[failureCounter(body.err)]++
		return false, nil
	}
	f.counts["fetched"]++
	return true, nil
}

// limitedBody reads a body up to a size limit and keeps the error with which reading
// ended.
type limitedBody struct {
	r    io.Reader
	left int64
	err  error // not nil if the body is incomplete
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	// A body of exactly max bytes is not too large: the read that returns io.EOF has no bytes.
	if b.left -= int64(n); b.left < 0 {
		err = errTooLarge
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// failureCounter returns the name of the counter for an error.
func failureCounter(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errTooLarge):
		return "too large"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	return "unreachable"
}

// Finish adds the counts to the job's counters.
func (f *fetcher) Finish(out *mapreduce.Emitter) error {
	for what, n := range f.counts {
		out.Count(what, n)
	}
	return nil
}
