package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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
	for name, x := range map[string]struct {
		missing time.Duration
		absent  int32 // answers before the file is there
		asked   int32 // at least
		ok      bool
	}{"several": {time.Minute, 2, 3, true}, "never": {100 * time.Millisecond, 1 << 30, 2, false}, "one": {0, 2, 1, false}} {
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
	}
}
