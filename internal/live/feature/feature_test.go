package feature_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/hdfs"
	"github.com/slotwise/slotwise/mapreduce/nodeload"
	"github.com/slotwise/slotwise/mapreduce/remote"
)

// This test binary links no codecs besides the built-in ones: a test that
// enables zstd must not be put into this package.

// A program that lacks a feature says which option to add.
func TestMissingFeature(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	compressed := filepath.Join(dir, "in.zst")
	for name, data := range map[string]string{in: "a b\n", compressed: "\x28\xb5\x2f\xfd\x00"} {
		if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for want, change := range map[string]func(*mapreduce.Options){
		"pass hdfs.Storage() of package mapreduce/hdfs":     func(o *mapreduce.Options) { o.Inputs = []string{"hdfs://nn/x"} },
		"pass s3.Storage() of package mapreduce/s3":         func(o *mapreduce.Options) { o.Output = "s3://bucket/x" },
		"no zstd compression: pass compression.Codecs()":    func(o *mapreduce.Options) { o.Compress = "zstd" },
		"no s2 compression: pass compression.Codecs()":      func(o *mapreduce.Options) { o.Compress = "s2" },
		"no zstd compression: pass compression.Codecs() of": func(o *mapreduce.Options) { o.OutputCompress = "zstd" },
		"in.zst: reading zstd data: this program has no":    func(o *mapreduce.Options) { o.Inputs = []string{compressed} },
		"pass nodeload.Meter() of package":                  func(o *mapreduce.Options) { o.Cluster.Policy = "learning-nb" },
	} {
		o := mapreduce.Options{Inputs: []string{in}, Output: filepath.Join(dir, "out"), Cluster: mapreduce.ClusterOptions{TempDir: dir}}
		change(&o)
		_, err := mapreduce.Run(t.Context(), wordCount(), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// With the feature the same option works.
func TestLoadMeter(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("a b\na\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	o := mapreduce.Options{Inputs: []string{in}, Output: filepath.Join(dir, "out"), Cluster: mapreduce.ClusterOptions{TempDir: dir, Policy: "learning-nb"},
		Features: []mapreduce.Feature{nodeload.Meter()}}
	if _, err := mapreduce.Run(t.Context(), wordCount(), o); err != nil {
		t.Error(err)
	}
}

func wordCount() *mapreduce.Job {
	return &mapreduce.Job{
		Name: "words",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				for w := range bytes.FieldsSeq(line) {
					out.Add(w, 1)
				}
				return nil
			})
		},
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
	}
}

func TestCombine(t *testing.T) {
	none, err := feature.Combine[mapreduce.Feature](nil)
	if err != nil || none.Schemes != nil || none.Cluster != nil || none.NewLoadMeter != nil {
		t.Errorf("no features give %+v, %v", none, err)
	}
	set, err := feature.Combine([]mapreduce.Feature{hdfs.Storage(), remote.Client()})
	if err != nil || set.Cluster == nil || len(set.Schemes.Names()) != 2 {
		t.Errorf("two features give %+v, %v", set, err)
	}
	for want, twice := range map[string]mapreduce.Feature{
		`scheme "hdfs" is added twice`:   hdfs.Storage(),
		"remote.Client() is given twice": remote.Client(),
	} {
		if _, err := feature.Combine([]mapreduce.Feature{twice, twice}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A storage that a program makes itself is a feature like the built-in ones.
func TestOwnStorage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte("x\ny\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	own := feature.Feature{Scheme: "own", Driver: storage.Opener(func(rest string) (storage.FS, string, error) {
		return storage.Local{}, rest, nil
	})}
	lines := 0
	err := mapreduce.ReadRecords(context.Background(), "own://"+dir+"/in", mapreduce.Text, func(_, _ []byte) error { lines++; return nil }, own)
	if lines != 2 || err != nil {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// TestForStorage: an unknown host is retried for seconds, an unavailable storage for as long as
// the user wants, and another error is final.
func TestForStorage(t *testing.T) {
	cause := errors.New("cause")
	unknown := storage.Unavailable(storage.UnknownHost(cause))
	for _, x := range []struct {
		wait time.Duration
		err  error
		want time.Duration
	}{
		{time.Hour, storage.Unavailable(cause), time.Hour},
		{time.Hour, unknown, 20 * time.Second},
		{time.Second, unknown, time.Second},
		{time.Hour, cause, -1},
	} {
		if got := (feature.Outages{Storage: x.wait}).ForStorage("it").Patience(x.err); got != x.want {
			t.Errorf("%v, up to %v: %v, want %v", x.err, x.wait, got, x.want)
		}
	}
}
