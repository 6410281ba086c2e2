package netshuffle

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
)

const testJob = "j1"

var testSecret = []byte("the job's secret")

// record is a key and a value.
type record [2]string

// recordsOf returns the records of map m for a partition. They depend on the names
// only, so all attempts of a map write the same.
func recordsOf(m, part, n, size int) []record {
	recs := make([]record, n)
	for i := range recs {
		value := fmt.Sprintf("%d/%d/%d/", m, part, i)
		for len(value) < size {
			value += value
		}
		recs[i] = record{fmt.Sprintf("k%06d", i/2), value}
	}
	return recs
}

// writeRun writes the output of an attempt below dir.
func writeRun(dir, attempt string, parts [][]record, opts runfile.Options) error {
	name := File(dir, testJob, attempt)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	opts.Partitions = len(parts)
	w := runfile.NewWriter(f, opts)
	for p, recs := range parts {
		for _, r := range recs {
			if err := w.Append(p, []byte(r[0]), []byte(r[1])); err != nil {
				return err
			}
		}
	}
	return w.Finish()
}

// damage flips a bit in the middle of the first partition of a run file.
func damage(t testing.TB, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[40] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fault is the fault injected into one request.
type fault struct {
	kind string // "" none, refuse, hang, busy, cut, flip, slow or header
	at   int64  // byte of the body, for cut, flip
}

// network sends requests to handlers in this process and injects the n-th fault of
// script into the n-th request.
type network struct {
	handlers map[string]http.Handler
	mu       sync.Mutex
	script   []fault
	seen     []string // addresses, paths and ranges
	down     map[string]bool
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	var tr fault
	if len(n.script) > 0 {
		tr, n.script = n.script[0], n.script[1:]
	}
	n.seen = append(n.seen, r.URL.Host+r.URL.Path+" "+r.Header.Get("Range"))
	down := n.down[r.URL.Host]
	n.mu.Unlock()
	if down || tr.kind == "refuse" {
		return nil, errors.New("connection refused")
	}
	if tr.kind == "hang" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.Handle(Pattern, n.handlers[r.URL.Host])
	mux.ServeHTTP(w, r)
	resp := w.Result()
	length, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	resp.ContentLength = length
	switch tr.kind {
	case "busy":
		return &http.Response{StatusCode: 503, Status: "503 busy", Header: http.Header{}, Body: http.NoBody}, nil
	case "header":
		resp.Header.Set(SectionHeader, "00"+resp.Header.Get(SectionHeader))
	case "":
	default:
		resp.Body = &faultyBody{r: resp.Body, fault: tr, req: r}
	}
	return resp, nil
}

// requests returns the number of requests so far.
func (n *network) requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen)
}

// faultyBody is the body of a response with an injected fault.
type faultyBody struct {
	r io.ReadCloser
	fault
	req *http.Request
	off int64
}

func (b *faultyBody) Read(p []byte) (int, error) {
	if b.kind == "slow" {
		time.Sleep(time.Second)
		p = p[:min(len(p), 1024)]
	}
	if b.kind == "cut" {
		if b.off >= b.at {
			return 0, io.ErrUnexpectedEOF
		}
		p = p[:min(int64(len(p)), b.at-b.off)]
	}
	n, err := b.r.Read(p)
	if b.kind == "flip" && b.off <= b.at && b.at < b.off+int64(n) {
		p[b.at-b.off] ^= 0x10
	}
	b.off += int64(n)
	return n, err
}

func (b *faultyBody) Close() error { return b.r.Close() }

// newHandler returns a handler for dir.
func newHandler(dir string) *Handler {
	return &Handler{Dir: dir, Log: slog.New(slog.DiscardHandler), Job: func(job string) ([]byte, int) {
		if job == testJob {
			return testSecret, 0
		}
		return nil, 0
	}}
}

// newConfig returns a configuration for partition 0 of a number of maps.
func newConfig(t testing.TB, maps int, transport http.RoundTripper) Config {
	scratch, err := storage.NewDirScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Close(); err != nil {
			t.Error(err)
		}
	})
	return Config{
		Job: testJob, Maps: maps, Secret: testSecret, Transport: transport,
		Memory: 1 << 20, Pool: mem.NewPool(1 << 20), Scratch: scratch,
	}
}

// read returns the records of each stream.
func read(streams []kv.Stream) ([][]record, error) {
	all := make([][]record, len(streams))
	for i, s := range streams {
		if s == nil {
			continue
		}
		for s.Next() {
			all[i] = append(all[i], record{string(s.Key()), string(s.Value())})
		}
		if s.Err() != nil {
			return nil, s.Err()
		}
	}
	return all, nil
}

func mustStart(t testing.TB, cfg Config) *Fetch {
	t.Helper()
	f, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// attempt returns the name of attempt n of map m.
func attempt(m, n int) string { return fmt.Sprintf("%s_m_%d_%d", testJob, m, n) }

// oneWorker returns a network with one worker, w1, that has outputs of n records in
// partition 0.
func oneWorker(t testing.TB, maps, n, size int) (*network, string, []Location) {
	t.Helper()
	dir := t.TempDir()
	places := make([]Location, maps)
	for m := range maps {
		if err := writeRun(dir, attempt(m, 0), [][]record{recordsOf(m, 0, n, size), nil}, runfile.Options{}); err != nil {
			t.Fatal(err)
		}
		places[m] = Location{Map: m, Attempt: attempt(m, 0), Worker: "w1", Address: "w1:1"}
	}
	return &network{handlers: map[string]http.Handler{"w1:1": newHandler(dir)}, down: map[string]bool{}}, dir, places
}
