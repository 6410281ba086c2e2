package netshuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/engine/runfile"
)

type (
	// unreachable is the failure to get any answer from a worker.
	unreachable struct{ err error }
	// useless is the failure of an output that is damaged or gone.
	useless struct{ err error }
	// localError is a failure of our own disk.
	localError struct{ err error }
)

func (e *unreachable) Error() string { return e.err.Error() }
func (e *unreachable) Unwrap() error { return e.err }
func (e *useless) Error() string     { return e.err.Error() }
func (e *useless) Unwrap() error     { return e.err }
func (e *localError) Error() string  { return e.err.Error() }
func (e *localError) Unwrap() error  { return e.err }

// errSilent is why a request is given up that receives nothing.
var errSilent = errors.New("the worker sends nothing")

// copyBuffer is how many bytes are moved at once to a scratch file.
const copyBuffer = 256 << 10

// getter fetches outputs one at a time.
type getter struct {
	f     *Fetch
	spill *spill // its scratch file, made when first needed
	buf   []byte
}

// body is an output from some byte on.
type body struct {
	io.Reader
	section runfile.Section
	close   func()
}

// get fetches an output whole. A connection that breaks is taken up where it
// broke, and damage is asked for once more, since it may have come on the way.
func (g *getter) get(ctx context.Context, p Place) (holding, error) {
	if p.Worker == g.f.cfg.Worker && g.f.cfg.Dir != "" {
		return g.getFile(p)
	}
	h, err := g.getOver(ctx, p)
	if errors.As(err, new(*runfile.Error)) {
		h, err = g.getOver(ctx, p)
	}
	if errors.As(err, new(*runfile.Error)) {
		err = &useless{err}
	}
	if err != nil {
		err = fmt.Errorf("fetching the output of %s from %s (%s): %w", p.Attempt, p.Worker, p.Address, err)
	}
	return h, err
}

// getOver is one pass over the network.
func (g *getter) getOver(ctx context.Context, p Place) (holding, error) {
	b, err := g.request(ctx, p, 0)
	if err != nil {
		return holding{}, err
	}
	t := newTransfer(g, p.Attempt, b.section)
	for resumed := 0; ; resumed++ {
		before := t.got
		err = t.take(b)
		b.close()
		if err == nil || t.got == before || resumed == g.f.cfg.Tries || ctx.Err() != nil || final(err) {
			break
		}
		section := b.section
		if b, err = g.request(ctx, p, t.got); err != nil {
			break
		}
		if b.section != section {
			b.close()
			err = errors.New("the output has changed while it was read")
			break
		}
	}
	return t.end(err)
}

// final tells a failure that reading on would not mend.
func final(err error) bool {
	return errors.As(err, new(*runfile.Error)) || errors.As(err, new(*localError))
}

// request asks for an output from a byte on. The body must be closed.
func (g *getter) request(ctx context.Context, p Place, from int64) (*body, error) {
	cfg := &g.f.cfg
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(cfg.Silence, func() { cancel(errSilent) })
	path := Path(cfg.Job, p.Attempt, cfg.Part)
	scheme := "http://"
	if cfg.TLS {
		scheme = "https://"
	}
	done := func() { silence.Stop(); cancel(nil) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+p.Address+path, nil)
	if err != nil {
		done()
		return nil, err
	}
	req.Header.Set(ProofHeader, Sign(cfg.Secret, path))
	if from > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := g.f.client.Do(req)
	if err != nil {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		done()
		return nil, &unreachable{err}
	}
	b := &body{close: func() { _ = resp.Body.Close(); done() }}
	b.Reader = &watched{r: resp.Body, ctx: ctx, silence: silence, limit: cfg.Silence}
	if err := b.check(resp, from); err != nil {
		// A short refusal is read to its end, so that the connection lives on.
		_, _ = io.CopyN(io.Discard, resp.Body, 4096)
		b.close()
		return nil, err
	}
	return b, nil
}

// check looks at an answer's head.
func (b *body) check(resp *http.Response, from int64) error {
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	switch resp.StatusCode {
	case want:
	case http.StatusNotFound, http.StatusGone:
		return &useless{fmt.Errorf("the worker does not have it (%s)", resp.Status)}
	default:
		return fmt.Errorf("the worker answers %q", resp.Status)
	}
	if err := b.section.UnmarshalText([]byte(resp.Header.Get(SectionHeader))); err != nil {
		return err
	}
	if resp.ContentLength != b.section.Length-from {
		return fmt.Errorf("the worker announces %d bytes of %d", resp.ContentLength, b.section.Length-from)
	}
	return nil
}

// watched puts off the end of a silent request as bytes come.
type watched struct {
	r       io.Reader
	ctx     context.Context
	silence *time.Timer
	limit   time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.silence.Reset(w.limit)
	}
	if err != nil && err != io.EOF && context.Cause(w.ctx) == errSilent {
		err = errSilent
	}
	return n, err
}

// getFile takes an output of the own worker: it is checked and stays in its
// file, or is copied if too many files are open.
func (g *getter) getFile(p Place) (holding, error) {
	if !plain(p.Attempt) {
		return holding{}, &useless{fmt.Errorf("no output has the name %q", p.Attempt)}
	}
	cfg := &g.f.cfg
	h, err := g.readFile(File(cfg.Dir, cfg.Job, p.Attempt))
	if err != nil && !errors.As(err, new(*localError)) {
		err = &useless{fmt.Errorf("the output of %s on this worker: %w", p.Attempt, err)}
	}
	return h, err
}

func (g *getter) readFile(name string) (holding, error) {
	f, err := os.Open(name)
	if err != nil {
		return holding{}, err
	}
	run, err := openRun(f)
	if err != nil {
		_ = f.Close() // only read
		return holding{}, err
	}
	s, ok := run.Section(g.f.cfg.Part)
	if !ok {
		run.Release()
		return holding{}, fmt.Errorf("%s has no partition %d", name, g.f.cfg.Part)
	}
	b := io.NewSectionReader(f, s.Offset, s.Length)
	if s.Records == 0 || !g.f.keep.mayOpen() {
		defer run.Release()
		t := newTransfer(g, name, s)
		return t.end(t.take(b))
	}
	t := &transfer{g: g, section: s, check: runfile.NewVerifier(s, name), direct: true}
	if err := t.take(b); err != nil {
		run.Release()
		return holding{}, err
	}
	return holding{section: s, run: run, name: name}, nil
}
