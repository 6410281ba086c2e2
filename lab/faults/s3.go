package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	s3credentials "github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/slotwise/slotwise/lab/harness"
)

// s3Store is an S3 server of one run behind a proxy that injects errors. The server
// keeps each object as a file, which the checks read.
type s3Store struct {
	sync.Mutex
	server *harness.Servers
	front  *httptest.Server
	mu     struct {
		sync.Mutex
		rng    *rand.Rand
		errors bool          // answer some requests with status 500 or 503
		resets bool          // cut some connections
		delay  time.Duration // of each request
	}
}

// newS3Store starts a server with its data in dir and uploads the input. seed
// determines which requests fail.
func newS3Store(ctx context.Context, keeper, dir string, in *input, seed uint64) (*s3Store, error) {
	server, err := harness.StartServers(keeper, "s3", dir)
	if err != nil {
		return nil, err
	}
	s := &s3Store{server: server}
	s.mu.rng = rand.New(rand.NewPCG(seed, 0x53))
	target, err := url.Parse(server.Server.Endpoint)
	if err != nil {
		return s, err
	}
	// The signature covers the Host header, so the server must receive the client's.
	pass := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		// A client of a killed server sees a reset connection and no answer of a proxy.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) },
	}
	s.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, pass) }))
	return s, s.upload(ctx, target.Host, in)
}

// upload stores the input. It does not use the proxy.
func (s *s3Store) upload(ctx context.Context, host string, in *input) error {
	c, err := minio.New(host, &minio.Options{Creds: s3credentials.NewStaticV4(s.server.Server.Access, s.server.Server.Secret, ""), Region: "us-east-1"})
	if err != nil {
		return err
	}
	names, err := namesIn(in.dir)
	for _, n := range names {
		_, e := c.FPutObject(ctx, s.server.Server.Bucket, "in/"+n, filepath.Join(in.dir, n), minio.PutObjectOptions{})
		err = errors.Join(err, e)
	}
	return err
}

// serve passes a request to the server, unless a fault affects it.
func (s *s3Store) serve(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	s.mu.Lock()
	delay := s.mu.delay
	fails, cuts, choice := s.mu.errors && s.mu.rng.IntN(100) < 30, s.mu.resets && s.mu.rng.IntN(100) < 30, s.mu.rng.IntN(2)
	s.mu.Unlock()
	time.Sleep(delay)
	switch {
	case fails:
		status := []int{http.StatusInternalServerError, http.StatusServiceUnavailable}[choice]
		_, _ = io.Copy(io.Discard, r.Body) // the client may have gone
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", []string{"InternalError", "SlowDown"}[choice])
		}
	case cuts && choice == 0: // the server sees nothing
		hangUp(w)
	case cuts: // the server has carried the request out
		pass.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w)
	default:
		pass.ServeHTTP(w, r)
	}
}

// hangUp resets the connection of a request.
func hangUp(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	abort(c.(*net.TCPConn))
}

func (s *s3Store) uri(name string) string { return "s3://" + s.server.Server.Bucket + "/" + name }

func (s *s3Store) env() []string {
	return append(slices.Clone(s.server.Env), "SLOTWISE_S3_ENDPOINT="+s.front.URL) // the later value counts
}

func (s *s3Store) names(dir string) ([]string, error) {
	return namesIn(filepath.Join(s.server.Objects, dir))
}

func (s *s3Store) read(file string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.server.Objects, file))
}

// leftovers returns staged objects and the data of uploads that were never completed or
// aborted. It ignores uploads without data: a process that died before it recorded the
// upload's number leaves such an upload (docs/storage.md). It also ignores
// uploads that a killed server was completing: the server started next never aborts them.
func (s *s3Store) leftovers() ([]string, error) {
	left, err := hidden(s)
	uploads := filepath.Join(s.server.Objects, ".sgwtmp", "multipart")
	walked := filepath.WalkDir(uploads, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.Contains(path, ".inprogress/") {
			left = append(left, path)
		}
		return err
	})
	return left, errors.Join(err, ignore(walked, fs.ErrNotExist))
}

func (s *s3Store) servers() ([]string, error) {
	return []string{strings.TrimPrefix(s.front.URL, "http://")}, nil
}

func (s *s3Store) target() *sync.Mutex { return &s.Mutex }

func (s *s3Store) close() error {
	if s.front != nil {
		s.front.CloseClientConnections()
		s.front.Close()
	}
	return s.server.Stop()
}

// killS3 kills the S3 server and starts it again.
func killS3(c *cluster, _ fault) (func() error, bool, error) {
	s := c.store.(*s3Store).server
	return func() error { return s.Do("restart") }, true, s.Do("kill")
}

// freezeS3 stops the S3 server with SIGSTOP.
func freezeS3(c *cluster, _ fault) (func() error, bool, error) {
	s := c.store.(*s3Store).server
	return func() error { return s.Do("thaw") }, true, s.Do("freeze")
}

// onS3 returns an inject function that changes how the proxy treats requests.
func onS3(set func(s *s3Store, on bool)) func(*cluster, fault) (func() error, bool, error) {
	return func(c *cluster, _ fault) (func() error, bool, error) {
		s := c.store.(*s3Store)
		apply := func(on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			set(s, on)
		}
		apply(true)
		return func() error { apply(false); return nil }, true, nil
	}
}

func failS3(s *s3Store, on bool)  { s.mu.errors = on }
func resetS3(s *s3Store, on bool) { s.mu.resets = on }
func slowS3(s *s3Store, on bool) {
	s.mu.delay = 0
	if on {
		s.mu.delay = 400 * time.Millisecond
	}
}
