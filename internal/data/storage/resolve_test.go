package storage

import (
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	r, err := (*Schemes)(nil).With("mem", Opener(func(rest string) (FS, string, error) { return Local{}, rest, nil }))
	must(t, err)
	for _, taken := range []string{"mem", "file"} {
		if _, err := r.With(taken, nil); err == nil {
			t.Errorf("scheme %s was added twice", taken)
		}
	}
	for _, c := range []struct{ uri, path, err string }{
		{"a/b", "a/b", ""},
		{"/a%20b", "/a%20b", ""},
		{"file:///a/b", "/a/b", ""},
		{"FILE:///a", "/a", ""},
		{"file://localhost/a", "/a", ""},
		{"file://a/b", "", "absolute path"},
		{"mem://host:1/x", "host:1/x", ""},
		{"mem://host/a/../x", "host/a/../x", ""},
		{"mem://host/../x", "", "leads out of the storage"},
		{"mem://host/a/../../x", "", "leads out of the storage"},
		{"MEM://bucket/./..", "", "leads out of the storage"},
		{"mem://host/..x/...", "host/..x/...", ""},
		{"../x", "../x", ""},
		{"file:///../a", "/../a", ""},
		{"dir/odd://name", "dir/odd://name", ""},
		{"1a://x", "1a://x", ""},
		{"s3://bucket/x", "", `s3://bucket/x: this program has no storage scheme "s3" (pass s3.Storage() of package mapreduce/s3 to mapreduce.Main or in Options.Features; supported: file://, mem://;`},
		{"ftp://host/x", "", `ftp://host/x: this program has no storage scheme "ftp" (supported: file://, mem://;`},
		{"", "", "empty path"},
	} {
		_, path, err := r.Resolve(c.uri)
		if path != c.path || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("Resolve(%q) = %q, %v; want %q, %q", c.uri, path, err, c.path, c.err)
		}
		if got := JoinURI(SplitURI(c.uri)); got != c.uri {
			t.Errorf("%q split and joined is %q", c.uri, got)
		}
	}
}

// The nil set opens local files, and With leaves the set that it extends as it
// was.
func TestNilSchemes(t *testing.T) {
	var none *Schemes
	if _, path, err := none.Resolve("file:///a"); path != "/a" || err != nil {
		t.Errorf("resolved to %q, %v", path, err)
	}
	some, err := none.With("mem", Opener(func(rest string) (FS, string, error) { return Local{}, rest, nil }))
	must(t, err)
	more, err := some.With("other", nil)
	must(t, err)
	if got := len(some.Names()); got != 2 || len(more.Names()) != 3 {
		t.Errorf("%d and %d schemes, want 2 and 3", got, len(more.Names()))
	}
}
