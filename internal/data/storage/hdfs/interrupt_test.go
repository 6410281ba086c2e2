package hdfs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// soon is the time within which an interrupted operation returns, cleaning up included. That takes two seconds at
// most, and an operation that is not interrupted waits for the silent server until the time-out, which the tests that
// need it set to ten minutes.
const soon = time.Minute

var errStop = errors.New("interrupted by the test")

// mutable stands before a NameNode. It passes everything on until it is muted: then it
// accepts connections and bytes and answers nothing, as a process that was stopped.
type mutable struct {
	net.Listener
	to    string
	muted chan struct{} // closed when it is muted
}

func newMutable(t *testing.T, to string) *mutable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	m := &mutable{l, to, make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go m.pass(c)
		}
	}()
	return m
}

func (m *mutable) pass(c net.Conn) {
	up, err := net.Dial("tcp", m.to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { _, _ = io.Copy(up, c) }()
	b := make([]byte, 64<<10)
	for {
		n, err := up.Read(b)
		select {
		case <-m.muted:
			return
		default:
		}
		if _, werr := c.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

// Every operation ends soon after its context does, although the NameNode stays silent: one
// that has never answered, and one that falls silent between two calls.
func TestInterrupted(t *testing.T) {
	uri := serverstest.HDFS(t).URI("/interrupted")
	must(t, func() error {
		f, p := open(t, nil, uri)
		must(t, f.Remove(t.Context(), p))
		must(t, f.MakeDir(t.Context(), p))
		w, err := f.CreateFile(t.Context(), p+"/f", false)
		must(t, err)
		return w.Commit()
	}())
	type op struct {
		name  string
		begin func(ctx context.Context, f *FS, p string) (func() error, error) // while the NameNode answers
	}
	call := func(run func(ctx context.Context, f *FS, p string) error) func(ctx context.Context, f *FS, p string) (func() error, error) {
		return func(ctx context.Context, f *FS, p string) (func() error, error) {
			return func() error { return run(ctx, f, p) }, nil
		}
	}
	ops := []op{
		{"stat", call(func(ctx context.Context, f *FS, p string) error { _, err := f.Stat(ctx, p); return err })},
		{"list", call(func(ctx context.Context, f *FS, p string) error { _, err := f.List(ctx, p); return err })},
		{"open", call(func(ctx context.Context, f *FS, p string) error { _, err := f.Open(ctx, p+"/f"); return err })},
		{"mkdir", call(func(ctx context.Context, f *FS, p string) error { return f.MakeDir(ctx, p+"/d") })},
		{"move", call(func(ctx context.Context, f *FS, p string) error { return f.Move(ctx, p+"/f", p+"/g") })},
		{"remove", call(func(ctx context.Context, f *FS, p string) error { return f.Remove(ctx, p+"/none") })},
		{"create", call(func(ctx context.Context, f *FS, p string) error {
			_, err := f.CreateFile(ctx, p+"/"+storage.NewToken(), false)
			return err
		})},
		{"write", func(ctx context.Context, f *FS, p string) (func() error, error) {
			w, err := f.CreateFile(ctx, p+"/"+storage.NewToken(), false)
			return func() error {
				_, err := w.Write(make([]byte, 1<<20))
				return errors.Join(err, w.Discard())
			}, err
		}},
		{"commit", func(ctx context.Context, f *FS, p string) (func() error, error) {
			w, err := f.CreateFile(ctx, p+"/"+storage.NewToken(), false)
			if err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			return w.Commit, err
		}},
	}
	for _, connected := range []bool{false, true} {
		for _, o := range ops {
			if !connected && (o.name == "write" || o.name == "commit") {
				continue
			}
			t.Run(o.name, func(t *testing.T) {
				t.Parallel() // each waits for its context
				shared, p := open(t, nil, uri)
				m := newMutable(t, shared.settings.addresses[0])
				f := &FS{authority: shared.authority, settings: shared.settings}
				f.settings.timeout = 10 * time.Minute
				f.settings.addresses = []string{m.Addr().String()}
				ctx, cancel := context.WithCancelCause(t.Context())
				run, err := o.begin(ctx, f, p)
				must(t, err)
				if connected {
					_, err := f.Stat(t.Context(), p)
					must(t, err)
				}
				close(m.muted)
				interrupted := make(chan time.Time, 1)
				time.AfterFunc(200*time.Millisecond, func() {
					interrupted <- time.Now()
					cancel(errStop)
				})
				err = run()
				if took := time.Since(<-interrupted); !errors.Is(err, errStop) || took > soon {
					t.Errorf("connected before: %v; it took %v: %v", connected, took, err)
				}
			})
		}
	}
}

// A pipeline whose DataNode is silent ends soon after its context does, and blames no
// DataNode: else the next files would avoid a healthy one.
func TestPipelineInterrupted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	must(t, err)
	defer l.Close()
	for _, started := range []bool{false, true} {
		for _, timeout := range []time.Duration{10 * time.Minute, 300 * time.Millisecond} { // the second is long enough for a probe
			f := &FS{}
			f.settings.timeout = timeout
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(120*time.Millisecond, func() { cancel(errStop) })
			nodes := []datanode{{addr: l.Addr().String(), info: []byte("info")}}
			began := time.Now()
			if !started {
				_, err = f.newPipeline(ctx, setup{nodes: nodes})
			} else {
				conn, derr := net.Dial("tcp", l.Addr().String())
				must(t, derr)
				p := &pipeline{ctx: ctx, fs: f, nodes: nodes, conn: conn, r: bufio.NewReaderSize(conn, maxDelimited), ended: make(chan struct{})}
				p.mu.changed = sync.NewCond(&p.mu)
				p.release = watch(ctx, p.interrupt)
				must(t, p.start(0, []packet{{seq: 1, data: []byte("a")}}))
				err = p.drain()
				p.close()
			}
			if took := time.Since(began); !errors.Is(err, errStop) || took > soon {
				t.Errorf("started %v, time-out %v: it took %v: %v", started, timeout, took, err)
			}
			if errors.As(err, new(*pipelineError)) {
				t.Errorf("started %v, time-out %v: a DataNode is blamed: %v", started, timeout, err)
			}
		}
	}
}
