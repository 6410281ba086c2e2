package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// TestMissingFile downloads a file that a new leader does not have yet. With several masters the worker
// asks again until the file is there, or until it has waited long enough; a single master is believed.
func TestMissingFile(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("program"))
	hash := hex.EncodeToString(sum[:])
	for _, x := range []struct {
		name    string
		missing time.Duration
		absent  int32 // answers before the file is there
		asked   int32 // at least
		ok      bool
	}{
		{"several", time.Hour, 2, 3, true}, {"one", 0, 2, 1, false},
		// On a busy machine one request may take longer than a second.
		{"never", time.Second, 1 << 30, 0, false}, {"never", 5 * time.Second, 1 << 30, 0, false}, {"never", 25 * time.Second, 1 << 30, 2, false},
	} {
		name := x.name
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) <= x.absent {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, "program")
		}))
		c := newCache(t.TempDir(), s.URL, s.Client(), 1<<20)
		c.missing = x.missing
		_, done, err := c.get(t.Context(), hash)
		if err == nil {
			done()
		}
		if (err == nil) != x.ok || err != nil && !errors.Is(err, errNoFile) || asked.Load() < x.asked || name == "one" && asked.Load() != 1 {
			t.Errorf("%s: %v after %d requests", name, err, asked.Load())
		}
		s.Close()
		if name == "never" && asked.Load() > 1 {
			break // the longer times are not needed
		}
	}
}

// TestSilentDownload downloads a file from a master that is stopped within its first answer: the next try gets the
// file. The answer of a master that is slow before its first byte is awaited.
func TestSilentDownload(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("program"))
	hash := hex.EncodeToString(sum[:])
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			time.Sleep(500 * time.Millisecond)
			_, _ = io.WriteString(w, "program")
			return
		}
		w.Header().Set("Content-Length", "7")
		_, _ = io.WriteString(w, "pro")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	c := newCache(t.TempDir(), s.URL, s.Client(), 1<<20)
	c.silence = 100 * time.Millisecond
	path, done, err := c.get(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if b, err := os.ReadFile(path); string(b) != "program" || err != nil || asked.Load() < 2 {
		t.Errorf("%q, %v after %d requests", b, err, asked.Load())
	}
}
