package storage

import (
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	r := NewRegistry()
	must(t, r.Register("mem", func(rest string) (FS, string, error) { return Local{}, rest, nil }))
	if err := r.Register("mem", nil); err == nil {
		t.Error("a scheme was registered twice")
	}
	for _, c := range []struct{ uri, path, err string }{
		{"a/b", "a/b", ""},
		{"/a%20b", "/a%20b", ""},
		{"file:///a/b", "/a/b", ""},
		{"FILE:///a", "/a", ""},
		{"file://localhost/a", "/a", ""},
		{"file://a/b", "", "absolute path"},
		{"mem://host:1/x", "host:1/x", ""},
		{"dir/odd://name", "dir/odd://name", ""},
		{"1a://x", "1a://x", ""},
		{"s3://bucket/x", "", `s3://bucket/x: unknown storage scheme "s3" (supported: file://, mem://;`},
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
