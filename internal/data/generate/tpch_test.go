package generate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hundredth is all tables at scale factor 0.01, split into columns.
var hundredth = sync.OnceValues(func() (map[string][][]string, error) {
	d := newTPCHData(0.01, 1)
	all := map[string][][]string{}
	for i := range tpchTables {
		var b bytes.Buffer
		if err := d.write(context.Background(), &tpchTables[i], &b); err != nil {
			return nil, err
		}
		var rows [][]string
		for line := range strings.Lines(b.String()) {
			row, ok := strings.CutSuffix(line, "|\n")
			if !ok {
				return nil, fmt.Errorf("%s: line %q does not end with |", tpchTables[i].name, line)
			}
			rows = append(rows, strings.Split(row, "|"))
		}
		all[tpchTables[i].name] = rows
	}
	return all, nil
})

func tables(t *testing.T) map[string][][]string {
	t.Helper()
	all, err := hundredth()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTPCHShape(t *testing.T) {
	all := tables(t)
	for _, c := range []struct {
		table         string
		rows, columns int
	}{
		{"region", 5, 3}, {"nation", 25, 4}, {"supplier", 100, 7}, {"part", 2000, 9},
		{"partsupp", 8000, 5}, {"customer", 1500, 8}, {"orders", 15000, 9}, {"lineitem", -1, 16},
	} {
		rows := all[c.table]
		if c.rows >= 0 && len(rows) != c.rows {
			t.Errorf("%s has %d rows, want %d", c.table, len(rows), c.rows)
		}
		for _, row := range rows {
			if len(row) != c.columns {
				t.Fatalf("%s: row %q has %d columns, want %d", c.table, row, len(row), c.columns)
			}
		}
	}
	// One to seven items, four on average: 60,000 ± five standard deviations.
	if n := len(all["lineitem"]); n < 58_700 || n > 61_300 {
		t.Errorf("%d line items for 15,000 orders", n)
	}
}

func TestTPCHKeys(t *testing.T) {
	all := tables(t)
	suppliers, parts, customers := keys(t, all["supplier"]), keys(t, all["part"]), keys(t, all["customer"])
	orders := keys(t, all["orders"])
	supplies := map[[2]string]bool{}
	for _, row := range all["partsupp"] {
		pair := [2]string{row[0], row[1]}
		if supplies[pair] || !parts[row[0]] || !suppliers[row[1]] {
			t.Fatalf("partsupp %q: repeated or without its part or supplier", row)
		}
		supplies[pair] = true
	}
	for _, row := range all["orders"] {
		if key := num(t, row[0]); (key-1)%32 >= 8 {
			t.Fatalf("order key %d is not among the first eight of its 32", key)
		}
		if !customers[row[1]] || num(t, row[1])%3 == 0 {
			t.Fatalf("order %s is of customer %s", row[0], row[1])
		}
	}
	seen := map[string]bool{}
	for _, row := range all["lineitem"] {
		seen[row[0]] = true
		if !orders[row[0]] || !supplies[[2]string{row[1], row[2]}] {
			t.Fatalf("item %q: no such order, or nobody supplies that", row)
		}
	}
	if len(seen) != len(orders) {
		t.Errorf("%d of %d orders have items", len(seen), len(orders))
	}
	for _, row := range slices.Concat(all["supplier"], all["customer"]) {
		if code, _, _ := strings.Cut(row[4], "-"); num(t, code) != num(t, row[3])+10 || len(row[4]) != 15 {
			t.Fatalf("phone %s of nation %s", row[4], row[3])
		}
	}
}

// keys collects the first column and fails on repetitions.
func keys(t *testing.T, rows [][]string) map[string]bool {
	t.Helper()
	set := map[string]bool{}
	for _, row := range rows {
		if set[row[0]] {
			t.Fatalf("key %s comes twice", row[0])
		}
		set[row[0]] = true
	}
	return set
}

func TestTPCHFormulas(t *testing.T) {
	all := tables(t)
	price := map[string]int64{}
	for _, row := range all["part"] {
		k := num(t, row[0])
		want := 90000 + (k/10)%20001 + 100*(k%1000)
		if price[row[0]] = cents(t, row[7]); price[row[0]] != want {
			t.Fatalf("part %d costs %s, want %d cents", k, row[7], want)
		}
		if row[3][:len("Brand#")+1] != "Brand#"+row[2][len(row[2])-1:] {
			t.Fatalf("brand %s of %s", row[3], row[2])
		}
		if words := strings.Fields(row[1]); len(words) != 5 || distinct(words) != 5 {
			t.Fatalf("name %q is not of five different words", row[1])
		}
	}
	total, open, done := map[string]int64{}, map[string]int{}, map[string]int{}
	ordered := map[string]time.Time{}
	for _, row := range all["orders"] {
		ordered[row[0]] = day(t, row[4])
	}
	for _, row := range all["lineitem"] {
		extended, discount, tax := cents(t, row[5]), cents(t, row[6]), cents(t, row[7])
		if extended != num(t, row[4])*price[row[1]] || discount > 10 || tax > 8 {
			t.Fatalf("item %q: wrong price, discount or tax", row)
		}
		total[row[0]] += extended * (100 - discount) * (100 + tax)
		ship, commit, receipt := day(t, row[10]), day(t, row[11]), day(t, row[12])
		within(t, row, ship.Sub(ordered[row[0]]), 1, 121)
		within(t, row, commit.Sub(ordered[row[0]]), 30, 90)
		within(t, row, receipt.Sub(ship), 1, 30)
		now := day(t, "1995-06-17")
		if (row[8] == "N") != receipt.After(now) || (row[9] == "O") != ship.After(now) {
			t.Fatalf("item %q: wrong flags", row)
		}
		if row[9] == "O" {
			open[row[0]]++
		} else {
			done[row[0]]++
		}
	}
	for _, row := range all["orders"] {
		if got := cents(t, row[3]); got != (total[row[0]]+5000)/10000 {
			t.Fatalf("order %s costs %d, want %d/10000", row[0], got, total[row[0]])
		}
		want := "P"
		if open[row[0]] == 0 {
			want = "F"
		} else if done[row[0]] == 0 {
			want = "O"
		}
		if row[2] != want {
			t.Fatalf("order %s has status %s, want %s", row[0], row[2], want)
		}
		if d := ordered[row[0]]; d.Before(day(t, "1992-01-01")) || d.After(day(t, "1998-08-02")) {
			t.Fatalf("order %s is of %s", row[0], row[4])
		}
	}
}

// TestTPCHComplaints checks the verdicts in the comments of suppliers: one of
// each kind in each 2,000 suppliers.
func TestTPCHComplaints(t *testing.T) {
	for scale, want := range map[float64]int{0.001: 1, 0.01: 1, 0.2: 1, 0.6: 3} {
		d := newTPCHData(scale, 5)
		bad, good := 0, 0
		rows := newStream(5, "tpch supplier")
		for i := range d.suppliers {
			row := string(d.supplier(rows.at(i), i, nil))
			if _, rest, ok := strings.Cut(row, "Customer"); ok {
				bad += strings.Count(rest, "Complaints")
				good += strings.Count(rest, "Recommends")
			}
		}
		if bad != want || good != want {
			t.Errorf("scale %v: %d complaints, %d recommendations, want %d of each", scale, bad, good, want)
		}
	}
}

// TestTPCHSuppliers checks the formula where it needs no help, and that a part
// has four suppliers at every scale.
func TestTPCHSuppliers(t *testing.T) {
	for _, s := range []int64{10, 11, 12, 40, 120, 150, 1000, 10_000} {
		d := &tpchData{suppliers: s}
		for part := int64(1); part <= 20*s; part += 1 + s/100 {
			got := d.suppliersOf(part)
			seen := map[int64]bool{}
			for i, k := range got {
				seen[k] = true
				formula := (part+int64(i)*(s/4+(part-1)/s))%s + 1
				if k < 1 || k > s || s == 10_000 && k != formula {
					t.Fatalf("%d suppliers: part %d has %v", s, part, got)
				}
			}
			if len(seen) != 4 {
				t.Fatalf("%d suppliers: part %d has %v", s, part, got)
			}
		}
	}
}

// TestTPCHKind runs the kind as the command line does, twice.
func TestTPCHKind(t *testing.T) {
	kind, ok := Lookup("tpch")
	if !ok {
		t.Fatal("no kind tpch")
	}
	read := func(seed uint64) map[string]string {
		dir := filepath.Join(t.TempDir(), "out")
		err := kind.Run(context.Background(), Options{Dir: dir, Seed: seed, Params: Params{"scale": "0.001"}})
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for i := range tpchTables {
			b, err := os.ReadFile(filepath.Join(dir, tpchTables[i].name+".tbl"))
			if err != nil {
				t.Fatal(err)
			}
			files[tpchTables[i].name] = string(b)
		}
		return files
	}
	one, again, other := read(1), read(1), read(2)
	for name, content := range one {
		if again[name] != content {
			t.Errorf("%s differs between two runs of one seed", name)
		}
		if other[name] == content {
			t.Errorf("%s does not depend on the seed", name)
		}
	}
	for _, scale := range []string{"-1", "1e9", "0.0001", "much"} {
		err := kind.Run(context.Background(), Options{Dir: filepath.Join(t.TempDir(), "x"), Params: Params{"scale": scale}})
		if err == nil || !strings.Contains(err.Error(), "scale") {
			t.Errorf("scale %s: error %v", scale, err)
		}
	}
}

func BenchmarkTPCHLineitem(b *testing.B) {
	d := newTPCHData(0.1, 1)
	n := countingWriter(0)
	for b.Loop() {
		n = 0
		if err := d.write(context.Background(), &tpchTables[7], &n); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(n))
}

type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

func within(t *testing.T, row []string, d time.Duration, lo, hi int) {
	t.Helper()
	if days := int(d / (24 * time.Hour)); days < lo || days > hi {
		t.Fatalf("item %q: %d days, want %d to %d", row, days, lo, hi)
	}
}

func distinct(words []string) int {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return len(set)
}

func num(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func cents(t *testing.T, s string) int64 {
	t.Helper()
	if len(s) < 4 || s[len(s)-3] != '.' {
		t.Fatalf("%q is not an amount", s)
	}
	return num(t, s[:len(s)-3]+s[len(s)-2:])
}

func day(t *testing.T, s string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
