package format

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		text, field string
		is          class
		want        bool
	}{
		{"a=1", "1", classNumber, true},
		{"a=1", "01", classText, true}, // of CSV
		{"a='1'", "01", classText, false},
		{"a=1", "x", classText, false},
		{"a!=1", "x", classText, true},
		{"a<5", "x", classText, false},
		{"a<5", "NaN", classNumber, false},
		{"a<10", "9", classText, true},
		{"a<'10'", "9", classText, false},
		{"a >= 2.5", "2.50", classNumber, true},
		{"a=9007199254740993", "9007199254740992", classNumber, false},
		{"a<0.10000000000000000001", "0.1", classNumber, true},
		{"a=18446744073709551615", "18446744073709551614", classNumber, false},
		{"a<>b", "c", classText, true},
		{"a='it''s'", "it's", classText, true},
		{"a=''", "", classText, true},
		{"a=true", "true", classText, true},
		{"a=true", "True", classUntyped, true}, // schema calls such a column bool
		{"a!=true", "TRUE", classUntyped, false},
		{"a=FALSE", "false", classUntyped, true},
		{"a<true", "False", classUntyped, true},
		{"a=true", "yes", classUntyped, false},
		{"a='true'", "True", classUntyped, false},
		{"a=true", "True", classText, false}, // declared as text
		{"a=Infinity", "+Inf", classNumber, true},
		{"a>=-inf", "-Inf", classNumber, true},
		{"a>1e300", "+Inf", classNumber, true},
		{"a<5", "-Inf", classNumber, true},
		{"a<inf", "5", classNumber, true},
		{"a!=+Inf", "NaN", classNumber, true},
		{"a>=-Inf", "NaN", classNumber, false},
		{"a>5", "Inf", classText, false}, // a word
		{"a=Infinity", "Infinity", classText, true},
		{"a='inf'", "inf", classText, true},
		{"a='<b>'", "<b>", classText, true},
		{`a='"0"'`, `"0"`, classText, true},
		{"a=''''", "'", classText, true},
		{"d>=2024-1-5", "2024-01-05", classTime, true},
		{"d>=2024-1-5", "2024-01-04", classTime, false},
		{"d='2024-01-05'", "2024-01-05", classTime, true},
		{"d>=2024-01-01", "10000-01-01", classTime, true},
		{"d>=2024-01-01", "-0001-12-31", classTime, false},
		{"d<10000-01-01", "9999-12-31", classTime, true},
		{"t>=2024-01-01T10:00:00+02:00", "2024-01-01T08:00:00Z", classTime, true},
		{"t>=2024-01-01T10:00:00+02:00", "2024-01-01T07:59:59.999Z", classTime, false},
		{"t=2024-01-01T08:00:00+00:00", "2024-01-01T08:00:00Z", classTime, true},
		{"t=2023-12-31 22:30-0930", "2024-01-01T08:00:00Z", classTime, true},
		{"t>2024-01-01T08:00Z", "2024-01-01T08:00:00Z", classTime, false},
		{"t<2024-01-01T08", "2024-01-01T07:59:59", classTime, true},
		{"t<1969-12-31T23:59:59.5", "1969-12-31T23:59:59.25", classTime, true},
		{"t=10:00", "10:00:00", classTime, true},
		{"t>9:30", "10:00:00.5", classTime, true},
		{"t=10:00", "2024-01-01T10:00:00", classTime, false},
		{"t<2024-05-01T08:30:00.25Z", "2024-05-01T08:30:00Z", classTime, true},
		{"t=2024-05-01", "2024-05-01T00:00:00", classTime, true},
		{"t>2024-05-01 08:30:00.1", "2024-05-01T08:30:00.10Z", classTime, false},
		{"d>=2024-05-10", "2024-5-9", classUntyped, false},
		{"d<2024-05-10", "2024-5-9", classUntyped, true},
		{"d=2024-05-01", "2024-05-01 00:00:00", classUntyped, true},
		{"d>=2024-05-01", "n/a", classUntyped, false},
		{"d!=2024-05-01", "n/a", classUntyped, true},
		{"t>9:30", "10:00", classUntyped, true},
		{"t>9:30", "2024-05-01T10:00", classUntyped, false},
		{"t>=2024-05-01T10:00+02:00", "2024-05-01T08:00Z", classUntyped, true},
		{"d>='2024-05-10'", "2024-5-9", classUntyped, true}, // texts
		{"d>=2024-05-10", "2024-5-9", classText, true},      // declared as text
		{"a<10", "9", classUntyped, true},
	} {
		w, err := ParseCondition(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.match([]byte(c.field), false, c.is); got != c.want {
			t.Errorf("%s for %q: %v", c.text, c.field, got)
		}
		again, err := ParseCondition(w.String())
		if err != nil || again.match([]byte(c.field), false, c.is) != c.want || again.value != w.value {
			t.Errorf("%s becomes %s: %v", c.text, w.String(), err)
		}
		if w.match(nil, true, c.is) {
			t.Errorf("%s holds for null", c.text)
		}
	}
	for _, bad := range []string{"", "a", "=1", "a!1", `a<\N`} {
		if _, err := ParseCondition(bad); err == nil {
			t.Errorf("%q is a condition", bad)
		}
	}
	for bad, want := range map[string]string{
		"a==0": "a value cannot begin with =: write the operator once", "a=>0": "cannot begin with >", "a=<1": "cannot begin with <",
		"a=!0": "cannot begin with !", `a="0"`: "in single quotes, not in double ones", "a='0": "in single quotes ends with one", "a='": "ends with one",
		"a='''": "ends with one", "a='b' or c='d'": "a --where of its own",
	} {
		if _, err := ParseCondition(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
}

// A text that is no date and no time is refused for columns of these types, when a file is opened.
func TestCheckType(t *testing.T) {
	for _, c := range []struct {
		text, kind string
		ok         bool
	}{
		{"d=2024-05-01", "date", true}, {"d>'2024-05-01 08:30:00.123456789-02'", "timestamp", true}, {`d!=\N`, "date", true},
		{"d=08:30", "time", true}, {"d=yesterday", "string", true}, {"d=-0044-03-15", "timestamp UTC", true},
		{"d=yesterday", "date", false}, {"d=20240501", "date", false}, {"d=2024-02-30", "date", false}, {"d=2024-13-01", "date", false},
		{"d=24-05-01", "date", false}, {"d=2024-05-01x", "date", false}, {"d=2024-05-01T", "timestamp", false},
		{"d=2024-05-01T08:60", "timestamp", false}, {"d=2024-05-01T08:30:00.", "timestamp", false}, {"d=2024-05-01T08:30+25:00", "timestamp", false},
		{"d=08:30", "date", false}, {"d=2024-05-01", "time", false}, {"d=24:00", "time", false}, {"d=08:30Z", "time", false}, {"d=8", "time", false},
	} {
		w, err := ParseCondition(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.checkType(c.kind); (err == nil) != c.ok {
			t.Errorf("%s for a %s: %v", c.text, c.kind, err)
		}
	}
}

// A group may be excluded only if none of the values between its bounds meets the condition.
func TestExcludes(t *testing.T) {
	for _, op := range operators {
		for value := range 9 {
			w, err := ParseCondition("a" + op + string(rune('0'+value)))
			if err != nil {
				t.Fatal(err)
			}
			for low := range 9 {
				for high := low; high < 9; high++ {
					holds := false
					for v := low; v <= high; v++ {
						holds = holds || w.match([]byte{byte('0' + v)}, false, classNumber)
					}
					got := w.Excludes([]byte{byte('0' + low)}, []byte{byte('0' + high)}, true, false)
					if got && holds || !got && !holds && w.op != "!=" {
						t.Fatalf("a%s%d, values %d to %d: excluded %v, some hold %v", op, value, low, high, got, holds)
					}
				}
			}
		}
	}
	w, _ := ParseCondition("a<10")
	if w.Excludes([]byte("2"), []byte("9"), false, false) {
		t.Error("bounds in the order of bytes exclude a group for a condition on numbers")
	}
}

func TestPartitionsOf(t *testing.T) {
	got := PartitionsOf("hdfs:///a=1/b/c%20d=x%2Fy%25/n=__HIVE_DEFAULT_PARTITION__/e=/=5/a=2/bad=%zz/f=file.csv")
	want := []Partition{{"c d", "x/y%", false}, {"n", "", true}, {"e", "", false}, {"a", "2", false}, {"bad", "%zz", false}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What a task reads of a split's format is what planning has written.
func TestChoiceAsText(t *testing.T) {
	c := Choice{Format: "csv,separator=;", Missing: "null", Where: []string{"a='x,y%'", "b>=2", `c!=\N`, "d='columns=,5'"}, Columns: []string{"a", "b,c"}}
	s, err := c.Spec()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(s.String())
	if err != nil || again.String() != s.String() || again.Missing != "null" || len(again.Where) != 4 || again.Where[0].value != "x,y%" || again.Where[3].value != "columns=,5" {
		t.Errorf("%s, %+v: %v", s.String(), again, err)
	}
	for flag, bad := range map[string]Choice{"--where": {Where: []string{"x"}}, "--missing": {Missing: "x"}, "--format": {Format: "x"}, "--columns": {Columns: []string{"a", "a"}}} {
		if _, err := bad.Spec(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Fields of the path and missing ones are at their places, also in JSON objects and between others.
func TestSelect(t *testing.T) {
	const csv = "a,p,b\n1,old,x\n2,old,\n3,old,z\n"
	partitions := []Partition{{Name: "p", Value: "new\t"}, {Name: "q", Null: true}}
	for spec, want := range map[string]string{
		"csv":                         "1\tnew\\t\tx\t\\N\n2\tnew\\t\t\\N\t\\N\n3\tnew\\t\tz\t\\N\n",
		"csv,columns=q,a":             "\\N\t1\n\\N\t2\n\\N\t3\n",
		"csv,columns=p":               "new\\t\nnew\\t\nnew\\t\n",
		"csv,as=json,columns=a,q,p":   `{"a":"1","q":null,"p":"new\t"}` + "\n" + `{"a":"2","q":null,"p":"new\t"}` + "\n" + `{"a":"3","q":null,"p":"new\t"}` + "\n",
		"csv,where=a>1,columns=b":     "\\N\nz\n",
		"csv,where=p=old":             "",
		`csv,where=b!=\N,where=a<3`:   "1\tnew\\t\tx\t\\N\n",
		"csv,missing=null,columns=z":  "\\N\n\\N\n\\N\n",
		"csv,missing=null,where=z=1":  "",
		"csv,partitions=no,columns=p": "old\nold\nold\n",
	} {
		s, err := Parse(spec)
		if err != nil {
			t.Fatal(spec, err)
		}
		src := &Source{Text: strings.NewReader(csv), Size: int64(len(csv)), To: int64(len(csv)), Partitions: partitions}
		if s.NoPartitions {
			src.Partitions = nil
		}
		r, err := Open(src, s)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q (%v)", spec, got, want, err)
		}
	}
	for where, want := range map[string]string{"day<2024-05-10": "9\n", "day>=2024-05-10": "", "day<'2024-05-10'": "", "t>2024-05-09": "9\n", "t='2024-05-09T01:00'": ""} {
		s, err := Parse("csv,where=" + where + ",columns=a")
		if err != nil {
			t.Fatal(where, err)
		}
		const dates = "a,t\n9,2024-05-09T03:00+02:00\n"
		r, err := Open(&Source{Text: strings.NewReader(dates), Size: int64(len(dates)), To: int64(len(dates)), Partitions: []Partition{{Name: "day", Value: "2024-5-9"}}}, s)
		if err != nil {
			t.Fatal(where, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q (%v)", where, got, want, err)
		}
	}
	const objects = `{"a":1,"b":"x"}` + "\n" + `{"b":"y"}` + "\n"
	for spec, want := range map[string]string{
		"json":                       objects,
		"json,where=a=1":             `{"a":1,"b":"x"}` + "\n",
		"json,where=a=1,columns=b,p": "x\tnew\\t\n",
		"json,columns=a":             "1\n\\N\n",
	} {
		s, err := Parse(spec)
		if err != nil {
			t.Fatal(spec, err)
		}
		r, err := Open(&Source{Text: strings.NewReader(objects), Size: int64(len(objects)), To: int64(len(objects)), Partitions: partitions}, s)
		if err != nil {
			t.Fatal(spec, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q (%v)", spec, got, want, err)
		}
	}
	s, _ := Parse("json,missing=error,columns=a")
	r, err := Open(&Source{Text: strings.NewReader(objects), Size: int64(len(objects)), To: int64(len(objects))}, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "line 2: the object has no column a") {
		t.Error(err)
	}
	if !slices.Equal(s.Columns, []string{"a"}) {
		t.Error(s.Columns)
	}
}
