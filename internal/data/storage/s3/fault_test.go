package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// behindProxy returns an FS behind a proxy, and an output path for this test.
func behindProxy(t *testing.T) (*proxy, *FS, string) {
	server := serverstest.S3(t)
	p := newProxy(t, server)
	f, dir := open(t, p.env, server.URI("fault-"+storage.NewToken()))
	t.Cleanup(func() {
		p.spoil(nil)
		must(t, f.Remove(context.Background(), dir))
	})
	return p, f, dir + "/out"
}

// job writes one file of random bytes, in several parts, and publishes it.
func job(ctx context.Context, f *FS, out string, size int) (data []byte, err error) {
	data = make([]byte, size)
	src := rand.NewChaCha8([32]byte{3})
	_, _ = src.Read(data) // never fails
	s, err := f.Stage(ctx, out, storage.ReplaceAll)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Abort(context.WithoutCancel(ctx)))
		}
	}()
	w, err := s.Create(ctx, "f")
	if err != nil {
		return nil, err
	}
	defer w.Discard()
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	if err := w.Commit(); err != nil {
		return nil, err
	}
	return data, s.Commit(ctx)
}

func read(t *testing.T, f *FS, p string) ([]byte, error) {
	t.Helper()
	file, err := f.Open(t.Context(), p)
	must(t, err)
	defer file.Close()
	b := make([]byte, file.Size())
	_, err = file.ReadAt(b, 0)
	return b, err
}

// TestTransientFaults makes every seventh request fail, in some cases after the server
// has carried it out. The job succeeds all the same.
func TestTransientFaults(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	for name, kind := range map[string]fault{
		"500": refuse, "slow down": slowDown, "reset before": resetBefore, "reset after": resetAfter,
	} {
		n := 0
		p.spoil(func(r *http.Request) fault {
			// If the answer with an upload's number is lost, the upload stays behind
			// (docs/storage.md).
			if n++; n%7 == 0 && !(kind == resetAfter && is(r, "initiate")) {
				return kind
			}
			return none
		})
		data, err := job(t.Context(), f, out, 20<<20)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := read(t, f, out+"/f")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if p.fired() < 3 {
			t.Errorf("%s: only %d requests failed", name, p.fired())
		}
		p.spoil(nil)
		if left := leftovers(t, f, out); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// TestBrokenReads: if a response body ends or stops half-way, the next request begins
// there.
func TestBrokenReads(t *testing.T) {
	p, f, out := behindProxy(t)
	f.timeout = 300 * time.Millisecond // beside parallel tests a healthy answer could take longer
	data, err := job(t.Context(), f, out, 10<<20)
	must(t, err)
	for name, kind := range map[string]fault{"truncated": truncate, "stalled": stall, "cut": resetAfter} {
		n := 0
		p.spoil(func(r *http.Request) fault {
			if !is(r, "get") {
				return none
			}
			if n++; n < 4 {
				return kind
			}
			return none
		})
		got, err := read(t, f, out+"/f")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if p.fired() < 3 {
			t.Errorf("%s: only %d requests failed", name, p.fired())
		}
	}
}

// TestPermanentFaults: a request that always fails makes the job fail with an error
// that names the URI. The old output stays, and nothing else is left.
func TestPermanentFaults(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	old, err := job(t.Context(), f, out, 1000)
	must(t, err)
	for _, what := range []string{"initiate", "part", "list"} {
		p.spoil(func(r *http.Request) fault {
			if is(r, what) {
				return deny
			}
			return none
		})
		_, err := job(t.Context(), f, out, 9<<20)
		user := fmt.Sprintf("for the access key %q", serverstest.S3(t).Access)
		if !errors.Is(err, fs.ErrPermission) || !errors.Is(err, storage.ErrDenied) || !strings.Contains(err.Error(), "s3://"+out) || !strings.Contains(err.Error(), user) {
			t.Errorf("%s: got %v", what, err)
		}
		p.spoil(nil)
		if got, err := read(t, f, out+"/f"); err != nil || !bytes.Equal(got, old) {
			t.Errorf("%s: the old output: %d bytes, %v", what, len(got), err)
		}
		if left := leftovers(t, f, out); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
}

// denyCommit stages an output of one file over an old one. The server refuses to complete the
// upload, so the commit fails after it has put the old output aside.
func denyCommit(t *testing.T, p *proxy, f *FS, out, name string) {
	t.Helper()
	s, err := f.StageShared(t.Context(), out, "t", storage.ReplaceAll)
	must(t, err)
	w, err := s.Create(t.Context(), name)
	must(t, err)
	_, err = w.Write([]byte("new"))
	must(t, err)
	must(t, w.Commit())
	p.spoil(func(r *http.Request) fault {
		if is(r, "complete") {
			return deny
		}
		return none
	})
	if err := s.Commit(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("commit: %v", err)
	}
}

// TestInterruptedCommit: uploads cannot be completed for a while. The commit fails,
// readers wait and get ErrPublishing, another job's commit gets errBusy, and the
// next try of the commit succeeds.
func TestInterruptedCommit(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	_, err := job(t.Context(), f, out, 1000)
	must(t, err)
	denyCommit(t, p, f, out, "g")
	if _, err := f.List(t.Context(), out); !errors.Is(err, ErrPublishing) {
		t.Errorf("list: %v", err)
	}
	other, err := f.Stage(t.Context(), out, storage.ReplaceAll)
	must(t, err)
	if err := other.Commit(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("another job's commit: %v", err)
	}
	must(t, other.Abort(t.Context()))
	p.spoil(nil)
	again, err := f.Reopen(t.Context(), out, "t")
	must(t, err)
	must(t, again.Commit(t.Context()))
	infos, err := f.List(t.Context(), out)
	must(t, err)
	if len(infos) != 2 || infos[1].Path != out+"/g" {
		t.Errorf("the output is %v", infos)
	}
	if left := leftovers(t, f, out); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// ownServer starts a server for this test alone, whose files the test may change.
func ownServer(t *testing.T) *serverstest.Private {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	commands, send := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error)
	dir := t.TempDir()
	go func() { ended <- serverstest.Own(ctx, "s3", dir, 0, commands, out) }()
	t.Cleanup(func() {
		send.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
	})
	var server serverstest.Private
	must(t, json.NewDecoder(answers).Decode(&server))
	return &server
}

// inProgress returns the name that versitygw gives to an upload while it completes it. sums are
// the MD5 sums of its parts.
func inProgress(upload string, sums []byte) string {
	return fmt.Sprintf("%s.%x-%d.inprogress", upload, md5.Sum(sums), len(sums)/md5.Size)
}

// TestKilledServer puts a server's files into the state that versitygw leaves if it is
// killed while it completes an upload. The server then confirms the object, which it does
// not have, and the commit fails.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	f, target := open(t, server.Env, server.Server.URI("dir/out"))
	s, err := f.StageShared(t.Context(), target, "t", storage.ReplaceNothing)
	must(t, err)
	content := []byte("new")
	w, err := s.Create(t.Context(), "part")
	must(t, err)
	_, err = w.Write(content)
	must(t, err)
	must(t, w.Commit())
	uploads, err := filepath.Glob(filepath.Join(server.Objects, ".sgwtmp", "multipart", "*", "*"))
	if err != nil || len(uploads) != 1 {
		t.Fatalf("uploads %q, %v", uploads, err)
	}
	part := md5.Sum(content)
	must(t, os.Rename(uploads[0], inProgress(uploads[0], part[:])))
	if err := s.Commit(t.Context()); !errors.Is(err, errNotMade) {
		t.Errorf("commit: %v", err)
	}
	must(t, s.Abort(t.Context()))
}

// TestOneClaim: of several commits of the same new output at once, one succeeds.
func TestOneClaim(t *testing.T) {
	t.Parallel()
	_, f, out := behindProxy(t)
	const jobs = 5
	var wg sync.WaitGroup
	errs := make([]error, jobs)
	stagings := make([]storage.Staging, jobs)
	for i := range jobs {
		s, err := f.Stage(t.Context(), out, storage.ReplaceNothing)
		must(t, err)
		w, err := s.Create(t.Context(), "f")
		must(t, err)
		_, err = w.Write([]byte{byte('0' + i)})
		must(t, err)
		must(t, w.Commit())
		stagings[i] = s
	}
	for i, s := range stagings {
		wg.Go(func() {
			if errs[i] = s.Commit(t.Context()); errs[i] != nil {
				if err := s.Abort(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("%d and %d both succeeded", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, fs.ErrExist) && !errors.Is(err, errBusy):
			t.Errorf("%d: %v", i, err)
		}
	}
	got, err := read(t, f, out+"/f")
	if err != nil || won < 0 || string(got) != string(byte('0'+won)) {
		t.Errorf("%d won, the output is %q, %v", won, got, err)
	}
	if left := leftovers(t, f, out); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestReplacedWhileRead: a read fails if the object was replaced after Open.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	_, f, out := behindProxy(t)
	_, err := job(t.Context(), f, out, 20<<20)
	must(t, err)
	file, err := f.Open(t.Context(), out+"/f")
	must(t, err)
	defer file.Close()
	_, err = file.ReadAt(make([]byte, 10), 0)
	must(t, err)
	_, err = job(t.Context(), f, out, 21<<20)
	must(t, err)
	if _, err := file.ReadAt(make([]byte, 1<<20), 18<<20); !errors.Is(err, errChanged) {
		t.Errorf("got %v", err)
	}
}

// TestUnknownHost uses an endpoint whose name never exists. The error is marked and names the
// host, the variable and the remedy.
func TestUnknownHost(t *testing.T) {
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "SLOTWISE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://s3.slotwise.invalid")
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	t.Setenv("AWS_REGION", "us-east-1")
	s := load()
	var dialer net.Dialer
	if _, err := dialer.DialContext(t.Context(), "tcp", "s3.slotwise.invalid:80"); !isNotFound(err) {
		t.Skipf("this machine's DNS cannot say that a name does not exist: %v", err)
	}
	f, p := open(t, nil, "s3://bucket/x")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := f.Stat(ctx, p)
	if !errors.Is(err, storage.ErrUnknownHost) || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("not marked: %v", err)
	}
	for _, want := range []string{`"s3.slotwise.invalid"`, "correct AWS_ENDPOINT_URL=" + s.endpoint, "DNS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

// isNotFound reports whether DNS said that a name does not exist.
func isNotFound(err error) bool {
	var lookup *net.DNSError
	return errors.As(err, &lookup) && lookup.IsNotFound
}

// TestExplainUnknown checks which failures of a dialer are marked, without any DNS.
func TestExplainUnknown(t *testing.T) {
	gone := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}
	busy := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}}
	var result error
	s := settings{endpoint: "https://s3.example", variable: "AWS_ENDPOINT_URL_S3"}
	dial := s.explainUnknown("s3.example", func(context.Context, string, string) (net.Conn, error) { return nil, result })
	for i, x := range []struct {
		host   string
		result error
		want   string // in the error; "" means that the error is returned unchanged
	}{
		{"s3.example", gone, "correct AWS_ENDPOINT_URL_S3=https://s3.example"},
		{"bucket.s3.example", gone, "correct AWS_ENDPOINT_URL_S3=https://s3.example"},
		{"proxy.example", gone, "HTTPS_PROXY"},
		{"s3.example", busy, ""},
		{"s3.example", gone, "AWS_ENDPOINT_URL_S3"}, // a busy DNS server has not found the name
		{"s3.example", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, ""},
		{"s3.example", gone, ""}, // the name was found before
		{"bucket.s3.example", gone, "AWS_ENDPOINT_URL_S3"},
		{"bucket.s3.example", nil, ""},
		{"bucket.s3.example", gone, ""},
	} {
		result = x.result
		_, err := dial(t.Context(), "tcp", x.host+":443")
		if marked := errors.Is(err, storage.ErrUnknownHost); marked != (x.want != "") || x.want != "" && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d. %s after %v: %v", i, x.host, x.result, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Setenv("SLOTWISE_S3_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	t.Setenv("AWS_REGION", "us-east-1")
	f, p := open(t, nil, "s3://bucket/x")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := f.Stat(ctx, p); err == nil || !strings.Contains(err.Error(), "s3://bucket/x") {
		t.Errorf("got %v", err)
	}
	for endpoint, want := range map[string]string{"127.0.0.1:1": "https://host:port", "ftp://x": "https://host:port", "http://x/path": "https://host:port"} {
		t.Setenv("SLOTWISE_S3_ENDPOINT", endpoint)
		if _, _, err := newDriver().Open("bucket/x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
	if _, _, err := newDriver().Open("/x"); err == nil || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("no bucket: %v", err)
	}
}

// TestSweep: when a staging has not been touched for SharedTTL, the next job finishes
// it if its commit was interrupted, and removes it otherwise.
func TestSweep(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	ctx := t.Context()
	sweep := func(at time.Time) {
		t.Helper()
		f.now = func() time.Time { return at }
		s, err := f.Stage(ctx, out, storage.ReplaceAll)
		must(t, err)
		must(t, s.Abort(ctx))
	}
	dead, err := f.StageShared(ctx, out, "decided", storage.ReplaceAll)
	must(t, err)
	w, err := dead.Create(ctx, "f")
	must(t, err)
	must(t, w.Commit())
	p.spoil(func(r *http.Request) fault {
		if is(r, "complete") {
			return deny
		}
		return none
	})
	if err := dead.Commit(ctx); !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	p.spoil(nil)
	undecided, err := f.StageShared(ctx, out, "undecided", storage.ReplaceAll)
	must(t, err)
	_, err = undecided.Create(ctx, "g")
	must(t, err)
	sweep(time.Now())
	if _, err := f.Reopen(ctx, out, "undecided"); err != nil {
		t.Errorf("a staging in use was swept: %v", err)
	}
	sweep(time.Now().Add(storage.SharedTTL + time.Hour))
	infos, err := f.List(ctx, out)
	if err != nil || len(infos) != 2 {
		t.Errorf("after the sweep: %v, %v", infos, err)
	}
	if left := leftovers(t, f, out); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := f.Reopen(ctx, out, "undecided"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reopened after the sweep: %v", err)
	}
}

// TestAmbiguousAnswers cuts the connection after the server has carried out the first PUT
// of each small object. Two jobs, the second of which replaces the output of the first,
// succeed.
func TestAmbiguousAnswers(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	for range 2 {
		cut := map[string]bool{}
		p.spoil(func(r *http.Request) fault {
			if r.Method != http.MethodPut || r.URL.RawQuery != "" || cut[r.URL.Path] {
				return none
			}
			cut[r.URL.Path] = true
			return resetAfter
		})
		s, err := f.StageShared(t.Context(), out, storage.NewToken(), storage.ReplaceAll)
		must(t, err)
		w, err := s.Create(t.Context(), "f")
		must(t, err)
		_, err = w.Write([]byte("x"))
		must(t, err)
		must(t, w.Commit())
		must(t, s.Commit(t.Context()))
		if p.fired() < 7 {
			t.Errorf("only %d answers were lost", p.fired())
		}
		p.spoil(nil)
		if got, err := read(t, f, out+"/f"); err != nil || string(got) != "x" {
			t.Errorf("read %q, %v", got, err)
		}
		if left := leftovers(t, f, out); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}
