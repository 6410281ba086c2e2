package mapreduce_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// variant is one way to run a job. No variant may change the output.
type variant struct {
	reduces   int
	splitSize int64
	memory    int64
	workers   int
	mapSlots  int
	compress  string
}

func (v variant) options(in []string, out, tmp string) mapreduce.Options {
	return mapreduce.Options{
		Inputs: in, Output: out, Reduces: v.reduces, SplitSize: v.splitSize, Compress: v.compress,
		Cluster: mapreduce.ClusterOptions{Workers: v.workers, MapSlots: v.mapSlots, Memory: v.memory, TempDir: tmp},
	}
}

func drawVariant(t *rapid.T) variant {
	v := variant{
		reduces:   rapid.SampledFrom([]int{1, 2, 3, 17}).Draw(t, "reduces"),
		splitSize: rapid.SampledFrom([]int64{7, 100, 4096, 1 << 20}).Draw(t, "split"),
		workers:   rapid.IntRange(1, 3).Draw(t, "workers"),
		mapSlots:  rapid.IntRange(1, 2).Draw(t, "slots"),
		compress:  rapid.SampledFrom([]string{"none", "lz4", "s2", "zstd"}).Draw(t, "codec"),
	}
	v.memory = int64(v.workers*(v.mapSlots+1)) * 4 << 20
	return v
}

// programs are small jobs whose output tells everything apart.
var programs = map[string]func() *mapreduce.Job{
	"count": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "count", Mapper: wordMapper, Aggregate: mapreduce.Sum, Reducer: mapreduce.SumText}
	},
	"count with a combiner": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "count", Mapper: wordMapper, Combiner: sumUp, Reducer: mapreduce.SumText}
	},
	"count plainly": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "count", Mapper: wordMapper, Reducer: mapreduce.SumText}
	},
	"least": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "least", Mapper: lengthMapper, Aggregate: mapreduce.Min, Reducer: leastText}
	},
	"order of values": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "values", Mapper: firstByteMapper, Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				all := []byte{}
				for v := range values {
					all = append(append(all, v...), '|')
				}
				out.Emit(key, all)
				return nil
			})
		}}
	},
	"unread values": func() *mapreduce.Job {
		return &mapreduce.Job{Name: "first", Mapper: firstByteMapper, Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				for v := range values {
					out.Emit(key, v)
					break
				}
				return nil
			})
		}}
	},
}

func wordMapper() mapreduce.Mapper {
	return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
		for w := range bytes.SplitSeq(line, []byte(" ")) {
			out.Add(w, 1)
		}
		return nil
	})
}

func lengthMapper() mapreduce.Mapper {
	return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
		out.Add(line[:min(1, len(line))], int64(len(line))-3)
		return nil
	})
}

func firstByteMapper() mapreduce.Mapper {
	return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
		out.Emit(line[:min(1, len(line))], line)
		return nil
	})
}

func leastText() mapreduce.Reducer {
	return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
		least := int64(math.MaxInt64)
		for v := range values {
			least = min(least, mapreduce.Int64(v))
		}
		out.Emit(key, strconv.AppendInt(nil, least, 10))
		return nil
	})
}

func sumUp() mapreduce.Reducer {
	return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
		var n int64
		for v := range values {
			n += mapreduce.Int64(v)
		}
		out.Add(key, n)
		return nil
	})
}

// TestEngineAgainstReference runs every program in random ways and compares
// with the naive runner. Output files are concatenated and their lines sorted:
// which reduce a key goes to is not part of the answer.
func TestEngineAgainstReference(t *testing.T) {
	dir := t.TempDir()
	names := slices.Sorted(maps.Keys(programs))
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		base := filepath.Join(dir, fmt.Sprint(n))
		build := programs[rapid.SampledFrom(names).Draw(rt, "program")]
		files, paths := drawFiles(rt, base)
		want, err := mrtest.Plain(build(), files)
		if err != nil {
			rt.Fatal(err)
		}
		v := drawVariant(rt)
		out := filepath.Join(base, "out")
		if _, err := mapreduce.Run(context.Background(), build(), v.options(paths, out, base)); err != nil {
			rt.Fatalf("%+v: %v", v, err)
		}
		if got, want := sortedLines(readParts(rt, out)), sortedLines(mrtest.Text(want)); got != want {
			rt.Fatalf("%+v:\n got %q\nwant %q", v, got, want)
		}
		checkClean(rt, base)
		os.RemoveAll(base)
	})
}

// fataler is the part of testing.TB that both kinds of tests have.
type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// drawFiles makes input files of lines with awkward bytes; the last line may
// lack its end.
func drawFiles(t *rapid.T, dir string) (map[string][]byte, []string) {
	line := rapid.StringOf(rapid.RuneFrom([]rune("aab  \tz\x00\ré")))
	files := map[string][]byte{}
	var paths []string
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "files") {
		lines := rapid.SliceOfN(line, 0, 40).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		if rapid.Bool().Draw(t, "end") && text != "" {
			text += "\n"
		}
		name := filepath.Join(dir, fmt.Sprintf("in%d", i))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files[name] = []byte(text)
		paths = append(paths, name)
	}
	return files, paths
}

func readParts(t fataler, dir string) string {
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "_SUCCESS")); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func sortedLines(s string) string {
	lines := strings.SplitAfter(s, "\n")
	sort.Strings(lines)
	return strings.Join(lines, "")
}

// checkClean fails if a run left anything but its input and output.
func checkClean(t fataler, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "out" && !strings.HasPrefix(name, "in") {
			t.Fatalf("%s was left behind", name)
		}
	}
}

// TestSpilling makes buffers overflow many times over and compares with the
// reference once more: many runs, several merge passes, skewed keys.
func TestSpilling(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewSource(1))
	var text bytes.Buffer
	for text.Len() < 14<<20 {
		if r.Intn(10) > 0 {
			text.WriteString("the same key again and again\n")
		} else {
			fmt.Fprintf(&text, "%d %x %x\n", r.Intn(10), r.Uint64(), r.Uint64())
		}
	}
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	// The three ways to count must agree, so the reference counts once, in the plain way.
	wants := map[string]string{}
	for _, c := range []struct{ name, reference string }{
		{"count plainly", "count plainly"}, {"count", "count plainly"}, {"count with a combiner", "count plainly"}, {"order of values", "order of values"},
	} {
		name := c.name
		if wants[c.reference] == "" {
			want, err := mrtest.Plain(programs[c.reference](), map[string][]byte{in: text.Bytes()})
			if err != nil {
				t.Fatal(err)
			}
			wants[c.reference] = sortedLines(mrtest.Text(want))
		}
		v := variant{reduces: 3, splitSize: 7 << 20, memory: 8 << 20, workers: 1, mapSlots: 1, compress: "lz4"}
		out := filepath.Join(dir, "out")
		o := v.options([]string{in}, out, dir)
		o.Overwrite = true
		res, err := mapreduce.Run(context.Background(), programs[name](), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.Counters["map.spills"] < 2 {
			t.Errorf("%s: %d spills; the test wants several", name, res.Counters["map.spills"])
		}
		if sortedLines(readParts(t, out)) != wants[c.reference] {
			t.Errorf("%s: wrong output", name)
		}
		checkClean(t, dir)
	}
}
