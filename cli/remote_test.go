package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestRemoteStorage counts words in this process from HDFS to HDFS and from S3 to S3,
// on real servers, and compares with the counts of the same text in local files. The
// input has six splits. It fits into a block, because TestEndToEnd reads files of
// several blocks and parts.
func TestRemoteStorage(t *testing.T) {
	t.Run("hdfs", func(t *testing.T) {
		c := serverstest.HDFS(t)
		serverstest.Setenv(t, c.Env())
		countRemotely(t, c.URI("/e2e-"+storage.NewToken()))
	})
	t.Run("s3", func(t *testing.T) {
		s := serverstest.S3(t)
		serverstest.Setenv(t, s.Env())
		countRemotely(t, s.URI("e2e-"+storage.NewToken()))
	})
}

func countRemotely(t *testing.T, base string) {
	local := t.TempDir()
	slotwise(t, "generate", "text", "--size", "3MiB", "--seed", "1", "--output", filepath.Join(local, "in"))
	upload(t, filepath.Join(local, "in"), base+"/in")
	t.Cleanup(func() { removeAll(t, base) })
	count := func(in, out string, more ...string) map[string]string {
		slotwise(t, append([]string{"run", "wordcount", "--input", in, "--output", out, "--reduces", "3",
			"--split-size", "512KiB"}, more...)...)
		return fetch(t, out)
	}
	want := count(filepath.Join(local, "in"), filepath.Join(local, "out"))
	if len(want) != 4 {
		t.Fatalf("the local output has %d files", len(want))
	}
	for _, more := range [][]string{nil, {"--overwrite"}} {
		got := count(base+"/in", base+"/out", more...)
		if !maps.Equal(got, want) {
			t.Errorf("the counts differ:\n%s", cmp.Diff(want, got))
		}
	}
	slotwise(t, "run", "wordcount", base+"/in", "--output", base+"/rows", "--reduces", "3", "--output-format", "parquet", "--output-columns", "word,count")
	slotwise(t, "run", "--mapper", "cat", "--reducer", "cat", "--reduces", "1", "--input", base+"/rows", "--output", base+"/back")
	if got := strings.Join(slices.Collect(maps.Values(fetch(t, base+"/back"))), ""); len(got) != totalLength(want) {
		t.Errorf("the counts have %d bytes after a round trip through Parquet, want %d", len(got), totalLength(want))
	}
	args := []string{"run", "wordcount", "--input", base + "/in", "--output", base + "/out"}
	if code := execute(t.Context(), args, os.Stdout, os.Stderr); code != 2 {
		t.Errorf("an existing output: exit status %d, want 2", code)
	}
}

// totalLength returns the length of all files.
func totalLength(files map[string]string) (n int) {
	for _, text := range files {
		n += len(text)
	}
	return n
}

func removeAll(t *testing.T, uri string) {
	files, p, err := storages().Resolve(uri)
	if err == nil {
		err = files.Remove(context.Background(), p)
	}
	if err != nil {
		t.Error(err)
	}
}

func slotwise(t *testing.T, args ...string) {
	t.Helper()
	if code := execute(t.Context(), args, os.Stdout, os.Stderr); code != 0 {
		t.Fatalf("slotwise %v: exit status %d", args, code)
	}
}

// upload copies a local directory.
func upload(t *testing.T, dir, uri string) {
	t.Helper()
	files, p, err := storages().Resolve(uri)
	if err != nil {
		t.Fatal(err)
	}
	s, err := files.Stage(t.Context(), p, storage.ReplaceNothing)
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		from, err := os.Open(filepath.Join(dir, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Create(t.Context(), name.Name())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(w, from)
		if err = errors.Join(err, from.Close(), w.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// fetch returns the files of a directory.
func fetch(t *testing.T, uri string) map[string]string {
	t.Helper()
	files, dir, err := storages().Resolve(uri)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := files.List(t.Context(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, info := range infos {
		if info.Dir {
			continue
		}
		f, err := files.Open(t.Context(), info.Path)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, f.Size())
		if n, err := f.ReadAt(b, 0); n != len(b) {
			t.Fatal(err)
		}
		got[path.Base(info.Path)] = string(b)
		_ = f.Close() // was read
	}
	return got
}
