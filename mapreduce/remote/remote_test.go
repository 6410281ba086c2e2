package remote

import (
	"flag"
	"io"
	"slices"
	"testing"
)

// The flags of Main name a cluster only if -master is given.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args   []string
		master string
		files  []string
	}{
		{nil, "", nil},
		{[]string{"-file", "a"}, "", nil},
		{[]string{"-master", "m:1", "-file", "a", "-file", "b"}, "http://m:1", []string{"a", "b"}},
	} {
		f := flag.NewFlagSet("test", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		connect := clusterFlags(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		r, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		if c.master == "" {
			if r != nil {
				t.Errorf("%v: a cluster without -master: %v", c.args, r)
			}
			continue
		}
		got := r.(*Cluster)
		if got.Master != c.master || !slices.Equal(got.Files, c.files) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

// Wrong files for TLS are found before anything is sent.
func TestBadFlags(t *testing.T) {
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	connect := clusterFlags(f)
	if err := f.Parse([]string{"-master", "m:1", "-tls-ca", "/no/such/file"}); err != nil {
		t.Fatal(err)
	}
	if r, err := connect(); err == nil {
		t.Errorf("got %v without an error", r)
	}
}
