package remote

import (
	"errors"
	"flag"
	"fmt"
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
		got := r.(connector)
		if got.Master != c.master || !slices.Equal(got.Files, c.files) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

// coded is an error with a code.
type coded struct{ text, code string }

// Error returns the text.
func (c coded) Error() string { return c.text }

// ErrorCode returns the code.
func (c coded) ErrorCode() string { return c.code }

// TestJobError: errors.Is finds the error of a job's program by its text or its code.
func TestJobError(t *testing.T) {
	err := fmt.Errorf("run: %w", &jobError{"job j1 (x) failed: j1_m_0 failed 4 times: row 5: unexpected EOF (code E7); end of the log of the last failed attempt: bye"})
	for _, c := range []struct {
		target error
		want   bool
	}{
		{io.ErrUnexpectedEOF, true}, {io.EOF, false}, {errors.New("row 5"), true}, {errors.New("row"), false}, {errors.New("bye"), true},
		{coded{"another text", "E7"}, true}, {coded{"unexpected EOF", "E8"}, false}, {coded{"unexpected EOF", ""}, true}, {errors.New(""), false},
	} {
		if got := errors.Is(err, c.target); got != c.want {
			t.Errorf("%#v: %v", c.target, got)
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
