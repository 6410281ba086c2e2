package netshuffle

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
)

// FuzzHandler requests random paths with valid proofs. The handler must serve only
// outputs.
func FuzzHandler(f *testing.F) {
	top := f.TempDir()
	dir := filepath.Join(top, "outputs")
	for _, d := range []string{dir, top} {
		if err := writeRun(d, attempt(0, 0), [][]record{recordsOf(0, 0, 9, 9)}, runfile.Options{}); err != nil {
			f.Fatal(err)
		}
	}
	h := newHandler(dir)
	h.Job = func(string) ([]byte, int) { return testSecret, 0 }
	mux := http.NewServeMux()
	mux.Handle(Pattern, h)
	f.Add(testJob, attempt(0, 0), "0")
	f.Add("..", testJob+"/"+attempt(0, 0), "0")
	f.Add("../"+testJob, attempt(0, 0), "-1")
	f.Fuzz(func(t *testing.T, job, attempt, part string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: "/v1/outputs/" + job + "/" + attempt + "/" + part,
			RawPath: "/v1/outputs/" + url.PathEscape(job) + "/" + url.PathEscape(attempt) + "/" + url.PathEscape(part)}
		if n, err := strconv.Atoi(part); err == nil {
			r.Header.Set(ProofHeader, Sign(testSecret, Path(job, attempt, n)))
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code == http.StatusOK && (job != testJob || attempt != "j1_m_0_0") {
			t.Errorf("%q %q %q is served", job, attempt, part)
		}
	})
}

func TestHandlerRefuses(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "outputs")
	if err := writeRun(dir, attempt(0, 0), [][]record{recordsOf(0, 0, 9, 9), nil}, runfile.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := writeRun(top, "outside", [][]record{recordsOf(0, 0, 9, 9)}, runfile.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../"+testJob+"/outside.run", File(dir, testJob, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(File(dir, testJob, "rubbish"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(Pattern, newHandler(dir))
	for _, tt := range []struct {
		path, proof, ranges string
		status              int
	}{
		{path: Path(testJob, attempt(0, 0), 0), status: 200},
		{path: Path(testJob, attempt(0, 0), 1), status: 200},
		{path: Path(testJob, attempt(0, 0), 0), ranges: "bytes=5-", status: 206},
		{path: Path(testJob, attempt(0, 0), 0), ranges: "bytes=5-9", status: 400},
		{path: Path(testJob, attempt(0, 0), 0), ranges: "bytes=99999-", status: 400},
		{path: Path(testJob, attempt(0, 0), 0), ranges: "bytes=-5", status: 400},
		{path: Path(testJob, attempt(0, 0), 2), status: 404},
		{path: Path(testJob, attempt(0, 0), 0), proof: "none", status: 403},
		{path: Path(testJob, attempt(0, 0), 0), proof: Sign(testSecret, Path(testJob, attempt(0, 0), 1)), status: 403},
		{path: Path(testJob, attempt(0, 0), 0), proof: Sign(nil, Path(testJob, attempt(0, 0), 0)), status: 403},
		{path: Path("j2", attempt(0, 0), 0), proof: Sign(nil, Path("j2", attempt(0, 0), 0)), status: 403},
		{path: Path(testJob, attempt(7, 0), 0), status: 404},
		{path: Path(testJob, "rubbish", 0), status: 410},
		{path: Path(testJob, "link", 0), status: 500},
		{path: Path(testJob, "..%2f..%2fj1%2foutside", 0), status: 400},
		{path: Path("..", testJob+"%2foutside", 0), status: 307}, // to the cleaned path, which leads nowhere
		{path: Path(testJob, "a%00b", 0), status: 400},
		{path: "/v1/outputs/j1/x/-1", status: 400},
		{path: "/v1/outputs/j1/x/99999999999999999999", status: 400},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		switch tt.proof {
		case "none":
		case "":
			r.Header.Set(ProofHeader, Sign(testSecret, tt.path))
		default:
			r.Header.Set(ProofHeader, tt.proof)
		}
		if tt.ranges != "" {
			r.Header.Set("Range", tt.ranges)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s %s: %d, want %d: %s", tt.path, tt.ranges, w.Code, tt.status, w.Body)
		}
	}
}

// Any client can send requests with wrong proofs. They must not fill the log.
func TestRefusalsAreLoggedAtALimitedRate(t *testing.T) {
	var log bytes.Buffer
	mux := http.NewServeMux()
	mux.Handle(Pattern, &Handler{
		Dir: t.TempDir(), Job: func(string) ([]byte, int) { return []byte("secret"), 1 }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const requests = 1000
	for range requests {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path("j1", "j1_m_0_0", 0), nil))
		if w.Code != http.StatusForbidden {
			t.Fatalf("status %d without a proof", w.Code)
		}
	}
	if n := strings.Count(log.String(), "wrong proof"); n == 0 || n > requests/2 {
		t.Errorf("%d of %d refusals logged", n, requests)
	}
}

// TestHandlerBombs requests partitions of files that a process of the job has made up. The
// handler refuses them, and a request takes the same memory for each file.
func TestHandlerBombs(t *testing.T) {
	dir := t.TempDir()
	const partitions = 2
	if err := writeRun(dir, attempt(0, 0), [][]record{recordsOf(0, 0, 9, 9), nil}, runfile.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := writeRun(dir, attempt(1, 0), make([][]record, 500_000), runfile.Options{}); err != nil {
		t.Fatal(err)
	}
	bomb := File(dir, testJob, attempt(2, 0))
	if err := errors.Join(os.WriteFile(bomb, []byte("slotrun\x01"), 0o600), os.Truncate(bomb, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(File(dir, testJob, attempt(3, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHandler(dir)
	h.Job = func(string) ([]byte, int) { return testSecret, partitions }
	mux := http.NewServeMux()
	mux.Handle(Pattern, h)
	for name, want := range map[string]int{
		attempt(0, 0): http.StatusOK, attempt(1, 0): http.StatusGone, attempt(2, 0): http.StatusGone, attempt(3, 0): http.StatusInternalServerError,
	} {
		path := Path(testJob, name, 0)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set(ProofHeader, Sign(testSecret, path))
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mux.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; w.Code != want || used > 256<<10 {
			t.Errorf("%s: status %d, want %d; %d bytes of memory", name, w.Code, want, used)
		}
	}
}
