package apps

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// webServer serves pages and every kind of trouble.
func webServer(t *testing.T) *httptest.Server {
	t.Helper()
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/page/{n}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, pageText(r.PathValue("n"))) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 5000)) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintln(w, "and so on"); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "less")
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page/moved", http.StatusFound) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	s := httptest.NewServer(mux)
	t.Cleanup(func() { close(stop); s.Close() })
	return s
}

func pageText(n string) string { return "page " + n + "\n\nsecond line of " + n }

// addresses lists existing and missing pages, the counters that this must
// lead to, and what should be got.
func addresses(base string) (list string, good []string, counters map[string]int64) {
	for i := range 20 {
		good = append(good, fmt.Sprintf("%s/page/%d", base, i))
	}
	good = append(good, base+"/moved")
	bad := []string{
		base + "/nowhere", base + "/gone", base + "/broken", base + "/long", base + "/endless", base + "/slow", base + "/short",
		"ftp://127.0.0.1/x", "://", "page", "http://127.0.0.1:1/closed",
	}
	list = "# comment\n\n" + strings.Join(append(append([]string(nil), good...), bad...), "\r\n") + "\n"
	return list, good, map[string]int64{
		"fetched": 21, "answers 404": 2, "answers 500": 1, "too large": 2, "timed out": 1, "unreachable": 2, "malformed URLs": 3,
	}
}

var fetchOptions = mapreduce.Params{"timeout": "300ms", "max-bytes": "3000"}

func TestURLGet(t *testing.T) {
	server := webServer(t)
	list, good, counters := addresses(server.URL)
	var want strings.Builder
	for _, u := range good {
		for line := range strings.SplitSeq(pageText(u[strings.LastIndex(u, "/")+1:]), "\n") {
			fmt.Fprintf(&want, "%s\t%s\n", u, line)
		}
	}
	for _, split := range []int64{0, 200} {
		got := fetchAll(t, "urlget", list, fetchOptions, split, counters)
		if got != want.String() {
			t.Errorf("splits of %d: %s", split, firstDifference(got, want.String()))
		}
	}
}

func TestURLToDisk(t *testing.T) {
	server := webServer(t)
	list, good, counters := addresses(server.URL)
	dir := filepath.Join(t.TempDir(), "new", "directory")
	params := mapreduce.Params{"dir": dir, "timeout": "300ms", "max-bytes": "3000"}
	got := fetchAll(t, "urltodisk", list, params, 300, counters)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != len(good) {
		t.Fatalf("%d files, want %d:\n%s", len(lines), len(good), got)
	}
	for i, l := range lines {
		f := strings.Split(l, "\t")
		content, err := os.ReadFile(filepath.Join(dir, f[1]))
		want := pageText(good[i][strings.LastIndex(good[i], "/")+1:])
		if err != nil || f[0] != good[i] || string(content) != want || f[2] != fmt.Sprint(len(want)) {
			t.Errorf("%s: %q, %v", l, content, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != len(good) {
		t.Errorf("%d files in the directory, want %d; %v", len(left), len(good), err)
	}
}

// fetchAll runs an app over a list of URLs, checks the counters and returns
// the output.
func fetchAll(t *testing.T, name, list string, params mapreduce.Params, split int64, counters map[string]int64) string {
	t.Helper()
	dir := t.TempDir()
	app, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	o := mapreduce.Options{Inputs: writeFiles(t, dir, map[string]string{"urls": list}), Output: filepath.Join(dir, "out"), SplitSize: split}
	done, err := mapreduce.RunApp(context.Background(), app, params, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(done[0].User); got != fmt.Sprint(counters) {
		t.Errorf("counters %v, want %v", got, counters)
	}
	return output(t, o.Output)
}

func TestFileName(t *testing.T) {
	seen := map[string]string{}
	for _, u := range []string{
		"http://h/a", "http://h/b", "http://h/a?x=1", "http://h/a?x=2", "http://h/../../etc/passwd", "http://h/..", "http://h/%2e%2e%2f%00x",
		"http://h/" + strings.Repeat("long/", 100), "http://h/naïve\x00\xff", "x", "",
	} {
		name := fileName(u)
		if old, ok := seen[name]; ok {
			t.Errorf("%q and %q share %s", u, old, name)
		}
		seen[name] = u
		if len(name) > 150 || strings.ContainsAny(name, "/\x00 %\\") || filepath.Clean(name) != name || strings.HasPrefix(name, ".") {
			t.Errorf("%q becomes %q", u, name)
		}
	}
}

func TestFetchParams(t *testing.T) {
	for _, p := range []mapreduce.Params{
		{"timeout": "x", "max-bytes": "1"}, {"timeout": "0s", "max-bytes": "1"}, {"timeout": time.Second.String(), "max-bytes": "-1"},
	} {
		if _, err := newFetcher(p); err == nil {
			t.Errorf("%v was accepted", p)
		}
	}
}
