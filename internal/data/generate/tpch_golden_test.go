package generate

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"testing"
)

// TestTablesStay pins the bytes of each table and of tracker logs: a seed means
// the same data on every machine and in every later version, with any number
// of cores.
func TestTablesStay(t *testing.T) {
	want := map[string]string{
		"customer":     "24216 bytes, 8a562b6656770b38",
		"lineitem":     "726578 bytes, 6056399aec32023a",
		"nation":       "2119 bytes, 210608b9cea8e5b9",
		"orders":       "162542 bytes, af374902c34a673c",
		"part":         "23344 bytes, 02eeaa0edf520bb0",
		"partsupp":     "114385 bytes, e867f34d7379a93f",
		"region":       "476 bytes, a25f855ef4ac8cad",
		"supplier":     "1359 bytes, 720932ce87e8c4fc",
		"tracker logs": "1887889 bytes, 2ab0af3f14a528e6",
	}
	got := map[string]string{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 3} {
		runtime.GOMAXPROCS(cores)
		d := newTPCHData(0.001, 42)
		for i := range tpchTables {
			var b bytes.Buffer
			if err := d.write(context.Background(), &tpchTables[i], &b); err != nil {
				t.Fatal(err)
			}
			got[tpchTables[i].name] = digest(b.Bytes())
		}
		var b bytes.Buffer
		if err := newTrackerWorld(5, 200, 42).write(context.Background(), &b, 100, 1<<40); err != nil {
			t.Fatal(err)
		}
		got["tracker logs"] = digest(b.Bytes())
		for name, sum := range got {
			if sum != want[name] {
				t.Errorf("%s on %d cores: %s, want %s", name, cores, sum, want[name])
			}
		}
	}
}

// digest is a checksum with the length.
func digest(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%d bytes, %016x", len(b), h.Sum64())
}
