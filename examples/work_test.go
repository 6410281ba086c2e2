package examples

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

// start runs a program of examples/programs in dir. Two reduces and small splits make it divide
// its work.
func start(t *testing.T, dir string, words ...string) {
	t.Helper()
	c := exec.Command(filepath.Join(programs(t), words[0]), append(words[1:], "--workers", "2", "--reduces", "2", "--split-size", "16KiB", "--quiet")...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// rowsOf reads a directory of files with columns.
func rowsOf[T any](t *testing.T, dir, format string) (rows []T) {
	t.Helper()
	files, err := mapreduce.OpenFiles(formats.Readers())
	if err != nil {
		t.Fatal(err)
	}
	table := mapreduce.TableOf[T]()
	err = mapreduce.ReadTyped(t.Context(), files, dir, table.Input(format), mapreduce.Values(table), func(_ mapreduce.None, row T) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", dir, len(rows), err)
	}
	return rows
}

// linesOf reads the part files of a directory in their order.
func linesOf(t *testing.T, dir string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(parts(t, dir), "\n"), "\n")
}

// visit is a row of the output of sessions.
type visit struct {
	Visitor  string    `column:"visitor"`
	Start    time.Time `column:"start"`
	Seconds  int64     `column:"seconds"`
	Requests int64     `column:"requests"`
	Bytes    int64     `column:"bytes"`
	Entry    string    `column:"entry"`
	Exit     string    `column:"exit"`
}

// The program finds the visits that a loop over the sorted requests of each visitor finds.
func TestSessions(t *testing.T) {
	dir := t.TempDir()
	start(t, dir, "gen", "--what", "logs", "--output", "logs")
	start(t, dir, "sessions", "--input", "logs", "--output", "visits", "--pause", "20")
	type request struct {
		at    time.Time
		page  string
		bytes int64
	}
	all, broken := map[string][]request{}, 0
	for _, line := range linesOf(t, filepath.Join(dir, "logs")) {
		f := strings.Fields(line)
		if len(f) < 10 {
			broken++
			continue
		}
		at, err := time.Parse("[02/Jan/2006:15:04:05", f[3])
		n, err2 := strconv.ParseInt(f[9], 10, 64)
		if cmp.Or(err, err2) != nil {
			t.Fatal(line)
		}
		all[f[0]] = append(all[f[0]], request{at, f[6], n})
	}
	want := map[string]int{}
	for visitor, requests := range all {
		slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
		from := 0
		for i := range requests {
			if i+1 < len(requests) && requests[i+1].at.Sub(requests[i].at) <= 20*time.Minute {
				continue
			}
			v := visit{Visitor: visitor, Start: requests[from].at, Entry: requests[from].page, Exit: requests[i].page,
				Requests: int64(i + 1 - from), Seconds: int64(requests[i].at.Sub(requests[from].at).Seconds())}
			for _, r := range requests[from : i+1] {
				v.Bytes += r.bytes
			}
			want[fmt.Sprint(v)]++
			from = i + 1
		}
	}
	got := map[string]int{}
	for _, v := range rowsOf[visit](t, filepath.Join(dir, "visits"), "parquet") {
		v.Start = v.Start.UTC()
		got[fmt.Sprint(v)]++
	}
	sameCounts(t, got, want)
	if broken == 0 || len(want) < 50 {
		t.Errorf("%d visits and %d broken lines test little", len(want), broken)
	}
}

// sameCounts compares two bags.
func sameCounts(t *testing.T, got, want map[string]int) {
	t.Helper()
	for _, m := range []map[string]int{got, want} {
		for k := range m {
			if got[k] != want[k] {
				t.Errorf("%s: %d times, want %d", k, got[k], want[k])
			}
		}
	}
}

// The join of CSV and Parquet has a row for each customer with the sum of a loop.
func TestCustomers(t *testing.T) {
	type customer struct {
		ID      int    `column:"id"`
		Name    string `column:"name"`
		Country string `column:"country"`
	}
	type order struct {
		Customer int     `column:"customer"`
		Amount   float64 `column:"amount"`
	}
	type spent struct {
		Name    string  `column:"name"`
		Country string  `column:"country"`
		Orders  int     `column:"orders"`
		Amount  float64 `column:"amount"`
	}
	dir := t.TempDir()
	start(t, dir, "gen", "--what", "customers", "--output", "customers")
	start(t, dir, "gen", "--what", "orders", "--records", "1000", "--output", "orders")
	start(t, dir, "customers", "--input", "customers=customers", "--input", "orders=orders", "--output", "spent")
	orders := rowsOf[order](t, filepath.Join(dir, "orders"), "parquet")
	want, got := map[string]int{}, map[string]int{}
	for _, c := range rowsOf[customer](t, filepath.Join(dir, "customers"), "csv") {
		row := spent{Name: c.Name, Country: c.Country}
		for _, o := range orders {
			if o.Customer == c.ID {
				row.Orders, row.Amount = row.Orders+1, row.Amount+o.Amount
			}
		}
		row.Amount = math.Round(row.Amount * 100)
		want[fmt.Sprint(row)]++
	}
	for _, row := range rowsOf[spent](t, filepath.Join(dir, "spent"), "csv") {
		row.Amount = math.Round(row.Amount * 100)
		got[fmt.Sprint(row)]++
	}
	sameCounts(t, got, want)
}

// The program finds the answers and scores that the formula gives over all documents in memory.
func TestSearch(t *testing.T) {
	type answer struct {
		Document string  `column:"document"`
		Score    float64 `column:"score"`
	}
	dir := t.TempDir()
	start(t, dir, "gen", "--what", "documents", "--records", "150", "--output", "documents")
	start(t, dir, "search", "--input", "documents", "--query", "w2 w40 w90 missing", "--n", "15", "--output", "answers")
	documents, words, containing := map[string][]string{}, 0, map[string]float64{}
	for _, line := range linesOf(t, filepath.Join(dir, "documents")) {
		name, text, _ := strings.Cut(line, "\t")
		documents[name] = strings.Fields(text)
		words += len(documents[name])
		for _, term := range slices.Compact(slices.Sorted(slices.Values(documents[name]))) {
			containing[term]++
		}
	}
	n, mean := float64(len(documents)), float64(words)/float64(len(documents))
	var want []answer
	for name, text := range documents {
		a := answer{Document: name}
		for _, term := range []string{"w2", "w40", "w90", "missing"} {
			tf := 0.0
			for _, w := range text {
				if w == term {
					tf++
				}
			}
			a.Score += math.Log(1+(n-containing[term]+0.5)/(containing[term]+0.5)) * tf * 2.2 / (tf + 1.2*(0.25+0.75*float64(len(text))/mean))
		}
		want = append(want, a)
	}
	slices.SortFunc(want, func(a, b answer) int { return cmp.Compare(b.Score, a.Score) })
	got := rowsOf[answer](t, filepath.Join(dir, "answers"), "csv")
	if len(got) != 15 {
		t.Fatalf("%d answers", len(got))
	}
	for i, a := range got {
		if a.Document != want[i].Document || math.Abs(a.Score-want[i].Score) > 1e-9 {
			t.Errorf("answer %d is %v, want %v", i, a, want[i])
		}
	}
}

// The ranks equal the result of a power iteration that gives the rank of pages without links to all
// pages, and the files are in the order of the ranks.
func TestPageRank(t *testing.T) {
	type row struct {
		Page string  `column:"page"`
		Rank float64 `column:"rank"`
	}
	dir := t.TempDir()
	start(t, dir, "gen", "--what", "links", "--output", "links")
	start(t, dir, "pagerank", "--input", "links", "--rounds", "40", "--output", "ranks")
	links, ranks := map[string][]string{}, map[string]float64{}
	for _, line := range linesOf(t, filepath.Join(dir, "links")) {
		from, to, _ := strings.Cut(line, "\t")
		links[from] = append(links[from], to)
		ranks[from], ranks[to] = 1, 1
	}
	n, dangling := float64(len(ranks)), 0
	for page := range ranks {
		ranks[page] = 1 / n
		if len(links[page]) == 0 {
			dangling++
		}
	}
	for range 100 {
		next, lost := map[string]float64{}, 0.0
		for page, rank := range ranks {
			for _, to := range links[page] {
				next[to] += 0.85 * rank / float64(len(links[page]))
			}
			if len(links[page]) == 0 {
				lost += 0.85 * rank
			}
		}
		for page := range ranks {
			ranks[page] = next[page] + (0.15+lost)/n
		}
	}
	rows, last := rowsOf[row](t, filepath.Join(dir, "ranks"), "parquet"), 1.0
	for _, r := range rows {
		if math.Abs(r.Rank-ranks[r.Page]) > 1e-6 || r.Rank > last {
			t.Errorf("page %s has the rank %v after %v, want %v", r.Page, r.Rank, last, ranks[r.Page])
		}
		last = r.Rank
	}
	if len(rows) != len(ranks) || dangling == 0 {
		t.Errorf("%d pages of %d, %d of them without links", len(rows), len(ranks), dangling)
	}
}

// programs builds the module examples/programs once and returns the directory of its programs.
func programs(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "gen")); err == nil {
		return bin
	}
	inModule(t, "programs", []string{"vet", "./..."}, []string{"build", "-ldflags=-s -w", "-o", bin, "./..."})
	return bin
}
