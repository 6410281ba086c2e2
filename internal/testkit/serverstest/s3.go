package serverstest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// s3Server is an S3 server that is a child of this process.
type s3Server struct {
	Server
	proc *process
}

// NewS3 starts an S3 server for this test alone, which listens on an address of this
// machine. It ends with the test.
func NewS3(t testing.TB, host string) *Server {
	t.Helper()
	s, err := startS3(t.Context(), t.TempDir(), host)
	skipOrFail(t, err)
	t.Cleanup(s.stop)
	return &s.Server
}

// startS3 starts an S3 server that listens on host and keeps its objects below dir.
func startS3(ctx context.Context, dir, host string) (*s3Server, error) {
	s := &s3Server{Server: Server{Access: "tester", Secret: rand.Text(), Bucket: "test"}}
	var err error
	for range 3 { // another process may take a port between its choice and its use
		var ports []int
		if ports, err = freePorts(1); err != nil {
			return nil, err
		}
		s.Endpoint = fmt.Sprintf("http://%s:%d", host, ports[0])
		if err = s.launch(ctx, dir); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// launch starts the server's process and waits until it accepts connections.
func (s *s3Server) launch(ctx context.Context, dir string) (err error) {
	env := []string{"ROOT_ACCESS_KEY=" + s.Access, "ROOT_SECRET_KEY=" + s.Secret}
	bin, err := s3Binary()
	if err != nil {
		return err
	}
	data, meta := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	for _, d := range []string{filepath.Join(data, s.Bucket), meta} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	addr := s.Endpoint[len("http://"):]
	// Metadata go to files (--sidecar), because tmpfs and some CI file systems have no extended attributes.
	// --keep-alive is off by default, and then each request would open a connection.
	s.proc, err = startProcess(dir, "s3", env, bin, "--port", addr, "--quiet", "--keep-alive",
		"posix", "--sidecar", meta, data)
	if err != nil {
		return err
	}
	// A connection is enough: the server listens after it has opened its bucket.
	err = await(ctx, "the S3 server", func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}, s.proc)
	if err != nil {
		s.proc.kill()
		return fmt.Errorf("starting the S3 server: %w", err)
	}
	return nil
}

func (s *s3Server) stop() { s.proc.kill() }
