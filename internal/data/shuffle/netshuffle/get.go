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

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
)

type (
	// unreachableError means that a worker did not answer.
	unreachableError struct{ err error }
	// badOutputError means that an output is damaged or gone.
	badOutputError struct{ err error }
	// localError is an error of this machine's disk.
	localError struct{ err error }
)

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }
func (e *badOutputError) Error() string   { return e.err.Error() }
func (e *badOutputError) Unwrap() error   { return e.err }
func (e *localError) Error() string       { return e.err.Error() }
func (e *localError) Unwrap() error       { return e.err }

// errSilent is the cause with which a request without received bytes is cancelled.
var errSilent = errors.New("the worker stopped sending")

// copyBuffer is the buffer size for writing to a scratch file, in bytes.
const copyBuffer = 256 << 10

// getter fetches outputs one at a time.
type getter struct {
	f     *Fetch
	spill *spill // its scratch file; nil until first needed
	buf   []byte
}

// body is the response to a request for a section, from some byte to its end.
type body struct {
	io.Reader
	section runfile.Section
	close   func()
}

// get fetches an output completely. If the connection breaks it resumes at the byte
// where it broke. If a checksum fails it fetches the output once more, because the
// damage may have happened on the network.
func (g *getter) get(ctx context.Context, p Location) (fetchedOutput, error) {
	if p.Worker == g.f.cfg.Worker && g.f.cfg.Dir != "" {
		return g.getLocal(p)
	}
	h, err := g.getRemote(ctx, p)
	// Once is enough: a second mismatch in a row is far more likely damage of the file than of the
	// network.
	if errors.As(err, new(*runfile.Error)) {
		h, err = g.getRemote(ctx, p)
	}
	if errors.As(err, new(*runfile.Error)) {
		err = &badOutputError{err}
	}
	if err != nil {
		err = fmt.Errorf("fetching the output of %s from %s (%s): %w", p.Attempt, p.Worker, p.Address, err)
	}
	return h, err
}

// getRemote fetches an output over the network, resuming broken connections.
func (g *getter) getRemote(ctx context.Context, p Location) (fetchedOutput, error) {
	b, err := g.request(ctx, p, 0)
	if err != nil {
		return fetchedOutput{}, err
	}
	// The destination is chosen once, and resumed requests append to it.
	t := newTransfer(g, p.Attempt, b.section)
	for resumed := 0; ; resumed++ {
		before := t.got
		err = t.take(b)
		// At once and not deferred: a transfer may be resumed many times, and each request holds a
		// connection and a timer.
		b.close()
		// A try that brought no byte is a failure of the worker, which backs off. Resuming at once
		// is for connections that break in the middle.
		if err == nil || t.got == before || resumed == g.f.cfg.Tries || ctx.Err() != nil || isFinal(err) {
			break
		}
		section := b.section
		if b, err = g.request(ctx, p, t.got); err != nil {
			break
		}
		// Bytes of two files must not be mixed: their blocks may be cut in other places although
		// the records are equal.
		if b.section != section {
			b.close()
			err = errors.New("the output changed while it was being read")
			break
		}
	}
	return t.end(err)
}

// isFinal reports whether resuming the transfer cannot help.
func isFinal(err error) bool {
	return errors.As(err, new(*runfile.Error)) || errors.As(err, new(*localError))
}

// request requests an output from a byte to its end. The caller must close the body.
func (g *getter) request(ctx context.Context, p Location, from int64) (*body, error) {
	cfg := &g.f.cfg
	// The transport bounds connecting and the header. Only this timer notices a worker that stops in
	// the middle of the body.
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
	// The proof covers the path alone, so it serves resumed requests as well.
	req.Header.Set(ProofHeader, Sign(cfg.Secret, path))
	if from > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := g.f.client.Do(req)
	if err != nil {
		// Read before done, which cancels the context with another cause.
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		done()
		return nil, &unreachableError{err}
	}
	b := &body{close: func() { _ = resp.Body.Close(); done() }}
	b.Reader = &progressReader{r: resp.Body, ctx: ctx, silence: silence, limit: cfg.Silence}
	if err := b.check(resp, from); err != nil {
		// Reading a short error response to its end keeps the connection usable.
		_, _ = io.CopyN(io.Discard, resp.Body, 4096)
		b.close()
		return nil, err
	}
	return b, nil
}

// check verifies the status and headers of a response.
func (b *body) check(resp *http.Response, from int64) error {
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	// A server that ignores the range would answer 200 with the whole section, whose bytes would be
	// stored at the wrong place.
	switch resp.StatusCode {
	case want:
	// Certain: the worker itself says so, and no other try can change it.
	case http.StatusNotFound, http.StatusGone:
		return &badOutputError{fmt.Errorf("the worker does not have the output (%s)", resp.Status)}
	default:
		return fmt.Errorf("the worker answered %q", resp.Status)
	}
	if err := b.section.UnmarshalText([]byte(resp.Header.Get(SectionHeader))); err != nil {
		return err
	}
	// A proxy that compresses or cuts would be noticed only at the end, as damage.
	if resp.ContentLength != b.section.Length-from {
		return fmt.Errorf("the worker announced %d bytes instead of %d", resp.ContentLength, b.section.Length-from)
	}
	return nil
}

// progressReader restarts the silence timer and records progress as bytes arrive.
type progressReader struct {
	r       io.Reader
	ctx     context.Context
	silence *time.Timer
	limit   time.Duration
}

func (w *progressReader) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	// A read without bytes is no sign of life.
	if n > 0 {
		w.silence.Reset(w.limit)
	}
	if err != nil && err != io.EOF && context.Cause(w.ctx) == errSilent {
		err = errSilent
	}
	return n, err
}

// getLocal verifies an output of the local worker and leaves it in its file. If too
// many files are open it copies the output instead.
func (g *getter) getLocal(p Location) (fetchedOutput, error) {
	// The name comes from the master and becomes part of a path.
	if !plain(p.Attempt) {
		return fetchedOutput{}, &badOutputError{fmt.Errorf("%q is not the name of a map attempt", p.Attempt)}
	}
	cfg := &g.f.cfg
	h, err := g.readFile(File(cfg.Dir, cfg.Job, p.Attempt))
	// A missing file and a damaged one mean the same to the job: the map must run again. An error of
	// the scratch disk is this reduce's own.
	if err != nil && !errors.As(err, new(*localError)) {
		err = &badOutputError{fmt.Errorf("the output of %s on this worker: %w", p.Attempt, err)}
	}
	return h, err
}

func (g *getter) readFile(name string) (fetchedOutput, error) {
	f, err := os.Open(name)
	if err != nil {
		return fetchedOutput{}, err
	}
	run, err := openRun(f)
	if err != nil {
		_ = f.Close() // nothing was written
		return fetchedOutput{}, err
	}
	s, ok := run.Section(g.f.cfg.Part)
	if !ok {
		// Closes f, too, which the run owns.
		run.Release()
		return fetchedOutput{}, fmt.Errorf("%s has no partition %d", name, g.f.cfg.Part)
	}
	b := io.NewSectionReader(f, s.Offset, s.Length)
	// Open files are limited, for a job may have more maps on this worker than a process has
	// descriptors.
	if s.Records == 0 || !g.f.keep.mayOpen() {
		defer run.Release()
		t := newTransfer(g, name, s)
		return t.end(t.take(b))
	}
	t := &transfer{g: g, section: s, check: runfile.NewVerifier(s, name), direct: true}
	if err := t.take(b); err != nil {
		run.Release()
		// Damaged outputs would otherwise use up the count, and all later outputs would be copied.
		g.f.keep.closed()
		return fetchedOutput{}, err
	}
	return fetchedOutput{section: s, run: run, name: name}, nil
}
