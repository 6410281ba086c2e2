package secure

import (
	"os"
	"sync"
	"time"
)

// checkEvery is how often files are looked at for changes, at most.
const checkEvery = time.Second

// watchedFile keeps what was made out of files and makes it anew when they have
// changed, so that certificates and tokens are replaced without a restart.
type watchedFile[T any] struct {
	paths []string
	load  func() (T, error)

	mu struct {
		sync.Mutex
		value  T
		err    error // of the last load
		looked time.Time
		stamps []stamp
	}
}

// stamp tells versions of a file apart.
type stamp struct {
	mod  time.Time
	size int64
}

// get returns the newest value, or the last good one with why the newest is
// none. It is safe for concurrent use.
func (w *watchedFile[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.mu.looked.IsZero() || now.Sub(w.mu.looked) >= checkEvery {
		w.mu.looked = now
		w.lookLocked()
	}
	return w.mu.value, w.mu.err
}

func (w *watchedFile[T]) lookLocked() {
	stamps := make([]stamp, len(w.paths))
	for i, p := range w.paths {
		if st, err := os.Stat(p); err == nil {
			stamps[i] = stamp{st.ModTime(), st.Size()}
		}
	}
	if w.mu.stamps != nil && equal(stamps, w.mu.stamps) {
		return
	}
	w.mu.stamps = stamps
	v, err := w.load()
	w.mu.err = err
	if err == nil {
		w.mu.value = v
	}
}

// equal compares times as moments.
func equal(a, b []stamp) bool {
	for i := range a {
		if a[i].size != b[i].size || !a[i].mod.Equal(b[i].mod) {
			return false
		}
	}
	return true
}
