package netshuffle

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// answer is a transport whose server gives the same answer to every request.
type answer struct {
	status  int
	section string
	body    []byte
}

// RoundTrip implements http.RoundTripper.
func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Status: "status", Header: http.Header{SectionHeader: {a.section}}, Request: r,
		ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// FuzzAnswer lets a worker answer a fetch with any section and bytes. With seal the
// description of the section has the right checksum and length, as a hostile worker would
// send it. The reduce must get an error, or records whose number and size match the
// section's description.
func FuzzAnswer(f *testing.F) {
	dir := f.TempDir()
	if err := writeRun(dir, attempt(0, 0), [][]record{recordsOf(0, 0, 9, 9)}, runfile.Options{}); err != nil {
		f.Fatal(err)
	}
	scratch, err := storage.NewDirScratch(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	sections, bodies := served(f, dir)
	f.Add(200, sections, bodies, false, int64(8), int64(9), int64(300), 400, 400, true)
	f.Add(200, sections, bodies, true, int64(8), int64(9), int64(300), 400, 400, false)
	f.Add(206, []byte("x"), []byte{}, true, int64(8), int64(0), int64(0), 0, 0, false)
	f.Fuzz(func(t *testing.T, status int, section, body []byte, seal bool, offset, records, size int64, maxRaw, maxStored int, inMemory bool) {
		if seal {
			s := runfile.Section{Offset: offset, Length: int64(len(body)), Records: records, Bytes: size, MaxRaw: maxRaw, MaxStored: maxStored}
			section, _ = s.MarshalText()
		}
		if len(body) > 1<<16 {
			return
		}
		cfg := Config{Job: testJob, Maps: 0, Transport: answer{status, string(section), body}, Scratch: scratch, Tries: 1,
			Backoff: time.Nanosecond, Secret: testSecret}
		if inMemory {
			cfg.Memory, cfg.Pool = 1<<20, mem.NewPool(1<<20)
		}
		fetch, err := New(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer fetch.Close()
		readAnswer(t, &getter{f: fetch})
	})
}

// readAnswer fetches an output and reads its records.
func readAnswer(t *testing.T, g *getter) {
	got, err := g.get(context.Background(), Location{Attempt: attempt(0, 0), Worker: "w", Address: "w:1"})
	if err != nil {
		return
	}
	defer got.release()
	s, err := got.open(0)
	if err != nil {
		return
	}
	defer s.Close()
	var records, size int64
	for s.Next() {
		records++
		size += int64(len(s.Key()) + len(s.Value()))
	}
	if s.Err() == nil && (records != got.section.Records || size != got.section.Bytes) {
		t.Fatalf("%d records of %d bytes and no error; the section announces %+v", records, size, got.section)
	}
}

// served returns the section header and the body with which a worker serves the output
// below dir.
func served(f *testing.F, dir string) (section, body []byte) {
	h := newHandler(dir)
	n := &network{handlers: map[string]http.Handler{"w:1": h}}
	path := Path(testJob, attempt(0, 0), 0)
	r, err := http.NewRequest(http.MethodGet, "http://w:1"+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set(ProofHeader, Sign(testSecret, path))
	resp, err := n.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.Fatalf("%v, %v", resp, err)
	}
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return []byte(resp.Header.Get(SectionHeader)), body
}
