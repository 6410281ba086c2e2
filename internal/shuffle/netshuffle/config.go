package netshuffle

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/storage"
)

// Config says what is fetched and within which limits.
type Config struct {
	// Job, Part and Maps say which partition of which outputs: Part is the
	// reduce's index, and there are outputs of the maps 0 to Maps-1.
	Job  string
	Part int
	Maps int
	// Worker is the name of the worker that we run on, and Dir its directory
	// of outputs: what lies there is opened as files. Empty: nothing does.
	Worker, Dir string
	// Secret is the job's secret.
	Secret []byte
	// Transport carries requests; see NewTransport. The Fetch does not close
	// its idle connections.
	Transport http.RoundTripper
	// TLS says that workers speak TLS.
	TLS bool
	// Memory is how many bytes fetched outputs may take in memory, charged to
	// Pool in steps of mem.Step as they come. What does not fit goes to Scratch, one file for each
	// of Parallel. 0 sends all there.
	Memory  int64
	Pool    *mem.Pool
	Scratch storage.Scratch
	// Parallel is how many outputs are fetched at once (default 5), of which
	// at most PerWorker (default 2) from one worker.
	Parallel, PerWorker int
	// OpenFiles is how many outputs of the own worker are left in their files
	// (default 128). Further ones are copied as if fetched.
	OpenFiles int
	// Tries is how many failures in a row make a report (default 4). Every
	// second one after that makes another.
	Tries int
	// Backoff is how long a worker or output is left alone after the first
	// failure (default 250 ms). The time doubles with each failure up to
	// MaxBackoff (default 20 s) and is shortened at random by up to a half.
	Backoff, MaxBackoff time.Duration
	// Silence is how long a request may receive nothing before it counts as
	// failed (default 30 s).
	Silence time.Duration
	// Patience is how long there may be outputs to fetch and nothing be
	// received before all is given up with ErrStalled (default 8 min, less
	// than the usual limit on silent tasks).
	Patience time.Duration
	// Seed varies the order of workers and the back-off between reduces.
	Seed uint64
	// Report is told of outputs that cannot be fetched. It is called from
	// several goroutines and must not block for long. Nil: nobody is.
	Report func(Failure)
}

// Failure is a complaint about a map's output.
type Failure struct {
	Map     int
	Attempt string // whose output it is
	Worker  string // where it was looked for
	Err     error
	// Certain says that the worker answered and the output is damaged or
	// gone: others would fare no better.
	Certain bool
}

// ErrStalled is in what Collect returns when nothing has come for
// Config.Patience.
var ErrStalled = errors.New("the shuffle makes no progress")

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

// complains reports whether the n-th failure in a row makes a report.
func (c *Config) complains(n int) bool { return n >= c.Tries && (n-c.Tries)%2 == 0 }

// NewTransport returns a transport that suits fetching: kept-alive HTTP/1.1
// connections, past any proxy of the environment, with limits on the time it
// takes to connect and to get an answer. A nil configuration is for plain
// HTTP.
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
