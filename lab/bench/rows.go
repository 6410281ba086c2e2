package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/lab/harness"
)

// row is one line of the table: contestants that do the same work, slotwise
// first, and the limits that their measurements are compared with.
type row struct {
	name, what  string
	contestants []contestant
	same        sameness // how their outputs are compared
	limits      []limit
}

// contestant is one way to do a row's work.
type contestant struct {
	name  string
	input dataset
	// argv is the command. The output file or directory replaces {out} in an
	// argument.
	argv []string
	// shell is a bash script to run instead of argv. {out} has the same meaning.
	shell string
	// missing says why the contestant cannot run on this machine; "" if it can.
	missing string
	own     bool     // it is slotwise
	apart   bool     // its output differs by intent and is not compared
	env     []string // in addition to the environment of the benchmark
}

// sameness is the relation that must hold between the outputs of a row.
type sameness uint8

// The relations between outputs.
const (
	exactly    sameness = iota // byte for byte, files in the order of their names
	asSorted                   // the same lines in any order
	uniqCounts                 // the same lines in any order, apart from the padding of uniq -c
	notAtAll                   // not compared
)

// pattern matches about one line in a thousand of generated text.
const pattern = "z[aeiou]z[aeiou][mz]"

// rows returns all rows in the order in which the benchmark runs them.
func (b *bench) rows() []row {
	text, recs := b.dataset("text", harness.GiB), b.dataset("records", harness.GiB)
	rows := []row{
		b.wordCountRow(text),
		b.distinctRow(),
		b.sortRow("sort-records", "terasort", recs),
		b.sortRow("sort-text", "sort", text),
		b.spillRow("spill-records", "terasort", recs),
		b.spillRow("spill-text", "sort", text),
		b.grepRow(text),
		b.smallRow(),
		b.streamRow(text),
		b.workersRow(text),
		b.skewRow("skew-word", "wordcount", "one-word", "text"),
		b.skewRow("skew-long-words", "wordcount", "long-words", "text"),
		b.skewRow("skew-equal", "sort", "equal", "text"),
		b.skewRow("skew-prefix", "sort", "prefix", "text"),
		b.growthRow("growth-wordcount", "wordcount", "text", 1*harness.GiB),
		b.growthRow("growth-sort", "terasort", "records", 256*harness.MiB),
	}
	rows = append(rows, b.patternRows()...)
	if b.slow {
		rows = append(rows, b.distinctLargeRow(), b.growthLargeRow())
	}
	return rows
}

// ours returns a contestant that runs an app of slotwise.
func (b *bench) ours(name, app string, in dataset, flags ...string) contestant {
	// The other tools end before the disk has their output, too.
	argv := []string{b.binary(), "run", app, "--sync=false", "--input", in.dir, "--output", "{out}"}
	argv = append(argv, "--workers", strconv.Itoa(b.workers))
	return contestant{name: name, input: in, argv: append(argv, flags...), own: true}
}

// pipe returns a contestant that is a shell script and needs the tools named.
func pipe(name string, in dataset, script string, tools ...string) contestant {
	return contestant{name: name, input: in, shell: script, env: []string{"LC_ALL=C"}, missing: missingTool(tools...)}
}

const mawkCount = `'{for(i=1;i<=NF;i++)c[$i]++} END{for(w in c) print w "\t" c[w]}'`

const duckCount = `COPY (SELECT w, count(*) FROM (SELECT unnest(string_split(line, ' ')) AS w FROM lines) WHERE w <> '' GROUP BY w) TO '{out}' (FORMAT csv, DELIMITER '\t', HEADER false, QUOTE '')`

func (b *bench) wordCountRow(in dataset) row {
	half := in.halves()
	r := row{
		name: "wordcount",
		what: "count the words of " + harness.FormatSize(in.size) + " of text",
		same: asSorted,
		contestants: []contestant{
			b.ours("slotwise", "wordcount", in),
			pipe("mawk", in, "mawk "+mawkCount+" "+in.files()+" > {out}", "mawk"),
			pipe("mawk, two processes", in, fmt.Sprintf(
				`mawk %[1]s %[2]s > {out}.1 & other=$!; mawk %[1]s %[3]s > {out}.2; wait $other
				mawk -F '\t' -v OFS='\t' '{c[$1]+=$2} END{for(w in c) print w, c[w]}' {out}.1 {out}.2 > {out}`,
				mawkCount, half[0], half[1]), "mawk"),
			b.duck(in, duckCount),
			b.limit("wordcount", in),
		},
		limits: []limit{{against: "mawk", must: 8}, {against: yardstick, aim: 1 / 1.3}},
	}
	if b.slow {
		r.contestants = append(r.contestants, pipe("tr | sort | uniq -c", in,
			`cat `+in.files()+` | tr -s ' \t' '\n' | sort --parallel=2 -S 2G | uniq -c | mawk '{print $2 "\t" $1}' > {out}`, "tr", "mawk"))
	}
	return r
}

// distinctRow counts words that all differ, so that the table of words is as large as the
// input.
func (b *bench) distinctRow() row {
	in := b.dataset("distinct", 400*harness.MiB)
	return row{
		name: "distinct",
		what: fmt.Sprintf("count %d words that all differ", in.size/distinctLen),
		same: asSorted,
		contestants: []contestant{
			b.ours("slotwise", "wordcount", in),
			b.ours("256 MiB", "wordcount", in, "--memory", "256MiB"),
			b.duck(in, duckCount),
			b.limit("wordcount", in, "-keys", strconv.FormatInt(in.size/distinctLen, 10)),
		},
		limits: []limit{{against: "256 MiB", must: 0.9, aim: 1}, {against: "DuckDB", aim: 1 / 0.7}, {against: yardstick, aim: 1}},
	}
}

// distinctLargeRow is distinctRow for ten times as many words in much less memory than their
// table needs. DuckDB gets four times the memory; in 1 GiB it ends with an error. The outputs
// are not compared, because sorting them takes longer than the row.
func (b *bench) distinctLargeRow() row {
	in := b.dataset("distinct", 250_000_000*distinctLen)
	return row{
		name: "distinct-large",
		what: fmt.Sprintf("count %d words that all differ in 1 GiB of memory", in.size/distinctLen),
		same: notAtAll,
		contestants: []contestant{
			b.ours("slotwise", "wordcount", in, "--memory", "1GiB"),
			b.duck(in, duckCount, "SET memory_limit='4GiB'", "SET temp_directory='"+b.data+"/duckdb'"),
		},
		limits: []limit{{against: "DuckDB", aim: 1}, {memory: harness.GiB + 40*harness.MiB}},
	}
}

// skewRow compares an input that some part of the engine may find hard with an ordinary one
// of the same size.
func (b *bench) skewRow(name, app, shape, ordinary string) row {
	return row{
		name: name,
		what: fmt.Sprintf("%s of %s, and of ordinary text", app, shapeWords[shape]),
		same: notAtAll,
		contestants: []contestant{
			b.ours(shape, app, b.dataset(shape, harness.GiB)),
			b.ours(ordinary, app, b.dataset(ordinary, harness.GiB)),
		},
		limits: []limit{{against: ordinary, must: 0.5, aim: 1}},
	}
}

// copyTwice is the contestant that does no more than a sort that spills must do.
const copyTwice = "copy twice"

func (b *bench) sortRow(name, app string, in dataset) row {
	return row{
		name: name,
		what: "sort " + harness.FormatSize(in.size) + " of " + in.what(),
		contestants: []contestant{
			b.ours("slotwise", app, in, "--memory", "2GiB"),
			pipe("GNU sort", in, "sort --parallel=2 -S 2G -T "+b.data+" "+in.files()+" -o {out}", "sort"),
			b.duck(in, `COPY (SELECT line FROM lines ORDER BY line) TO '{out}' (FORMAT csv, DELIMITER '\x00', HEADER false, QUOTE '', ESCAPE '')`),
			b.limit("sort", in),
		},
		limits: []limit{{against: "GNU sort", must: 1.3, aim: 2}, {against: yardstick, aim: 1 / 1.3}},
	}
}

func (b *bench) spillRow(name, app string, in dataset) row {
	twice := pipe(copyTwice, in, "cat "+in.files()+" > {out}.1; cat {out}.1 > {out}")
	twice.apart = true
	return row{
		name: name,
		what: "sort " + harness.FormatSize(in.size) + " of " + in.what() + " in 256 MiB of memory",
		contestants: []contestant{
			b.ours("256 MiB", app, in, "--memory", "256MiB"),
			b.ours("2 GiB", app, in, "--memory", "2GiB"),
			twice,
		},
		limits: []limit{{against: "2 GiB", must: 1.0 / 2}, {against: copyTwice, aim: 1 / 1.5}, {memory: 256*harness.MiB + 64*harness.MiB}},
	}
}

func (b *bench) grepRow(in dataset) row {
	return row{
		name: "grep",
		what: "find the lines of " + harness.FormatSize(in.size) + " of text that match " + pattern,
		same: asSorted,
		contestants: []contestant{
			b.ours("slotwise", "grep", in, "--param", "regex="+pattern),
			pipe("grep -E", in, "grep -hE '"+pattern+"' "+in.files()+" > {out}", "grep"),
			pipe("ripgrep", in, "rg --no-config -IN '"+pattern+"' "+in.files()+" > {out}", "rg"),
			b.duck(in, `COPY (SELECT line FROM lines WHERE regexp_matches(line, '`+pattern+`')) TO '{out}' (FORMAT csv, DELIMITER '\x00', HEADER false, QUOTE '', ESCAPE '')`),
			b.limit("grep", in),
		},
		limits: []limit{
			{against: "grep -E", must: 2}, {against: "DuckDB", must: 1}, {against: "ripgrep", aim: 1}, {against: yardstick, aim: 1 / 1.3},
		},
	}
}

// patterns are kinds of regular expressions between which a program that searches for them may
// choose its method. The words are some that slotwise generate puts into a text.
var patterns = []struct{ kind, expr string }{
	{"prefix", "pigi[a-z]+ju"},
	{"suffix", "[a-z]+nufu"},
	{"alternatives", "lajati|nymufu|tejyguw"},
	{"classes", "[vxz][aeiou][vxz][aeiou][vxz]"},
	{"fold", "(?i)lodaz"},
	{"rare", "vokaropy"},
	{"frequent", "sec"},
	{"line-end", "nufu$"},
	{"character", "q"},
	{"none", "Slotwise"},
}

// patternRows compare each kind of pattern with ripgrep.
func (b *bench) patternRows() (rows []row) {
	in := b.dataset("text", 256*harness.MiB)
	for _, p := range patterns {
		// Both start from a shell, because that takes a few of the milliseconds of such a row.
		mine := b.ours("slotwise", "grep", in, "--param", "'regex="+p.expr+"'")
		mine.argv, mine.shell = nil, strings.Join(mine.argv, " ")
		rows = append(rows, row{
			name: patternRow + p.kind,
			what: "find the lines of " + harness.FormatSize(in.size) + " of text that match " + p.expr,
			same: asSorted,
			contestants: []contestant{
				mine,
				// Its status is 1 if no line matches.
				pipe("ripgrep", in, "rg --no-config -IN '"+p.expr+"' "+in.files()+" > {out} || [ $? = 1 ]", "rg"),
			},
			limits: []limit{{against: "ripgrep", aim: 1 / 1.3}},
		})
	}
	return rows
}

// patternRow begins the name of each row of patternRows.
const patternRow = "grep-"

func (b *bench) smallRow() row {
	in := b.dataset("text", harness.MiB)
	return row{
		name: "small",
		what: "count the words of 1 MiB of text",
		same: asSorted,
		contestants: []contestant{
			b.ours("slotwise", "wordcount", in),
			pipe("mawk", in, "mawk "+mawkCount+" "+in.files()+" > {out}", "mawk"),
			b.duck(in, duckCount),
		},
		limits: []limit{{seconds: 0.080, aim: 0.015}},
	}
}

// streamRow compares a streaming job with two shell pipelines. The first sorts
// the halves, merges them and runs one uniq; the second runs a uniq for each half
// and adds the counts.
func (b *bench) streamRow(in dataset) row {
	half := in.halves()
	mine := b.ours("slotwise", "", in, "--mapper", "cat", "--reducer", "uniq -c")
	mine.argv = append(mine.argv[:2:2], mine.argv[3:]...) // no app
	mine.env = []string{"LC_ALL=C"}
	const merge = "merge, uniq -c"
	return row{
		name: "stream",
		what: "cat | sort | uniq -c over " + harness.FormatSize(in.size) + " of text",
		same: uniqCounts,
		contestants: []contestant{
			mine,
			pipe(merge, in, fmt.Sprintf(
				`mkfifo {out}.1 {out}.2
				(cat %s | cat | sort --parallel=1 -S 1G > {out}.1) & one=$!
				(cat %s | cat | sort --parallel=1 -S 1G > {out}.2) & two=$!
				sort -m {out}.1 {out}.2 | uniq -c > {out}; wait $one; wait $two`,
				half[0], half[1]), "mkfifo", "sort", "uniq"),
			pipe("uniq -c, add", in, fmt.Sprintf(
				`(cat %s | cat | sort --parallel=1 -S 1G | uniq -c > {out}.1) & other=$!
				cat %s | cat | sort --parallel=1 -S 1G | uniq -c > {out}.2; wait $other
				sort -m -k2 {out}.1 {out}.2 | mawk '{n=$1; sub(/^ *[0-9]+ /,""); if (NR>1 && $0==last) t+=n; else {if (NR>1) print t, last; t=n; last=$0}} END{if (NR) print t, last}' > {out}`,
				half[0], half[1]), "sort", "uniq", "mawk"),
		},
		limits: []limit{{against: merge, must: 1 / 1.3, aim: 1 / 1.1}, {against: "uniq -c, add", must: 1 / 1.3, aim: 1 / 1.1}},
	}
}

func (b *bench) workersRow(in dataset) row {
	return row{
		name: "workers",
		what: "count the words of " + harness.FormatSize(in.size) + " of text with two workers and with one",
		contestants: []contestant{
			b.ours("two workers", "wordcount", in, "--workers", "2"),
			b.ours("one worker", "wordcount", in, "--workers", "1"),
		},
		same:   asSorted,
		limits: []limit{{against: "one worker", must: 1.8, aim: 1.95}},
	}
}

// growthRow runs the same job over inputs of 256 MiB, 1 GiB and 4 GiB, all with
// the same memory limit. Time per byte must stay flat.
func (b *bench) growthRow(name, app, kind string, memory int64) row {
	r := row{
		name:   name,
		what:   fmt.Sprintf("%s over inputs of growing size in %d MiB of memory", app, memory/harness.MiB),
		same:   notAtAll,
		limits: []limit{{flat: 0.15}, {memoryAll: memory + 64*harness.MiB}},
	}
	for _, size := range []int64{256 * harness.MiB, harness.GiB, 4 * harness.GiB} {
		in := b.dataset(kind, size)
		c := b.ours(harness.FormatSize(in.size), app, in, "--memory", fmt.Sprintf("%dMiB", memory/harness.MiB))
		r.contestants = append(r.contestants, c)
	}
	return r
}

// growthLargeRow continues growth-wordcount with an input that the page cache cannot hold. So
// the disk's rate of reading, in the same run, belongs beside it.
func (b *bench) growthLargeRow() row {
	small, large := b.dataset("text", harness.GiB), b.dataset("text", 32*harness.GiB)
	return row{
		name: "growth-large",
		what: fmt.Sprintf("wordcount of %s, which the page cache cannot hold, in 1 GiB of memory", harness.FormatSize(large.size)),
		same: notAtAll,
		contestants: []contestant{
			b.ours("slotwise", "wordcount", large, "--memory", "1GiB"),
			b.ours("1 GiB", "wordcount", small, "--memory", "1GiB"),
			pipe("reading it", large, "cat "+large.files()+" > /dev/null; echo > {out}"),
		},
		limits: []limit{{flat: 0.15}, {against: "reading it"}, {memory: harness.GiB + 64*harness.MiB}},
	}
}
