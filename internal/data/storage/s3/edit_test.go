package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestMove moves objects and directories. A move that is refused or fails leaves all as it
// was.
func TestMove(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	f, dir := open(t, server.Env(), server.URI("move-"+storage.NewToken()))
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			w, err := f.CreateFile(t.Context(), path.Join(dir, name), false)
			if err == nil {
				_, err = w.Write([]byte(name))
			}
			if err == nil {
				err = w.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(names ...string) {
		t.Helper()
		var got []string
		err := f.each(t.Context(), dir, true, func(o minio.ObjectInfo) bool {
			_, key := split(dir)
			got = append(got, strings.TrimPrefix(o.Key, key+"/"))
			return true
		})
		if slices.Sort(got); err != nil || !slices.Equal(got, names) {
			t.Errorf("objects %q, error %v, want %q", got, err, names)
		}
	}
	move := func(from, to string) error { return f.Move(t.Context(), path.Join(dir, from), path.Join(dir, to)) }

	put("d/a", "d/sub/b", "e")
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"d", "d", nil}, {"d", "d/sub/c", nil}, {"d/sub", "d/sub/sub", nil}, {"e", "d/a", fs.ErrExist}, {"d/sub", "d/a", fs.ErrExist}, {"none", "x", fs.ErrNotExist},
	} {
		if err := move(c.from, c.to); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s to %s: error %v, want %v", c.from, c.to, err, c.want)
		}
		want("d/a", "d/sub/b", "e")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := f.Move(stopped, path.Join(dir, "e"), path.Join(dir, "x")); err == nil {
		t.Error("a move without a server's answer succeeds")
	}
	want("d/a", "d/sub/b", "e")
	for _, c := range [][2]string{{"d", "new"}, {"e", "new/e"}} {
		if err := move(c[0], c[1]); err != nil {
			t.Errorf("%s to %s: %v", c[0], c[1], err)
		}
	}
	want("new/a", "new/e", "new/sub/b")
}

// TestMarkers moves and removes directories that have an object of their own, as the console
// of AWS and other tools make them: it goes along, so that those tools do not show an empty
// directory afterwards.
func TestMarkers(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	f, dir := open(t, server.Env(), server.URI("markers-"+storage.NewToken()))
	name, key := split(dir)
	s := bucket{f, name}
	for _, made := range []string{"/", "/a", "/sub/", "/sub/b"} {
		must(t, s.Put(t.Context(), key+"/d"+made, nil))
	}
	want := func(names ...string) {
		t.Helper()
		var got []string
		err := f.eachKey(t.Context(), name, key+"/", true, func(o minio.ObjectInfo) bool {
			got = append(got, strings.TrimPrefix(o.Key, key+"/"))
			return true
		})
		if slices.Sort(got); err != nil || !slices.Equal(got, names) {
			t.Errorf("objects %q, error %v, want %q", got, err, names)
		}
	}
	want("d/", "d/a", "d/sub/", "d/sub/b")
	must(t, f.Move(t.Context(), path.Join(dir, "d"), path.Join(dir, "e")))
	want("e/", "e/a", "e/sub/", "e/sub/b")
	must(t, f.Remove(t.Context(), path.Join(dir, "e")))
	want()
}

// TestUnmadeFile writes a file of several parts to a server that confirms the file and does
// not make it: the commit fails.
func TestUnmadeFile(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	p.spoil(func(r *http.Request) fault {
		if is(r, "complete") {
			return confirm
		}
		return none
	})
	w, err := f.CreateFile(t.Context(), out, false)
	must(t, err)
	_, err = w.Write(make([]byte, editPart+1))
	must(t, err)
	if err := w.Commit(); !errors.Is(err, errNotMade) || p.fired() == 0 {
		t.Errorf("commit: %v; confirmed uploads: %d", err, p.fired())
	}
}

// TestEmptyFiles writes empty files in turn, and then one that is not empty. A server that
// does not read the end of an empty body refuses the next request on the connection.
func TestEmptyFiles(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	f, dir := open(t, server.Env(), server.URI("empty-"+storage.NewToken()))
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	for i, content := range []string{"", "", "", "", "x"} {
		name := path.Join(dir, string(rune('a'+i)))
		w, err := f.CreateFile(t.Context(), name, false)
		must(t, err)
		_, err = io.WriteString(w, content)
		must(t, err)
		if err := w.Commit(); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
		if info, err := f.Stat(t.Context(), name); err != nil || info.Size != int64(len(content)) {
			t.Errorf("file %d: %v bytes, error %v, want %d bytes", i, info.Size, err, len(content))
		}
	}
}

// TestSizes writes files of sizes around the limits between one request, one part and
// several parts at once, and reads them. A discarded file leaves nothing.
func TestSizes(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	f, dir := open(t, server.Env(), server.URI("sizes-"+storage.NewToken()))
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	random := rand.NewChaCha8([32]byte{})
	for _, size := range []int{1, smallObject - 1, smallObject, smallObject + 1, editPart, 2*editParts*editPart + 7} {
		name, content := path.Join(dir, strconv.Itoa(size)), make([]byte, size)
		_, _ = random.Read(content) // never fails
		w, err := f.CreateFile(t.Context(), name, false)
		must(t, err)
		_, err = w.Write(content)
		must(t, err)
		must(t, w.Commit())
		r, err := f.Open(t.Context(), name)
		must(t, err)
		got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: got %d, error %v", size, len(got), err)
		}
		must(t, r.Close())

		w, err = f.CreateFile(t.Context(), name+"-discarded", false)
		must(t, err)
		_, err = w.Write(content)
		must(t, err)
		_ = w.Discard() // the storage says below whether it did
		if _, err := f.Stat(t.Context(), name+"-discarded"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a discarded file of %d bytes: %v", size, err)
		}
	}
}
