package apps

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

// teraRecords makes records with few enough keys that some are equal.
func teraRecords(n int, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	records := make([][]byte, n)
	for i := range records {
		key := make([]byte, teraKey)
		for j := range key {
			key[j] = byte(rng.IntN(256))
		}
		if i%5 == 0 {
			copy(key, "same same ")
		}
		records[i] = fmt.Appendf(key, "  %032X  %052d\r\n", i, i*i)
	}
	return records
}

func joinRecords(records [][]byte) string { return string(bytes.Join(records, nil)) }

func verdict(records [][]byte, misordered int) string {
	sum := uint64(0)
	for _, r := range records {
		sum += uint64(crc32.ChecksumIEEE(r))
	}
	return fmt.Sprintf("records\t%d\nchecksum\t%x\nmisordered\t%d\n", len(records), sum, misordered)
}

func TestTeraSort(t *testing.T) {
	records := teraRecords(2000, 1)
	if len(records[0]) != teraRecord {
		t.Fatalf("records of %d bytes", len(records[0]))
	}
	files := map[string]string{"a": joinRecords(records[:700]), "b": "", "c": joinRecords(records[700:])}
	slices.SortStableFunc(records, func(a, b []byte) int { return bytes.Compare(a[:teraKey], b[:teraKey]) })

	dir := t.TempDir()
	in := writeFiles(t, dir, files)
	for i, v := range (appTest{small: 20_000}).variants() {
		o := v.options
		o.Inputs, o.Output = in, filepath.Join(dir, fmt.Sprint("sorted", i))
		runVariant(t, appTest{app: "terasort"}, v, o)
		if output(t, o.Output) != joinRecords(records) {
			t.Errorf("%s: not the sorted records", v.name)
		}
		check := mapreduce.Options{Inputs: []string{o.Output}, Output: filepath.Join(dir, fmt.Sprint("checked", i)), SplitSize: 9000}
		app, _ := Lookup("teravalidate")
		if _, err := mapreduce.RunApp(context.Background(), app, nil, check); err != nil {
			t.Fatal(err)
		}
		if got, want := output(t, check.Output), verdict(records, 0); got != want {
			t.Errorf("%s: teravalidate says %s, want %s", v.name, got, want)
		}
	}
}

func TestTeraValidate(t *testing.T) {
	records := teraRecords(600, 2)
	slices.SortStableFunc(records, func(a, b []byte) int { return bytes.Compare(a[:teraKey], b[:teraKey]) })
	sorted := map[string]string{"a": joinRecords(records[:200]), "b": joinRecords(records[200:])}
	appTest{app: "teravalidate", files: sorted, want: verdict(records, 0), small: 5000}.run(t)
	appTest{app: "teravalidate", files: map[string]string{"a": ""}, want: verdict(nil, 0)}.run(t)

	// Files in the wrong order, and two records swapped within one.
	records[50], records[120] = records[120], records[50]
	wrong := map[string]string{"a": joinRecords(records[200:]), "b": joinRecords(records[:200])}
	in := append(slices.Clone(records[200:]), records[:200]...)
	misordered := 0
	for i := range in[1:] {
		if bytes.Compare(in[i+1][:teraKey], in[i][:teraKey]) < 0 {
			misordered++
		}
	}
	if misordered != 3 {
		t.Fatalf("the test's input has %d misorders", misordered)
	}
	dir := t.TempDir()
	paths := writeFiles(t, dir, wrong)
	for i, split := range []int64{0, 1000, 5000} {
		o := mapreduce.Options{Inputs: paths, Output: filepath.Join(dir, fmt.Sprint("out", i)), SplitSize: split, Reduces: 1 + i}
		app, _ := Lookup("teravalidate")
		if _, err := mapreduce.RunApp(context.Background(), app, nil, o); err != nil {
			t.Fatal(err)
		}
		got := output(t, o.Output)
		if want := verdict(in, misordered); !strings.HasPrefix(got, want) || !strings.Contains(got, "misorder\t") {
			t.Errorf("splits of %d: %s\nwant %s", split, got, want)
		}
	}
}
