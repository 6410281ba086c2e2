package secure

import (
	"os"
	"sync"
	"time"
)

// checkEvery is the shortest interval between two checks of the files.
const checkEvery = time.Second

// watchedFile caches a value loaded from files and loads it again when a file has
// changed, so that certificates and tokens can be replaced without a restart.
type watchedFile[T any] struct {
	paths []string
	load  func() (T, error)

	mu struct {
		sync.Mutex
		value   T
		err     error     // of the last load
		checked time.Time // when the files were last checked
		stamps  []stamp
	}
}

// stamp identifies a version of a file.
type stamp struct {
	mod  time.Time
	size int64
	mode os.FileMode
}

// get returns the newest value. If the newest version cannot be loaded it returns the
// last valid value and the error. It is safe for concurrent use.
func (w *watchedFile[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Looked at when somebody needs the value and not by a timer: an idle process touches no file. Requests
	// within a second share one look.
	if now := time.Now(); w.mu.checked.IsZero() || now.Sub(w.mu.checked) >= checkEvery {
		w.mu.checked = now
		w.checkLocked()
	}
	return w.mu.value, w.mu.err
}

// checkLocked loads the value again if a file has changed.
func (w *watchedFile[T]) checkLocked() {
	stamps := make([]stamp, len(w.paths))
	for i, p := range w.paths {
		// A file that is missing for a moment, while it is replaced, has an empty stamp: the next
		// check sees a change and reads it.
		if st, err := os.Stat(p); err == nil {
			stamps[i] = stamp{st.ModTime(), st.Size(), st.Mode()}
		}
	}
	if w.mu.err == nil && w.mu.stamps != nil && equal(stamps, w.mu.stamps) {
		return // after an error, such as too many open files, the same version is tried again
	}
	// The stamps are older than the content that is read next. If the file is replaced in between, the next
	// check reads it once more.
	w.mu.stamps = stamps
	v, err := w.load()
	w.mu.err = err
	if err == nil {
		w.mu.value = v
	}
}

// equal reports whether two lists of stamps of the same files are equal.
func equal(a, b []stamp) bool {
	for i := range a {
		if a[i].size != b[i].size || a[i].mode != b[i].mode || !a[i].mod.Equal(b[i].mod) {
			return false
		}
	}
	return true
}
