package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestOldBytes replaces a file by another one of the same size. At the request that completes the
// upload the server's files get the state that versitygw leaves if it is killed then: the
// metadata are the new file's, the bytes are the old one's, and a repeated request is confirmed.
func TestOldBytes(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	p := newProxy(t, &server.Server)
	f, target := open(t, p.env, server.Server.URI("dir/file"))
	put := func(b byte) ([]byte, error) {
		content := bytes.Repeat([]byte{b}, editPart+1)
		w, err := f.CreateFile(t.Context(), target, true)
		must(t, err)
		_, err = w.Write(content)
		must(t, err)
		return content, w.Commit()
	}
	old, err := put('o')
	must(t, err)

	p.spoil(func(r *http.Request) fault {
		uploads, _ := filepath.Glob(filepath.Join(server.Objects, ".sgwtmp", "multipart", "*", "*"))
		if !is(r, "complete") || len(uploads) != 1 {
			return none
		}
		var sums []byte
		for _, n := range []int{editPart, 1} {
			sum := md5.Sum(bytes.Repeat([]byte{'n'}, n))
			sums = append(sums, sum[:]...)
		}
		etag := filepath.Join(filepath.Dir(filepath.Dir(server.Objects)), "meta", filepath.Base(server.Objects), "dir", "file", "meta", "etag")
		if _, err := os.Stat(etag); err != nil {
			t.Error(err)
		}
		err := errors.Join(os.Rename(uploads[0], inProgress(uploads[0], sums)),
			os.WriteFile(etag, fmt.Appendf(nil, "\"%x-2\"", md5.Sum(sums)), 0o666))
		if err != nil {
			t.Error(err)
		}
		return none
	})
	if _, err := put('n'); !errors.Is(err, errNotMade) {
		t.Errorf("commit: %v", err)
	}
	p.spoil(nil)
	got, err := read(t, f, target)
	if err != nil || !bytes.Equal(got, old) {
		t.Errorf("the object has %d bytes, not the old ones; error %v", len(got), err)
	}
}

// TestSameSecond replaces a file within the second of the old one's time, so that its bytes are
// read back and found to be right.
func TestSameSecond(t *testing.T) {
	_, f, target := behindProxy(t)
	for _, b := range []byte("abc") {
		w, err := f.CreateFile(t.Context(), target, true)
		must(t, err)
		content := bytes.Repeat([]byte{b}, smallObject+1)
		_, err = w.Write(content)
		must(t, err)
		must(t, w.Commit())
		if got, err := read(t, f, target); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%c: the object has %d bytes, error %v", b, len(got), err)
		}
	}
}

// TestNewOnly commits files that must not replace another one, of one request and of several.
// Another client makes the object after the commit has found none; answers get lost; or the
// server does not know conditions.
func TestNewOnly(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	other, _ := open(t, server.Env(), server.URI("x")) // not through the proxy
	for _, size := range []int{3, smallObject, editPart + 1} {
		for what, c := range map[string]struct {
			fault fault
			other bool // another client makes the object first
			want  error
		}{
			"alone":                  {none, false, nil},
			"second":                 {none, true, fs.ErrExist},
			"answer lost":            {resetAfter, false, nil},
			"second, request lost":   {resetBefore, true, fs.ErrExist},
			"conditions unsupported": {unknown, false, nil},
		} {
			p, f, target := behindProxy(t)
			w, err := f.CreateFile(t.Context(), target, false)
			must(t, err)
			content := bytes.Repeat([]byte("n"), size)
			_, err = w.Write(content)
			must(t, err)
			name, key := split(target)
			fired := false
			p.spoil(func(r *http.Request) fault {
				if !is(r, "make") || r.Header.Get("If-None-Match") != "*" {
					return none
				}
				if !fired && c.other {
					fired = true
					_, err := other.c.Client.PutObject(context.WithoutCancel(r.Context()), name, key, strings.NewReader("other"), 5, minio.PutObjectOptions{})
					if err != nil {
						t.Error(err)
					}
					return c.fault
				}
				again := fired
				if fired = true; again && c.fault != unknown {
					return none
				}
				return c.fault
			})
			err = w.Commit()
			if !fired || !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s, %d bytes: error %v, want %v; a conditional request: %v", what, size, err, c.want, fired)
			}
			p.spoil(nil)
			if c.other {
				content = []byte("other")
			}
			if got, err := read(t, f, target); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, %d bytes: the object has %d bytes, error %v", what, size, len(got), err)
			}
			var uploads []string
			for u := range f.c.Client.ListIncompleteUploads(t.Context(), name, key, true) {
				uploads = append(uploads, u.Key)
			}
			if slices.Contains(uploads, key) {
				t.Errorf("%s, %d bytes: an upload is left", what, size)
			}
		}
	}
}

// TestFailedRead discards a file whose bytes end in the middle of a part: no upload is left.
func TestFailedRead(t *testing.T) {
	t.Parallel()
	_, f, target := behindProxy(t)
	w, err := f.CreateFile(t.Context(), target, false)
	must(t, err)
	_, err = io.Copy(w, bytes.NewReader(make([]byte, editPart+smallObject)))
	must(t, err)
	must(t, w.Discard())
	name, key := split(target)
	for u := range f.c.Client.ListIncompleteUploads(t.Context(), name, key, true) {
		t.Errorf("an upload is left: %v", u.Key)
	}
}
