package roots

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/storage/hdfs"
	"github.com/slotwise/slotwise/internal/data/storage/s3"
)

// tree creates directories and links. A name with an arrow is a link.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name, target, isLink := strings.Cut(n, " -> ")
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		switch {
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "DIR", dir), p)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o700)
		default:
			err = os.WriteFile(p, []byte("x"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// remoteSchemes returns the registry of HDFS and S3.
func remoteSchemes(t testing.TB) *storage.Schemes {
	t.Helper()
	s, err := (*storage.Schemes)(nil).With("hdfs", hdfs.Driver())
	if err == nil {
		s, err = s.With("s3", s3.Driver())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRules(t testing.TB, s *storage.Schemes, given, own []string) *Rules {
	t.Helper()
	r, err := New(s, given, own)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNames checks spellings of names against the roots. In the table, D means a
// directory with roots D/data and D/users/{user} and with the master's directory D/m.
func TestNames(t *testing.T) {
	d := tree(t, "data/in/a", "data/.hidden", "users/ann/", "users/bob/", "m/journal/", "m/tokens", "keys/server-key.pem", "other/f", "w/outputs/",
		"data/out -> DIR/other", "data/self -> in", "data/m -> DIR/m", "data/new -> DIR/other/new", "data/loop -> loop",
		"data/file -> DIR/m/tokens", "alias -> data", "users/bob/peek -> ../ann", "data/rel -> ../other")
	r := newRules(t, remoteSchemes(t), []string{"file://" + d + "/data", "file://" + d + "/users/{user}/", "hdfs://nn:8020/jobs", "hdfs://[::1]:9000/", "s3://bucket/pre"},
		[]string{d + "/m", d + "/keys/server-key.pem"})
	if err := r.AddOther("worker w1", d+"/w"); err != nil {
		t.Fatal(err)
	}
	const yes, no = true, false
	for _, x := range []struct {
		uri                  string
		output, input, admin bool // whether ann may use it, and an admin as output
	}{
		{"D/data/x", yes, yes, yes},
		{"file://D/data/x", yes, yes, yes},
		{"file://localhostD/data/x", yes, yes, yes},
		{"FILE://D/data/x/", yes, yes, yes},
		{"file://D/data//x/./y", yes, yes, yes},
		{"file://D/data/a b%2f..%2f..", yes, yes, yes}, // percent signs mean themselves
		{"file://D/data/%2e%2e/x", yes, yes, yes},
		{"file://D/data/*", yes, yes, yes}, // a name, not a pattern
		{"file://D/data/.hidden", yes, yes, yes},
		{"file://D/data/self/x", yes, yes, yes},
		{"file://D/alias/x", yes, yes, yes}, // leads into a root
		{"file://D/users/ann/x", yes, yes, yes},
		{"file://D/data", no, yes, yes}, // a root as output would replace all
		{"file://D/data/", no, yes, yes},
		{"file://D/users/ann", no, yes, yes},
		{"file://D/users/bob/x", no, no, yes},
		{"file://D/users", no, no, yes},
		{"file://D/database/x", no, no, yes}, // only the beginning of the name agrees
		{"file://D/data/../other", no, no, no},
		{"file://D/data/../data/x", no, no, no},
		{"file://D/data/self/../../m", no, no, no},
		{"file://D/data/out/x", no, no, yes},
		{"file://D/data/rel/x", no, no, yes},
		{"file://D/data/new", no, no, yes},
		{"file://D/data/new/x", no, no, yes},
		{"file://D/data/loop/x", yes, yes, yes}, // nothing can be opened there
		{"file://D/other/f", no, no, yes},
		{"file://D/m", no, no, no},
		{"file://D/m/", no, no, no},
		{"file://D/m/journal", no, no, no},
		{"file://D/m/journal/new/x", no, no, no},
		{"file://D", no, no, no}, // contains the master's directory
		{"file:///", no, no, no},
		{"file://D/data/m/journal", no, no, no},
		{"file://D/data/file", no, no, no},
		{"file://D/keys/server-key.pem", no, no, no},
		{"file://D/keys", no, no, no},
		{"file://D/keys/x", no, no, yes},
		{"file://D/w/outputs/j1", no, no, no},
		{"file://host/D/data/x", no, no, no},
		{"file://localhost.evilD/data/x", no, no, no},
		{"file:D/data/x", no, no, no}, // a relative path
		{"data/x", no, no, no},
		{"", no, no, no},
		{"file://D/data/x\x00y", no, no, no},
		{"ftp://D/data/x", no, no, yes}, // fails when it is opened
		{"hdfs://nn:8020/jobs/x", yes, yes, yes},
		{"HDFS://NN:8020/jobs/x/", yes, yes, yes},
		{"hdfs://nn/jobs/x", yes, yes, yes}, // the default port
		{"hdfs://nn:8020/jobs", no, yes, yes},
		{"hdfs://nn:8020/jobs/../x", no, no, yes},
		{"hdfs://nn:8020/jobs/../jobs/x", yes, yes, yes}, // the driver cleans it
		{"hdfs://nn:8020/x", no, no, yes},
		{"hdfs://nn:8021/jobs/x", no, no, yes},
		{"hdfs://evil:8020/jobs/x", no, no, yes},
		{"hdfs://nn:8020@evil/jobs/x", no, no, yes},
		{"hdfs://evil/nn:8020/jobs/x", no, no, yes},
		{"hdfs:///jobs/x", no, no, yes},
		{"hdfs://[::1]:9000/x", yes, yes, yes},
		{"hdfs://[::1]:9001/x", no, no, yes},
		{"hdfs://[::2]:9000/x", no, no, yes},
		{"hdfs://[::1/x", no, no, yes},
		{"s3://bucket/pre/x", yes, yes, yes},
		{"S3://bucket/pre/x", yes, yes, yes},
		{"s3://bucket/pre", no, yes, yes},
		{"s3://bucket/prefix/x", no, no, yes},
		{"s3://bucket/pre/../x", no, no, yes},
		{"s3://bucket/pre/../../other/pre/x", no, no, yes},
		{"s3://other/pre/x", no, no, yes},
		{"s3://", no, no, yes},
		{"s3:///bucket/pre/x", no, no, yes},
	} {
		uri := strings.ReplaceAll(x.uri, "D", d)
		if strings.HasPrefix(x.uri, "HDFS") {
			uri = x.uri
		}
		for _, c := range []struct {
			who  string
			err  error
			want bool
		}{
			{"ann's output", r.Check("ann", true).Output(uri), x.output},
			{"ann's input", r.Check("ann", true).Input(uri), x.input},
			{"an admin's output", r.Check("root", false).Output(uri), x.admin},
		} {
			if (c.err == nil) != c.want {
				t.Errorf("%s %q: %v, want allowed: %v", c.who, x.uri, c.err, c.want)
			}
		}
	}
}

// TestManyInputs names enough files of one directory that the directory is listed.
func TestManyInputs(t *testing.T) {
	names := []string{"out/secret", "data/z -> ../out/secret", "data/inside -> f1"}
	for i := range 3 * manyNames {
		names = append(names, fmt.Sprintf("data/f%d", i))
	}
	d := tree(t, names...)
	c := newRules(t, nil, []string{d + "/data"}, nil).Check("ann", true)
	for i := range 3 * manyNames {
		if err := c.Input(fmt.Sprintf("%s/data/f%d", d, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Input(d + "/data/inside"); err != nil {
		t.Error(err)
	}
	if err := c.Input(d + "/data/z"); err == nil {
		t.Error("a link out of the root is accepted after many files")
	}
	if err := c.Input(d + "/data/missing"); err != nil { // opening it fails with a better error
		t.Error(err)
	}
}

// TestErrors checks that errors name the path, the roots and the flag.
func TestErrors(t *testing.T) {
	d := tree(t, "data/", "m/")
	for _, x := range []struct {
		roots []string
		uri   string
		want  []string
	}{
		{nil, "file:///x", []string{"file:///x", "--storage-root", "only an admin"}},
		{[]string{d + "/data", "s3://b/"}, "hdfs://evil/x", []string{"hdfs://evil/x", d + "/data, s3://b/", "--storage-root"}},
		{[]string{d + "/data"}, "file://" + d + "/m/x", []string{d + "/m", "belongs to a daemon"}},
		{[]string{d + "/data"}, "file://" + d + "/data/../x", []string{`must not contain ".."`}},
	} {
		err := newRules(t, remoteSchemes(t), x.roots, []string{d + "/m"}).Check("ann", true).Output(x.uri)
		for _, want := range x.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", x.uri, err, want)
			}
		}
		if denied := !strings.Contains(x.uri, ".."); errors.Is(err, fs.ErrPermission) != denied {
			t.Errorf("%s: %v counts as a refusal: %v", x.uri, err, !denied)
		}
	}
	for _, bad := range []string{"", "relative", "file://host/x", "ftp://x/", "/a/../b"} {
		if _, err := New(remoteSchemes(t), []string{bad}, nil); err == nil {
			t.Errorf("the root %q is accepted", bad)
		}
	}
	r := newRules(t, nil, []string{d + "/data"}, nil)
	for _, bad := range []string{"/", "relative", d, d + "/data"} {
		if err := r.AddOther("worker w", bad); err == nil {
			t.Errorf("a worker in %q forbids all jobs", bad)
		}
	}
	for i := range MaxOthers {
		if err := r.AddOther("worker w", fmt.Sprintf("/w%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if r.AddOther("worker w", "/w0") != nil || r.AddOther("worker w", "/one-more") == nil {
		t.Error("the number of directories has no limit")
	}
}

// TestUserNames uses names of users that would leave the directory of a root.
func TestUserNames(t *testing.T) {
	d := tree(t, "users/ann/", "x")
	r := newRules(t, nil, []string{d + "/users/{user}"}, nil)
	for _, user := range []string{"..", ".", "", "ann/../..", "/"} {
		for _, uri := range []string{d + "/x", d + "/users/ann/x", d + "/users/x"} {
			if err := r.Check(user, true).Output(uri); err == nil {
				t.Errorf("user %q may write %s", user, uri)
			}
		}
	}
}

// FuzzStaysInside checks with the kernel's own resolution that a name which the rules
// accept lies below the root.
func FuzzStaysInside(f *testing.F) {
	for _, s := range []string{"x", "a/../b", "../x", "out/x", "in/x", "in/../../x", "new", "%2e%2e/x", "//", "./x", "loop", "up/x", "up/../data/x", "a\x00b", "in/up/data/x"} {
		f.Add(s)
	}
	d := tree(f, "data/sub/", "other/", "data/out -> ../other", "data/in -> sub", "data/new -> ../other/new", "data/loop -> loop", "data/up -> ..",
		"data/sub/up -> ../..", "m/")
	root := filepath.Join(d, "data")
	r := newRules(f, nil, []string{"file://" + root}, []string{filepath.Join(d, "m")})
	f.Fuzz(func(t *testing.T, name string) {
		for _, uri := range []string{"file://" + root + "/" + name, root + name, name} {
			if r.Check("ann", true).Output(uri) != nil {
				continue
			}
			_, p, err := (*storage.Schemes)(nil).Resolve(uri)
			if err != nil {
				t.Fatalf("%q is accepted and cannot be opened: %v", uri, err)
			}
			if at := deepest(t, p); at != root && !strings.HasPrefix(at, root+"/") {
				t.Fatalf("%q is accepted and leads to %q", uri, at)
			}
		}
	})
}

// deepest asks the kernel for the directory in which a path's first missing element
// would be created, or for the path itself if it exists.
func deepest(t *testing.T, p string) string {
	for {
		f, err := os.Open(p)
		if err == nil {
			defer f.Close()
			at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
			if err != nil {
				t.Skip("no /proc")
			}
			return at
		}
		if target, err := os.Readlink(p); err == nil {
			if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) { // a write would create the target
				if !filepath.IsAbs(target) {
					target = filepath.Dir(p) + "/" + target
				}
				p = target
				continue
			}
		}
		p = p[:max(1, strings.LastIndexByte(strings.TrimRight(p, "/"), '/'))]
	}
}

// TestKnownAuthority: only the servers of the roots are contacted. A name without a port may
// mean any port of its host, and another port is another server.
func TestKnownAuthority(t *testing.T) {
	c := &Check{given: []string{"s3://bucket/x", "hdfs://nn:8020/jobs", "hdfs://[::1]:9000/", "hdfs://plain/"}}
	for uri, want := range map[string]bool{
		"hdfs://nn:8020/x": true, "HDFS://NN:8020/x": true, "hdfs://nn/x": true, "hdfs://nn:8021/x": false, "hdfs://nm:8020/x": false,
		"hdfs://[::1]:9000": true, "hdfs://[::1]/x": true, "hdfs://[::1]:9001/x": false,
		"hdfs://plain/x": true, "hdfs://plain:8020/x": true, "hdfs:///x": false,
		"s3://other/x": true, // no server is contacted
	} {
		if got := c.knownAuthority(uri); got != want {
			t.Errorf("%s: known: %v", uri, got)
		}
	}
}
