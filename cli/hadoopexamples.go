package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/generate"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/mapreduce"
)

// example is a program of Hadoop's jar of examples.
type example struct {
	name, class, usage string
	min, max           int // number of arguments; max 0 for any number
	run                func(*hadoopExample, []string) int
}

// hadoopExamples are the programs in the order of their names, which tutorials and benchmarks of
// Hadoop call. Sizes and formats of their outputs are Hadoop's, so that the next program of a
// benchmark can read them.
var hadoopExamples = []example{
	{"grep", "Grep", "IN OUT REGEX [GROUP]", 3, 4, (*hadoopExample).grep},
	{"pi", "QuasiMonteCarlo", "MAPS SAMPLES", 2, 2, (*hadoopExample).pi},
	{"randomtextwriter", "RandomTextWriter", "OUT", 1, 1, (*hadoopExample).textWriter},
	{"sort", "Sort", "[-r REDUCES] [-inFormat C] [-outFormat C] [-outKey C] [-outValue C] IN OUT", 2, 0, (*hadoopExample).sort},
	{"teragen", "terasort.TeraGen", "ROWS OUT", 2, 2, (*hadoopExample).teragen},
	{"terasort", "terasort.TeraSort", "IN OUT", 2, 2, (*hadoopExample).terasort},
	{"teravalidate", "terasort.TeraValidate", "IN REPORT", 2, 2, (*hadoopExample).teravalidate},
	{"wordcount", "WordCount", "IN... OUT", 2, 0, (*hadoopExample).wordcount},
}

// hadoopExample is one run of an example.
type hadoopExample struct {
	*hadoopCommand
	conf hadoop.Conf
	job  *hadoopRun
}

// examples runs a program of the jar of examples, by its name or by its class.
func (h *hadoopCommand) examples(args []string) error {
	if len(args) == 0 {
		fmt.Fprintln(h.out, "An example program must be given as the first argument.\nValid program names are:")
		for _, e := range hadoopExamples {
			terminal.Fprintf(h.out, "  %s: %s\n", e.name, e.usage)
		}
		return exit(hadoopUsage)
	}
	class := strings.TrimPrefix(args[0], "org.apache.hadoop.examples.")
	for i := range hadoopExamples {
		e := &hadoopExamples[i]
		// mrjob calls a program by its class. The package must be in front: a bare class is no
		// name.
		if args[0] != e.name && (class != e.class || class == args[0]) {
			continue
		}
		g, rest, err := hadoop.ParseGeneric(args[1:])
		if err != nil || len(rest) < e.min || e.max > 0 && len(rest) > e.max {
			terminal.Fprintf(h.err, "Usage: %s %s\n", e.name, e.usage)
			// Hadoop's examples end with 2 after wrong usage, and this one with 1.
			return exit(map[bool]int{true: hadoopFailed, false: hadoopNotFound}[e.name == "teravalidate"])
		}
		x := &hadoopExample{hadoopCommand: h, conf: hadoop.Conf{}}
		if err := x.configure(g); err != nil {
			terminal.Fprintf(h.err, "%s\n", oneLine(err))
			return exit(hadoopFailed)
		}
		return exit(e.run(x, rest))
	}
	terminal.Fprintf(h.err, "Unknown program '%s' chosen.\n", args[0])
	return exit(hadoopUsage)
}

// configure computes the properties of the run.
func (x *hadoopExample) configure(g hadoop.Generic) error {
	var given []string
	for name, v := range x.hadoopCommand.conf {
		x.conf[name] = v
	}
	settings, err := givenSettings(g)
	if err != nil {
		return err
	}
	for _, s := range settings {
		x.conf.Set(s.Name, s.Value)
		given = append(given, s.Name)
	}
	x.setDefault(cmp.Or(g.FS, x.conf.Get("fs.defaultFS", "")))
	// Stamp and root decide how ids and paths are printed. Tasks see them as properties, as
	// under Hadoop.
	x.conf.Set(hadoop.PropStamp, strconv.FormatInt(stampOfRun(x.conf), 10))
	x.conf.Set(hadoop.PropRoot, x.ns.RootURI())
	x.job = &hadoopRun{hadoopCommand: x.hadoopCommand, log: x.log(), conf: x.conf}
	r := x.conf.Check(given)
	for _, text := range r.Warnings {
		x.job.log.Line("WARN", "mapreduce.Job", "%s", text)
	}
	if len(r.Errors) > 0 {
		return errors.New(strings.Join(r.Errors, "; "))
	}
	return nil
}

// start runs a job and returns its exit status. in and out are paths as typed.
func (x *hadoopExample) start(in []string, out string, reduces int, run func(context.Context, mapreduce.Options) ([]*mapreduce.Result, error)) int {
	uris, err := x.absolute(append(in[:len(in):len(in)], out))
	var o mapreduce.Options
	if err == nil {
		o, err = x.job.options(uris[:len(in)], uris[len(in)], nil)
	}
	if err == nil {
		err = x.job.checkOutput(out)
	}
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", oneLine(err))
		return hadoopFailed
	}
	o.Reduces = x.conf.Int("mapreduce.job.reduces", reduces)
	// The examples' own main methods return 1 for every failure.
	if status := x.job.run(run, o); status != 0 {
		return hadoopFailed
	}
	return 0
}

// streaming runs a job of built-in classes under Hadoop's rules. set lists further properties, name
// and value in turn.
func (x *hadoopExample) streaming(in []string, out, name, mapper, combiner, reducer string, set ...string) int {
	conf := hadoop.Conf{}
	for k, v := range x.conf {
		conf[k] = v
	}
	// After the user's own settings: the classes of the example are not for the user to change.
	for i := 0; i+1 < len(set); i += 2 {
		conf.Set(set[i], set[i+1])
	}
	j, err := mapreduce.Streaming(mapreduce.StreamingOptions{Name: name, Mapper: mapper, Combiner: combiner, Reducer: reducer, Stderr: x.err, Properties: conf})
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", oneLine(err))
		return hadoopFailed
	}
	return x.start(in, out, 1, func(ctx context.Context, o mapreduce.Options) ([]*mapreduce.Result, error) {
		r, err := mapreduce.Run(ctx, j, o)
		if r == nil {
			return nil, err
		}
		return []*mapreduce.Result{r}, err
	})
}

// app runs a built-in app.
func (x *hadoopExample) app(name string, p mapreduce.Params, in []string, out string, reduces int) int {
	a, err := apps.Lookup(name)
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", err)
		return hadoopFailed
	}
	return x.start(in, out, reduces, func(ctx context.Context, o mapreduce.Options) ([]*mapreduce.Result, error) {
		return mapreduce.RunApp(ctx, a, p, o)
	})
}

// wordcount counts words.
func (x *hadoopExample) wordcount(args []string) int {
	last := len(args) - 1
	return x.streaming(args[:last], args[last], "word count", hadoop.TokenCountMapper, hadoop.LongSumReducer, hadoop.LongSumReducer,
		hadoop.PropParts, "new")
}

// grep counts the matches of a regular expression and sorts them by falling counts.
func (x *hadoopExample) grep(args []string) int {
	if _, err := regexp.Compile(args[2]); err != nil {
		terminal.Fprintf(x.err, "%s: %v (regular expressions are Go's: no look-around, no back-references)\n", args[2], err)
		return hadoopNotFound
	}
	// The whole match, as in Hadoop.
	group := "0"
	if len(args) == 4 {
		group = args[3]
	}
	// In the user's home, as Hadoop's program: a second job reads it, on a cluster from other machines.
	temp := fmt.Sprintf("grep-temp-%d", time.Now().UnixNano()&0x7fffffff)
	status := x.streaming(args[:1], temp, "grep-search", hadoop.RegexMapper, hadoop.LongSumReducer, hadoop.LongSumReducer,
		"mapreduce.mapper.regex", args[2], "mapreduce.mapper.regexmapper..group", group, hadoop.PropParts, "new")
	defer func() {
		if l, err := x.locate(temp); err == nil {
			l.fs.Remove(context.WithoutCancel(x.ctx), l.path)
		}
	}()
	if status != 0 {
		return 0 // as Hadoop's program does
	}
	x.job = &hadoopRun{hadoopCommand: x.hadoopCommand, log: x.job.log, conf: x.conf}
	x.conf.Set("mapreduce.job.reduces", "1")
	x.conf.Set(hadoop.PropStamp, strconv.FormatInt(stampOfRun(hadoop.Conf{}), 10))
	x.streaming([]string{temp}, args[1], "grep-sort", hadoop.InverseMapper, "", hadoop.IdentityReducer, hadoop.PropInput, hadoop.KeyValueInput,
		"mapreduce.job.output.key.comparator.class", "KeyFieldBasedComparator", "mapreduce.partition.keycomparator.options", "-nr", hadoop.PropParts, "new")
	return 0
}

// sort sorts lines. Hadoop's program sorts SequenceFiles unless the formats are named.
func (x *hadoopExample) sort(args []string) int {
	reduces := 0
	for len(args) > 2 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-r":
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				terminal.Fprintf(x.err, "sort: -r %s: want a positive number\n", args[1])
				return hadoopNotFound
			}
			reduces = n
		// The class names differ between Hadoop's two APIs; both contain Text.
		case "-inFormat", "-outFormat":
			if !strings.Contains(args[1], "Text") {
				terminal.Fprintf(x.err, "sort: %s %s: only text can be sorted\n", args[0], args[1])
				return hadoopNotFound
			}
		case "-outKey", "-outValue":
		default:
			terminal.Fprintf(x.err, "sort: %s is not supported; the output is always in total order\n", args[0])
			return hadoopNotFound
		}
		args = args[2:]
	}
	if len(args) != 2 {
		fmt.Fprintln(x.err, "sort: want an input and an output")
		return hadoopNotFound
	}
	return x.app("sort", nil, args[:1], args[1], reduces)
}

// textWriter writes random text.
func (x *hadoopExample) textWriter(args []string) int {
	per := x.conf.Int("mapreduce.randomtextwriter.bytespermap", 1<<30)
	maps := x.conf.Int("mapreduce.job.maps", 2)
	if total := x.conf.Int("mapreduce.randomtextwriter.totalbytes", 0); total > 0 {
		per = min(per, total)
		maps = (total + per - 1) / per
	}
	return x.app("textwriter", mapreduce.Params{"maps": strconv.Itoa(maps), "bytes": strconv.Itoa(per)}, nil, args[0], 0)
}

// pi estimates π and prints it.
func (x *hadoopExample) pi(args []string) int {
	maps, err1 := strconv.Atoi(args[0])
	samples, err2 := strconv.ParseInt(args[1], 10, 64)
	if err1 != nil || err2 != nil || maps < 1 || samples < 1 {
		fmt.Fprintln(x.err, "pi: want two positive numbers")
		return hadoopNotFound
	}
	terminal.Fprintf(x.out, "Number of Maps  = %d\nSamples per Map = %d\n", maps, samples)
	// Only the sum of the output is of use, so it goes to a local directory that is removed.
	out, err := os.MkdirTemp("", "slotwise-pi-")
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", err)
		return hadoopFailed
	}
	defer os.RemoveAll(out)
	began := time.Now()
	dir := filepath.Join(out, "out")
	status := x.app("pi", mapreduce.Params{"maps": args[0], "samples": args[1]}, nil, dir, 1)
	if status != 0 {
		return status
	}
	text, err := os.ReadFile(filepath.Join(dir, "part-r-00000"))
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", err)
		return hadoopFailed
	}
	// As in Hadoop, the estimate has twenty decimals. A float64 has sixteen.
	inside := new(big.Rat)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "inside\t"); ok {
			inside.SetString(n)
		}
	}
	total := new(big.Rat).Mul(big.NewRat(int64(maps), 1), big.NewRat(samples, 1))
	estimate := inside.Mul(inside, big.NewRat(4, 1)).Quo(inside, total)
	terminal.Fprintf(x.out, "Job Finished in %.3f seconds\nEstimated value of Pi is %s\n", time.Since(began).Seconds(), estimate.FloatString(20))
	return 0
}

// rowCount parses a number of rows with a decimal unit.
func rowCount(text string) (int64, error) {
	unit := int64(1)
	// Decimal units: 10k rows are 10,000, as TeraGen counts.
	for i, suffix := range []string{"k", "m", "b", "t"} {
		if rest, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			text = rest
			for range i + 1 {
				unit *= 1000
			}
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	// The bound is applied before the multiplication, which could overflow.
	if err != nil || n < 0 || n > (1<<50)/unit {
		return 0, fmt.Errorf("%q is no number of rows", text)
	}
	return n * unit, nil
}

// teragen writes the records of the sort benchmark.
func (x *hadoopExample) teragen(args []string) int {
	rows, err := rowCount(args[0])
	if err != nil {
		terminal.Fprintf(x.err, "%s\n", err)
		return hadoopNotFound
	}
	// No job runs here, so the check that comes before a job is made by itself.
	if err := x.job.checkOutput(args[1]); err != nil {
		terminal.Fprintf(x.err, "%s\n", oneLine(err))
		return hadoopFailed
	}
	if err := x.writeRows(rows, x.conf.Int("mapreduce.job.maps", 2), args[1]); err != nil {
		terminal.Fprintf(x.err, "%s\n", oneLine(err))
		return hadoopFailed
	}
	return 0
}

// writeRows writes rows in files, in this process: a tenth of a second for a million rows. A job of
// its own would take longer to start than to run. The commit is the one of a job, so the directory
// appears whole.
func (x *hadoopExample) writeRows(rows int64, files int, typed string) error {
	l, err := x.locate(typed)
	if err != nil {
		return err
	}
	st, err := l.fs.Stage(x.ctx, l.path, storage.ReplaceNothing)
	if err != nil {
		return err
	}
	// Hadoop has two maps for teragen by default, and a part file for each.
	files = max(1, min(files, 100_000))
	for i := range files {
		w, err := st.Create(x.ctx, fmt.Sprintf("part-m-%05d", i))
		if err == nil {
			from, to := rows*int64(i)/int64(files), rows*int64(i+1)/int64(files)
			if err = generate.TeraRows(w, uint64(from), uint64(to)); err == nil {
				err = w.Commit()
			}
			// After Commit it does nothing.
			w.Discard()
		}
		if err = cmp.Or(err, context.Cause(x.ctx)); err != nil {
			return errors.Join(err, st.Abort(context.WithoutCancel(x.ctx)))
		}
	}
	return st.Commit(x.ctx)
}

// terasort sorts the records of the sort benchmark.
func (x *hadoopExample) terasort(args []string) int {
	return x.app("terasort", nil, args[:1], args[1], 1)
}

// teravalidate checks the order of records. The status is 0 either way, as Hadoop's: the report,
// which is empty for sorted records but for a checksum, is the answer.
func (x *hadoopExample) teravalidate(args []string) int {
	return x.app("teravalidate", nil, args[:1], args[1], 1)
}
