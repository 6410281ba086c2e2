package netshuffle

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Config names the map outputs to fetch and limits the resources of the Fetch.
type Config struct {
	// Job, Part and Maps name the data: partition Part (the reduce's index) of the
	// outputs of maps 0 to Maps-1 of the job.
	Job  string
	Part int
	Maps int
	// Worker is the name of the worker that runs this reduce, and Dir its directory
	// of map outputs. Outputs of that worker are opened as files. If Dir is empty all
	// outputs are fetched over the network.
	Worker, Dir string
	// Secret is the job's secret, with which requests are signed.
	Secret []byte
	// Transport sends requests; see NewTransport. The Fetch does not close its idle
	// connections.
	Transport http.RoundTripper
	// TLS is set if workers speak TLS.
	TLS bool
	// Memory bounds the bytes of fetched outputs in memory, charged to Pool in steps
	// of mem.Step. Further outputs are written to Scratch, in one file for each of
	// Parallel. 0 writes all outputs there.
	Memory  int64
	Pool    *mem.Pool
	Scratch storage.Scratch
	// Parallel is the number of outputs fetched at the same time (default 5), at
	// most PerWorker (default 2) from one worker.
	Parallel, PerWorker int
	// OpenFiles bounds the outputs of the local worker that are read from their files
	// (default 128). Further ones are copied like remote outputs.
	OpenFiles int
	// Tries is the number of consecutive failures before a report (default 4). Every
	// second failure after it causes another report.
	Tries int
	// Backoff is the pause after the first failure of a worker or an output (default
	// 250 ms). It doubles with each failure up to MaxBackoff (default 20 s) and is
	// shortened at random by up to a half.
	Backoff, MaxBackoff time.Duration
	// Silence is the time without received bytes after which a request fails
	// (default 30 s).
	Silence time.Duration
	// Patience is the time without received bytes, while outputs are waiting to be
	// fetched, after which Collect returns ErrStalled (default 8 min, below the
	// default task time-out).
	Patience time.Duration
	// Seed makes the order of workers and the back-off differ between reduces.
	Seed uint64
	// Report, unless nil, is called with outputs that cannot be fetched. Several
	// goroutines call it, and it must not block for long.
	Report func(Failure)
}

// Failure is the report of a map output that cannot be fetched.
type Failure struct {
	Map     int
	Attempt string // the map attempt that wrote the output
	Worker  string // the worker that should have it
	Err     error
	// Certain is set if the worker answered that the output is damaged or gone, so
	// that no other reduce can fetch it either.
	Certain bool
}

// ErrStalled is wrapped by Collect's error when no byte has arrived for
// Config.Patience.
var ErrStalled = errors.New("the shuffle makes no progress")

// validate sets defaults and checks the fields.
func (c *Config) validate() error {
	switch {
	case c.Maps < 0 || c.Part < 0 || !plain(c.Job):
		return fmt.Errorf("shuffle of job %q: %d maps, partition %d", c.Job, c.Maps, c.Part)
	case c.Scratch == nil || c.Transport == nil || c.Memory > 0 && c.Pool == nil:
		return errors.New("shuffle: a transport, scratch space and, for memory, a pool are needed")
	}
	c.Parallel = cmp.Or(max(0, c.Parallel), 5)
	c.PerWorker = cmp.Or(max(0, c.PerWorker), 2)
	c.OpenFiles = cmp.Or(max(0, c.OpenFiles), 128)
	c.Tries = cmp.Or(max(0, c.Tries), 4)
	c.Backoff = cmp.Or(max(0, c.Backoff), 250*time.Millisecond)
	c.MaxBackoff = max(c.Backoff, cmp.Or(max(0, c.MaxBackoff), 20*time.Second))
	c.Silence = cmp.Or(max(0, c.Silence), 30*time.Second)
	c.Patience = cmp.Or(max(0, c.Patience), 8*time.Minute)
	return nil
}

// mustReport reports whether the n-th consecutive failure causes a report.
func (c *Config) mustReport(n int) bool { return n >= c.Tries && (n-c.Tries)%2 == 0 }

// NewTransport returns a transport for fetching: keep-alive HTTP/1.1 connections that
// ignore proxy settings, with time limits for connecting and for the response header.
// A nil configuration means plain HTTP.
func NewTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true,
		ReadBufferSize:         64 << 10,
	}
}
