package netshuffle

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
)

// Handler serves the run files in a directory, under the names that File returns. It
// must be mounted at Pattern. Files may be removed at any time.
//
// Status codes: 200 or 206 with the bytes; 400 for a malformed path or range; 403 for
// a wrong proof or an unknown job; 404 if the output does not exist; 410 if it is
// damaged.
type Handler struct {
	// Dir is the directory of map outputs.
	Dir string
	// Job returns a job's secret, or nil if the job is unknown, and the number of partitions
	// of its map outputs.
	Job func(job string) (secret []byte, partitions int)
	// Log receives refused requests, at a limited rate, and damaged files; nil means
	// slog.Default.
	Log *slog.Logger

	refusals bounds.LogLimit
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, attempt := r.PathValue("job"), r.PathValue("map")
	part, err := strconv.Atoi(r.PathValue("part"))
	// Before the proof is computed: names that are not plain would be signed and logged as they come.
	if err != nil || part < 0 || !plain(job) || !plain(attempt) {
		http.Error(w, "no such output", http.StatusBadRequest)
		return
	}
	secret, partitions := h.Job(job)
	if !Signed(secret, Path(job, attempt, part), r.Header.Get(ProofHeader)) {
		if n, ok := h.refusals.Allow(time.Now()); ok {
			h.log().Warn("request for a map output refused: wrong proof", "job", job, "attempt", attempt, "peer", r.RemoteAddr, "unlogged", n)
		}
		http.Error(w, "wrong proof", http.StatusForbidden)
		return
	}
	// After the proof, so a stranger cannot find out which outputs exist.
	f, err := openBelow(h.Dir, job, attempt)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such output", http.StatusNotFound)
	case err != nil:
		h.log().Error("cannot open a map output", "attempt", attempt, "err", err)
		http.Error(w, "the output cannot be opened", http.StatusInternalServerError)
	default:
		defer f.Close()
		h.serve(w, r, f, part, partitions)
	}
}

// openBelow opens an output below dir. It does not follow links that leave dir.
func openBelow(dir, job, attempt string) (*os.File, error) {
	// A process of a job may write into its own directory, and a link there could point to any file of
	// the worker.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// O_NONBLOCK, because opening a pipe would otherwise wait for a writer, before its kind is known.
	f, err := root.OpenFile(job+"/"+attempt+".run", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// A process of the job may have put a pipe in its place, which would block the request.
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), errors.New("the map output is not a file"))
	}
	return f, nil
}

// serve sends a partition of an opened output, which a process of the job has written. A
// request needs the same memory whatever the file says.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, f *os.File, part, partitions int) {
	s, ok, err := findSection(f, part, partitions)
	if err != nil {
		h.log().Error("map output is damaged", "err", err)
		http.Error(w, "the output is damaged", http.StatusGone)
		return
	}
	if !ok {
		http.Error(w, "no such partition", http.StatusNotFound)
		return
	}
	from, status := int64(0), http.StatusOK
	if v := r.Header.Get("Range"); v != "" {
		if from, ok = rangeStart(v); !ok || from >= s.Length {
			http.Error(w, "only ranges bytes=N- within the partition", http.StatusBadRequest)
			return
		}
		status = http.StatusPartialContent
		w.Header().Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+
			strconv.FormatInt(s.Length-1, 10)+"/"+strconv.FormatInt(s.Length, 10))
	}
	text, err := s.MarshalText()
	if err == nil {
		_, err = f.Seek(s.Offset+from, io.SeekStart)
	}
	if err != nil {
		http.Error(w, "the output cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set(SectionHeader, string(text))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(s.Length-from, 10))
	w.WriteHeader(status)
	// Copying from an *os.File lets the kernel send the bytes (sendfile). The client
	// notices if the file is too short.
	_, _ = io.CopyN(w, f, s.Length-from)
}

// findSection reads the index of a run file, which must have the given number of partitions, and returns one
// section. It returns false if there is no such partition.
func findSection(f *os.File, part, partitions int) (found runfile.Section, ok bool, err error) {
	st, err := f.Stat()
	if err != nil {
		return found, false, err
	}
	err = runfile.Scan(f, st.Size(), f.Name(), partitions, func(p int, s runfile.Section) {
		if p == part {
			found, ok = s, true
		}
	})
	return found, ok, err
}

// openRun opens a run file of the local worker for a reduce.
func openRun(f *os.File) (*runfile.File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return runfile.Open(f, st.Size(), f.Name())
}

// rangeStart parses "bytes=N-", the only kind of range that Fetch sends.
func rangeStart(v string) (int64, bool) {
	v, ok := strings.CutPrefix(v, "bytes=")
	v, open := strings.CutSuffix(v, "-")
	n, err := strconv.ParseInt(v, 10, 64)
	return n, ok && open && err == nil && n >= 0
}

// log returns the logger to use.
func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.Default()
	}
	return h.Log
}
