package apps

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

var baseNames = mapreduce.Params{"names": "base"}

func TestInvertedIndex(t *testing.T) {
	files := hardFiles()
	docs := map[string]map[string]bool{}
	for name, text := range files {
		for _, w := range plainWords([]byte(text)) {
			if docs[w] == nil {
				docs[w] = map[string]bool{}
			}
			docs[w][path.Base(name)] = true
		}
	}
	var want strings.Builder
	for w, set := range docs {
		fmt.Fprintf(&want, "%s\t%s\n", w, strings.Join(slices.Sorted(maps.Keys(set)), ","))
	}
	appTest{app: "invertedindex", params: baseNames, files: files, want: want.String()}.run(t)
}

func TestTermVector(t *testing.T) {
	files := hardFiles()
	for _, least := range []int{1, 4} {
		params := mapreduce.Params{"names": "base", "min": strconv.Itoa(least)}
		appTest{app: "termvector", params: params, files: files, want: termVectors(files, least)}.run(t)
	}
}

func termVectors(files map[string]string, least int) string {
	var want strings.Builder
	for name, text := range files {
		counts := map[string]int{}
		for _, w := range plainWords([]byte(text)) {
			counts[w]++
		}
		var terms []string
		words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
			return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
		})
		for _, w := range words {
			if counts[w] >= least {
				terms = append(terms, fmt.Sprintf("%s:%d", w, counts[w]))
			}
		}
		if len(terms) > 0 {
			fmt.Fprintf(&want, "%s\t%s\n", path.Base(name), strings.Join(terms, ","))
		}
	}
	return want.String()
}

// sequences counts triples of words as the job should.
func sequences(files map[string]string) map[string]int {
	counts := map[string]int{}
	for name, text := range files {
		for line := range strings.SplitSeq(text, "\n") {
			w := plainWords([]byte(line))
			for i := 2; i < len(w); i++ {
				counts[strings.Join([]string{w[i-2], w[i-1], w[i], path.Base(name)}, "|")]++
			}
		}
	}
	return counts
}

func TestSequenceCount(t *testing.T) {
	files := hardFiles()
	appTest{app: "sequencecount", params: baseNames, files: files, want: counted(sequences(files))}.run(t)
}

func TestRankedInvertedIndex(t *testing.T) {
	type entry struct {
		doc   string
		count int
	}
	counts := sequences(hardFiles())
	lists := map[string][]entry{}
	for key, n := range counts {
		bar := strings.LastIndex(key, "|")
		lists[key[:bar]] = append(lists[key[:bar]], entry{key[bar+1:], n})
	}
	var want strings.Builder
	for sequence, list := range lists {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Or(b.count-a.count, strings.Compare(a.doc, b.doc)) })
		items := make([]string, len(list))
		for i, e := range list {
			items[i] = fmt.Sprintf("%s:%d", e.doc, e.count)
		}
		fmt.Fprintf(&want, "%s\t%s\n", sequence, strings.Join(items, ","))
	}
	files := map[string]string{"part-0": counted(counts)}
	appTest{app: "rankedinvertedindex", files: files, want: want.String(), small: 20_000}.run(t)
}

func TestSelfJoin(t *testing.T) {
	var in strings.Builder
	lines := map[string]bool{}
	for i := range 600 {
		line := fmt.Sprintf("%c,%c%d,%c", 'a'+i%3, 'k'+i%5, i%2, 'a'+i*i%23)
		lines[line] = true
		in.WriteString(line + "\n")
	}
	in.WriteString("\nx\nz\ny\nx\na,\n,a\n,b\n") // single fields and empty ones
	for _, l := range []string{"x", "z", "y", "a,", ",a", ",b"} {
		lines[l] = true
	}
	var want strings.Builder
	for a := range lines {
		for b := range lines {
			i, j := strings.LastIndex(a, ",")+1, strings.LastIndex(b, ",")+1
			if a[:i] == b[:j] && a[i:] < b[j:] {
				fmt.Fprintf(&want, "%s,%s\n", a, b[j:])
			}
		}
	}
	appTest{app: "selfjoin", files: map[string]string{"f": in.String()}, want: want.String()}.run(t)
}

func TestAdjacencyList(t *testing.T) {
	from, to := map[string][]string{}, map[string][]string{}
	nodes := map[string]bool{}
	var in strings.Builder
	in.WriteString("# no edge at all\n\nlonely\n")
	for i := range 500 {
		a, b := strconv.Itoa(i*i%37), strconv.Itoa(i%29)
		in.WriteString(a + []string{",", "\t", "  ", ", "}[i%4] + b + []string{"\n", "\r\n"}[i%2])
		nodes[a], nodes[b] = true, true
		from[b], to[a] = append(from[b], a), append(to[a], b)
	}
	unique := func(s []string) string {
		slices.Sort(s)
		return strings.Join(slices.Compact(s), ",")
	}
	var want strings.Builder
	for n := range nodes {
		fmt.Fprintf(&want, "%s\t%s:%s\n", n, unique(from[n]), unique(to[n]))
	}
	appTest{app: "adjacencylist", files: map[string]string{"f": in.String()}, want: want.String()}.run(t)
}

func TestHistograms(t *testing.T) {
	var in strings.Builder
	given, averages := map[string]int{}, map[string]int{}
	for i := range 700 {
		fmt.Fprintf(&in, "%d:", i)
		sum, n := 0, i%13
		for j := range n {
			r := 1 + (i*i+j*7+i*j)%5
			sum += r
			given[strconv.Itoa(r)]++
			fmt.Fprintf(&in, "%s%d_%d", []string{"", ","}[min(j, 1)], i*j, r)
		}
		in.WriteString([]string{"\n", " \r\n"}[i%2])
		if n > 0 {
			averages[fmt.Sprintf("%.1f", float64(2*sum/n)/2)]++
		}
	}
	in.WriteString("no movie\n7:1_6\n8:x\n9:1_3,\n\n")
	files := map[string]string{"movies": in.String()}
	appTest{app: "histogramratings", files: files, want: counted(given)}.run(t)
	appTest{app: "histogrammovies", files: files, want: counted(averages)}.run(t)
}

// TestNames checks the parameter that most of these apps have.
func TestNames(t *testing.T) {
	app, _ := Lookup("invertedindex")
	if _, err := app.Job(mapreduce.Params{"names": "full"}); err == nil || !strings.Contains(err.Error(), "names") {
		t.Errorf("names=full: %v", err)
	}
}
