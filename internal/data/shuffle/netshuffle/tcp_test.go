package netshuffle

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/live/secure"
)

func serve(t testing.TB, dir string) (addr string) {
	mux := http.NewServeMux()
	mux.Handle(Pattern, newHandler(dir))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// serveAsWorkers serves dir over TLS like a worker and returns a transport for it.
func serveAsWorkers(t testing.TB, dir string) (addr string, fetcher *tls.Config) {
	certs := t.TempDir()
	a, err := secure.NewAuthority(certs)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Issue("worker", secure.Identity{User: "w", Role: secure.Worker}, nil, 0); err != nil {
		t.Fatal(err)
	}
	config, err := secure.ServerTLS(a.Files("worker"), secure.Worker)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := secure.ChildCredentials(a.Files("worker"))
	if err != nil {
		t.Fatal(err)
	}
	if fetcher, err = secure.ChildTLS(creds); err != nil {
		t.Fatal(err)
	}
	return serveGuarded(t, dir, config), fetcher
}

// serveGuarded serves dir like a worker, with or without TLS.
func serveGuarded(t testing.TB, dir string, config *tls.Config) (addr string) {
	guard := &secure.Guard{Public: []string{"/v1/outputs/"}, Certificates: config != nil}
	l, err := secure.Listen("127.0.0.1:0", config, guard)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(Pattern, newHandler(dir))
	srv := secure.NewServer(mux, guard)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// Outputs are fetched over TLS, and only with the job's secret.
func TestOverTLS(t *testing.T) {
	const maps = 10
	_, dir, places := oneWorker(t, maps, 200, 100)
	addr, fetcher := serveAsWorkers(t, dir)
	for i := range places {
		places[i].Address = addr
	}
	transport := NewTransport(fetcher)
	defer transport.CloseIdleConnections()
	cfg := newConfig(t, maps, transport)
	cfg.TLS = true
	f := mustStart(t, cfg)
	f.Update(false, places)
	collect(t, f, maps, 200, 100)

	var c failures
	cfg = newConfig(t, maps, transport)
	cfg.TLS, cfg.Secret, cfg.Report, cfg.Tries, cfg.Patience = true, []byte("of another job"), c.add, 1, time.Second
	stranger := mustStart(t, cfg)
	stranger.Update(false, places)
	if _, err := stranger.Collect(t.Context()); !errors.Is(err, ErrStalled) || stranger.Received() != 0 || len(c.list()) == 0 {
		t.Errorf("%v, %d bytes received, %d failures", err, stranger.Received(), len(c.list()))
	}
}

// proxy forwards connections to a server. It delays, cuts off and corrupts a limited
// number of responses.
type proxy struct {
	to    string
	rand  *rand.Rand
	mu    sync.Mutex // of rand
	fault atomic.Int64
}

func (p *proxy) draw(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n)
}

func (p *proxy) pass(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	buf := make([]byte, 4096)
	for {
		n, err := up.Read(buf)
		if p.draw(3) == 0 && p.fault.Add(-1) >= 0 {
			switch p.draw(3) {
			case 0:
				return
			case 1:
				time.Sleep(time.Duration(p.draw(30)) * time.Millisecond)
			case 2:
				if n > 0 {
					buf[p.draw(n)] ^= 8
				}
			}
		}
		if _, werr := c.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}

func (p *proxy) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c)
		}
	}()
	return l.Addr().String()
}

// TestBadLine fetches over real, unreliable connections.
func TestBadLine(t *testing.T) {
	const maps = 30
	_, dir, places := oneWorker(t, maps, 200, 100)
	p := &proxy{to: serve(t, dir), rand: rand.New(rand.NewPCG(1, 1))}
	p.fault.Store(80)
	addr := p.listen(t)
	for i := range places {
		places[i].Address = addr
	}
	transport := NewTransport(nil)
	defer transport.CloseIdleConnections()
	cfg := newConfig(t, maps, transport)
	cfg.Backoff, cfg.MaxBackoff = time.Millisecond, 20*time.Millisecond
	f := mustStart(t, cfg)
	f.Update(false, places)
	collect(t, f, maps, 200, 100)
	if p.fault.Load() > 60 {
		t.Errorf("there was hardly any fault: %d left", p.fault.Load())
	}
}

// Many reduces fetch at the same time from a few workers.
func TestManyReduces(t *testing.T) {
	const maps = 20
	_, dir, places := oneWorker(t, maps, 20, 20)
	addrs := []string{serve(t, dir), serve(t, dir)}
	for i := range places {
		places[i].Address = addrs[i%2]
	}
	transport := NewTransport(nil)
	defer transport.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 8 {
		f := mustStart(t, newConfig(t, maps, transport))
		wg.Go(func() {
			f.Update(false, places)
			collect(t, f, maps, 20, 20)
		})
	}
	wg.Wait()
}

// BenchmarkFetch merges 64 outputs of 1 MiB: from local files, fetched into memory, and
// fetched into scratch files.
func BenchmarkFetch(b *testing.B) {
	const maps, records = 64, 10_000
	_, dir, places := oneWorker(b, maps, records, 100)
	addr := serveGuarded(b, dir, nil)
	safe, fetcher := serveAsWorkers(b, dir)
	bytes := int64(0)
	for _, r := range recordsOf(0, 0, records, 100) {
		bytes += int64(maps * len(r[0]+r[1]))
	}
	b.Run("plain-files", func(b *testing.B) {
		b.SetBytes(bytes)
		for b.Loop() {
			var streams []kv.Stream
			for _, p := range places {
				f, err := openBelow(dir, testJob, p.Attempt)
				if err != nil {
					b.Fatal(err)
				}
				run, err := openRun(f)
				if err != nil {
					b.Fatal(err)
				}
				defer run.Release()
				s, err := run.Partition(0)
				if err != nil {
					b.Fatal(err)
				}
				streams = append(streams, s)
			}
			drain(b, streams, maps*records)
		}
	})
	for _, bb := range []struct {
		name   string
		memory int64
		own    string
		tls    *tls.Config
	}{{"own-files", 256 << 20, dir, nil}, {"memory", 256 << 20, "", nil}, {"scratch", 0, "", nil}, {"memory-tls", 256 << 20, "", fetcher}} {
		b.Run(bb.name, func(b *testing.B) {
			for i := range places {
				places[i].Address = addr
				if bb.tls != nil {
					places[i].Address = safe
				}
			}
			transport := NewTransport(bb.tls)
			defer transport.CloseIdleConnections()
			b.SetBytes(bytes)
			b.ReportAllocs()
			for b.Loop() {
				cfg := newConfig(b, maps, transport)
				cfg.TLS = bb.tls != nil
				cfg.Memory, cfg.Pool = bb.memory, mem.NewPool(bb.memory)
				if bb.own != "" {
					cfg.Worker, cfg.Dir = "w1", bb.own
				}
				f := mustStart(b, cfg)
				f.Update(false, places)
				streams, err := f.Collect(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				drain(b, streams, maps*records)
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSmallOutputs measures the cost of a request with outputs of a few hundred
// bytes.
func BenchmarkSmallOutputs(b *testing.B) {
	const maps = 500
	dir := b.TempDir()
	parts := make([][]record, 100)
	for p := range parts {
		parts[p] = recordsOf(0, p, 10, 20)
	}
	places := make([]Location, maps)
	addr := serve(b, dir)
	for m := range maps {
		if err := writeRun(dir, attempt(m, 0), parts, runfile.Options{}); err != nil {
			b.Fatal(err)
		}
		places[m] = Location{Map: m, Attempt: attempt(m, 0), Worker: "w1", Address: addr}
	}
	transport := NewTransport(nil)
	defer transport.CloseIdleConnections()
	for b.Loop() {
		f := mustStart(b, newConfig(b, maps, transport))
		f.Update(false, places)
		if _, err := f.Collect(b.Context()); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*maps), "µs/output")
}

func drain(b *testing.B, streams []kv.Stream, want int) {
	m := merge.New(streams)
	n := 0
	for m.Next() {
		n++
	}
	if m.Err() != nil || n != want {
		b.Fatalf("%d records of %d, %v", n, want, m.Err())
	}
	_ = m.Close()
}
