package hadoop

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string]string{
		`python  map.py -x`:       `python|map.py|-x`,
		`sh -c 'grep u | wc'`:     `sh|-c|grep u | wc`,
		`a"b c"d`:                 `a|b c|d`,
		`x '' y`:                  `x|y`,
		`'it'\''s'`:               `it|\|s`,
		`awk '{print "$1"}'`:      `awk|{print "$1"}`,
		`a 'not closed "b`:        `a|not closed "b`,
		"tab\tis no space":        "tab\tis|no|space",
		``:                        ``,
		`   `:                     ``,
		`"/bin/sh" -ex "a 'b' c"`: `/bin/sh|-ex|a 'b' c`,
	} {
		if got := strings.Join(SplitCommand(in), "|"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSplitList(t *testing.T) {
	if got := strings.Join(SplitList("a,{b,c}/d,,e"), " "); got != "a {b,c}/d  e" {
		t.Errorf("got %q", got)
	}
}

// TestHashes has the partitions of Hadoop's classes for 2, 3, 7 and 10 reduces.
func TestHashes(t *testing.T) {
	none, _ := NewKeySpec("", "\t")
	for _, c := range []struct{ key, text, str string }{
		{"", "1,1,1,1", "0,0,0,0"},
		{"a", "0,2,2,8", "1,1,6,7"},
		{"apple", "1,0,6,1", "0,2,1,0"},
		{"banana", "0,2,2,2", "1,1,1,1"},
		{"hello world", "1,2,0,1", "0,2,4,2"},
		{"é", "1,2,0,1", "1,2,2,3"},
	} {
		var text, str []string
		for _, n := range []int{2, 3, 7, 10} {
			text = append(text, fmt.Sprint(HashPartition([]byte(c.key), n)))
			str = append(str, fmt.Sprint(none.Partition([]byte(c.key), n)))
		}
		if got := strings.Join(text, ","); got != c.text {
			t.Errorf("hash of Text %q: %s, want %s", c.key, got, c.text)
		}
		if got := strings.Join(str, ","); got != c.str {
			t.Errorf("hash of String %q: %s, want %s", c.key, got, c.str)
		}
	}
	spec, err := NewKeySpec("-k1,2", ".")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"11.12.1.2": "1 0 3", "11.14.2.3": "1 2 5"} {
		var got []string
		for _, n := range []int{2, 3, 12} {
			got = append(got, fmt.Sprint(spec.Partition([]byte(key), n)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", key, got, want)
		}
	}
}

// TestOrder sorts keys by KeyFieldBasedComparator.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ options, sep, in, want string }{
		{"-k1,1n", "\t", "10 9 -1 0 100 x", "-1 0 x 9 10 100"},
		{"-k1,1n", "\t", "1.5 1.25 1 -1.5 -1.25 2 01.50", "-1.5 -1.25 1 1.25 01.50 1.5 2"},
		{"-k1,1nr", "\t", "10 9 100", "100 10 9"},
		{"-k2,2nr -k1,1", ".", "a.1 b.2 c.2 d.10", "d.10 b.2 c.2 a.1"},
		{"-k2", ".", "a.b z.a q", "q z.a a.b"},
		{"-k2r", ".", "a.b z.a q", "a.b z.a q"},
		{"-nr", "\t", "1 3 2", "3 2 1"},
		{"-k1.2,1.3", "\t", "xba xab xaa", "xaa xab xba"},
		{"-r", "\t", "a ab b", "b ab a"},
		{"-k1,1 -k2,2n", ".", "a.10 a.9 b.1", "a.9 a.10 b.1"},
		{"-k1n", "\t", "99999999999999999999 100000000000000000000 -99999999999999999999", "-99999999999999999999 99999999999999999999 100000000000000000000"},
	} {
		spec, err := NewKeySpec(c.options, c.sep)
		if err != nil {
			t.Fatal(err)
		}
		var keys [][]byte
		for _, k := range strings.Fields(c.in) {
			keys = append(keys, spec.AppendSortKey(nil, []byte(k)))
		}
		slices.SortFunc(keys, bytes.Compare)
		var got []string
		for _, k := range keys {
			got = append(got, string(KeyOf(k)))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s over %q: %q, want %q", c.options, c.in, s, c.want)
		}
	}
	for _, bad := range []string{"-k", "-k0", "-kx", "-k1b", "-k1,x", "-k-1"} {
		if _, err := NewKeySpec(bad, "\t"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestNumbers compares the encoding of integers with their order.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		a, b := r.Int64N(1<<r.IntN(40)+1)-1<<20, r.Int64N(1<<r.IntN(40)+1)-1<<20
		x, y := appendNumber(nil, fmt.Append(nil, a)), appendNumber(nil, fmt.Append(nil, b))
		if got := bytes.Compare(x, y); (a < b) != (got < 0) || (a == b) != (got == 0) {
			t.Fatalf("%d and %d: %d", a, b, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		sep        string
		n          int
		in, k, val string
	}{
		{"\t", 1, "a\tb\tc", "a", "b\tc"},
		{"\t", 2, "a\tb\tc", "a\tb", "c"},
		{"\t", 2, "a\tb", "a\tb", ""},
		{".", 2, "11.12.1.2", "11.12", "1.2"},
		{"::", 1, "a::b", "a", "b"},
		{"\t", 1, "foo", "foo", ""},
		{"\t", 1, "", "", ""},
	} {
		k, v := (&Cut{Separator: []byte(c.sep), Fields: c.n}).Line([]byte(c.in))
		if string(k) != c.k || string(v) != c.val || v == nil {
			t.Errorf("%q cut at %d × %q: %q, %q", c.in, c.n, c.sep, k, v)
		}
	}
}

func TestParseStreaming(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "No Arguments Given!"},
		{"-input a", "Required argument: -output "},
		{"-output b", "Required argument: -input <name>"},
		{"-input a -output b -D x=y", "Unrecognized option: -D (a generic option: it stands before all options of streaming, as in Hadoop)"},
		{"-input a -output b -files x", "Unrecognized option: -files (a generic option: it stands before all options of streaming, as in Hadoop)"},
		{"-input a -output b extra -mapper", "Missing argument for option: mapper"},
		{"-input a b -output c d", "Found 1 unexpected arguments on the command line [d]"},
		{"-input a -output b -inputs x", "Unrecognized option: -inputs"},
		{"-input a -output b -numReduceTasks x", "-numReduceTasks x: want a whole number that is not negative"},
		{"-input a -output b -cacheFile hdfs:///x", "hdfs:///x: a cached file or archive needs a #name"},
		{"-D", "Missing argument for option: D"},
	} {
		if _, err := ParseStreaming(strings.Fields(c.args)); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
	s, err := ParseStreaming(strings.Fields("-Da=1 -D b=x=y,z -files f#g,h -files i -fs local -input a,{b,c} d -input e --output o -mapper cat -reducer NONE " +
		"-cmdenv X=1 -cmdenv Y=2 -jobconf j=k -file p q -verbose -partitioner P"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(s.Settings, s.Generic.Files, s.FS, s.Inputs, s.Output, s.Mapper, s.Reducer, s.CmdEnv, s.JobConf, s.File, s.Verbose, s.Partitioner, s.Reduces)
	if want := "[{a 1} {b x=y,z}] [f#g h] local [a {b,c} d e] o cat NONE [X=1 Y=2] [{j k}] [p q] true P -1\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestConf(t *testing.T) {
	c := Conf{}
	c.Set("mapred.reduce.tasks", "3")
	c.Set("mapreduce.job.name", "n-${x}-${none}")
	c.Set("x", "${y}")
	c.Set("y", "1")
	c.Set("loop", "${loop}")
	c.Set("stream.jobconf.truncate.limit", "5")
	c.Set(Private+"x", "hidden")
	if c.Int("mapreduce.job.reduces", 0) != 3 || c.Get("mapred.job.name", "") != "n-1-${none}" || !strings.Contains(c.Get("loop", ""), "loop") {
		t.Errorf("%v", c)
	}
	env := strings.Join(c.Environment(), " ")
	if !strings.Contains(env, "mapred_reduce_tasks=3") || !strings.Contains(env, "mapreduce_job_reduces=3") || !strings.Contains(env, "mapreduce_job_name=n-1-$ ") || strings.Contains(env, "hidden") {
		t.Error(env)
	}
	r := c.Check([]string{"mapred.reduce.tasks", "mapred.nonsense", "my.own", "map.colour", "min.words", "reduce.x", "io.sort.mb", "mapreduce.map.failures.maxpercent"})
	if len(r.Deprecated) != 2 || len(r.Warnings) != 2 || len(r.Errors) != 0 {
		t.Errorf("%+v", r)
	}
	c.Set("mapreduce.map.failures.maxpercent", "5")
	if r := c.Check([]string{"mapreduce.map.failures.maxpercent"}); len(r.Errors) != 1 {
		t.Errorf("%+v", r)
	}
	c.Set("mapred.reduce.tasks", "three")
	if r := c.Check([]string{"mapred.reduce.tasks"}); len(r.Errors) != 1 || r.Errors[0] != "mapred.reduce.tasks=three: want a whole number" {
		t.Errorf("%+v", r)
	}
	for option, s := range map[string]*Streaming{
		"SequenceFileInputFormat with -io typedbytes":  {InputFormat: "org.apache.hadoop.mapred.SequenceFileAsBinaryInputFormat", Reduces: -1},
		"SequenceFileOutputFormat with -io typedbytes": {OutputFormat: "SequenceFileAsBinaryOutputFormat", Reduces: -1},
	} {
		if err := (Conf{}).ApplyOptions(s); err == nil || !strings.Contains(err.Error(), option) {
			t.Errorf("%v, want %s", err, option)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []string{"j1", "j9999", "j10000", "j123456"} {
		n, err := NumberOf(ClusterStamp, id)
		if err != nil || n.Number < 1 || n.Number > 9999 {
			t.Errorf("%s: %+v, %v", id, n, err)
		}
		if back := ClusterJob(n.Job()); back != id {
			t.Errorf("%s is %s and then %s", id, n.Job(), back)
		}
		if back := ClusterJob(n.Application()); back != id {
			t.Errorf("%s is %s and then %s", id, n.Application(), back)
		}
	}
	n := JobNumber{1, 7}
	if n.Task('m', 3) != "task_1_0007_m_000003" || n.Attempt('r', 0, 2) != "attempt_1_0007_r_000000_2" || ClusterJob("j5") != "j5" {
		t.Error(n.Task('m', 3), n.Attempt('r', 0, 2))
	}
}

func TestNamespace(t *testing.T) {
	local := Namespace{Root: "/r", User: "ann"}
	remote := Namespace{Default: "hdfs://nn:8020", Root: "/r", User: "ann"}
	for _, c := range []struct{ typed, local, remote string }{
		{"a", "a", "hdfs://nn:8020/user/ann/a"},
		{"/a", "/a", "hdfs://nn:8020/a"},
		{"hdfs:///a", "/r/a", "hdfs://nn:8020/a"},
		{"hdfs:/a", "/r/a", "hdfs://nn:8020/a"},
		{"hdfs://x:1/a", "hdfs://x:1/a", "hdfs://x:1/a"},
		{"file:///a", "/a", "/a"},
		{"file:/a", "/a", "/a"},
		{"hdfs:///", "/r", "hdfs://nn:8020/"},
		{"hdfs:///a/../b/./c", "/r/b/c", "hdfs://nn:8020/a/../b/./c"},
		{"file:///../a", "/../a", "/../a"},
		{"s3a://b/a", "s3://b/a", "s3://b/a"},
		{"a:b", "a:b", "hdfs://nn:8020/user/ann/a:b"},
	} {
		if got, err := local.URI(c.typed); got != c.local || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.typed, got, err, c.local)
		}
		if got, err := remote.URI(c.typed); got != c.remote || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.typed, got, err, c.remote)
		}
	}
	for typed, want := range map[string]error{
		"": ErrEmptyPath, "hdfs:": nil, "file:": nil, "s3a:": nil,
		"hdfs:///../x": storage.ErrOutside, "hdfs:/../x": storage.ErrOutside, "hdfs:///a/../../x": storage.ErrOutside, "hdfs:///..": storage.ErrOutside,
		"hdfs://nn/../x": storage.ErrOutside, "s3a://b/../other/x": storage.ErrOutside, "s3://b/a/../../other": storage.ErrOutside,
	} {
		for _, n := range []Namespace{local, remote} {
			if got, err := n.URI(typed); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%q under %q: %s, %v, want %v", typed, n.Default, got, err, want)
			}
		}
	}
	for uri, want := range map[string]string{"/r/a": "hdfs:///a", "file:///r/a": "hdfs:///a", "/rr/a": "file:///rr/a", "s3://b/c": "s3://b/c"} {
		if got := DisplayURI(uri, "/r"); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

func TestAggregators(t *testing.T) {
	for _, c := range []struct{ key, values, result, partial string }{
		{"LongValueSum:x", "1 2 3", "6", "6"},
		{"longvaluemax:x", "1 -2 3", "3", "3"},
		{"LongValueMin:x", "1 -2 3", "-2", "-2"},
		{"DoubleValueSum:x", "1 0.5", "1.5", "1.5"},
		{"DoubleValueSum:x", "5000000000 5000000000", "1.0E10", "1.0E10"},
		{"StringValueMax:x", "a c b", "c", "c"},
		{"StringValueMin:x", "b a c", "a", "a"},
		{"UniqValueCount:x", "a b a", "2", "a b"},
		{"ValueHistogram:x", "a b a", "2\t1\t2\t2\t1.5\t0.5", "a\t2 b\t1"},
	} {
		a, id, err := NewAggregator([]byte(c.key), -1)
		if err != nil || string(id) != "x" {
			t.Fatal(err)
		}
		for _, v := range strings.Fields(c.values) {
			if err := a.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		if a.Result() != c.result || strings.Join(a.Partial(), " ") != c.partial {
			t.Errorf("%s of %s: %q, %q", c.key, c.values, a.Result(), a.Partial())
		}
	}
	for _, bad := range []string{"x", "Sum:x", ""} {
		if _, _, err := NewAggregator([]byte(bad), -1); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestBuiltinClass(t *testing.T) {
	for in, want := range map[string]string{
		"IdentityMapper": "IdentityMapper", "org.apache.hadoop.mapred.lib.IdentityReducer": "IdentityReducer", "cat": "", "./IdentityMapper -x": "",
	} {
		if got, err := BuiltinClass(in); got != want || err != nil {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	if _, err := BuiltinClass("org.apache.hadoop.mapred.lib.FieldSelectionMapReduce"); err == nil {
		t.Error("an unknown class is accepted")
	}
}

// TestExpandBounded expands properties that refer to each other: chains of doubled references and circles end at
// once, whether the values have bytes or not.
func TestExpandBounded(t *testing.T) {
	for _, last := range []string{"", "x", "${p0}", strings.Repeat("y", 1<<20)} {
		c := Conf{"p20": last}
		for i := range 20 {
			ref := fmt.Sprintf("${p%d}", i+1)
			c[fmt.Sprintf("p%d", i)] = strings.Repeat(ref, 10)
		}
		if got := c.Get("p0", ""); len(got) > maxExpanded+2*len(last)+maxExpansions*10*len("${p20}")+1000 {
			t.Errorf("last %.5q: %d bytes", last, len(got))
		}
	}
	c := Conf{"a": "1${b}2${none}${open", "b": "<${c}>", "c": "3"}
	if got := c.Get("a", ""); got != "1<3>2${none}${open" {
		t.Errorf("got %q", got)
	}
}

// TestKeyPositions refuses positions beyond 31 bits: added to an offset in the key they would overflow.
func TestKeyPositions(t *testing.T) {
	for _, options := range []string{"-k2.9223372036854775807", "-k2,2.9223372036854775807", "-k9223372036854775808", "-k-1", "-k1,-1", "-k1."} {
		if _, err := NewKeySpec(options, "\t"); err == nil {
			t.Errorf("%s: no error", options)
		}
	}
	spec, err := NewKeySpec("-k2.2147483647,3.2147483647", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if got := KeyOf(spec.AppendSortKey(nil, []byte("a\tb\tc"))); string(got) != "a\tb\tc" {
		t.Errorf("key %q", got)
	}
}
