package mapreduce

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// trip has a column of each kind.
type trip struct {
	City   string    `column:"city"`
	Fare   *float64  `column:"fare"`
	Riders int32     `column:"riders"`
	Meter  uint64    `column:"meter"`
	Raw    []byte    `column:"raw"`
	Cash   bool      `column:"cash"`
	At     time.Time `column:"at"`
	Note   *string
	Skip   chan int `column:"-"`
	hidden int
}

// Decoding restores each row, with its escapes and nulls.
func TestTable(t *testing.T) {
	table := TableOf[trip]()
	if in, out := table.Input("csv"), table.Output("parquet"); in.Rows != "csv,columns=city,fare,riders,meter,raw,cash,at,Note" ||
		out.Rows != "parquet,columns=city:string,fare:float,riders:int,meter:int,raw:bytes,cash:bool,at:string,Note:string" {
		t.Errorf("input %s, output %s", in.Rows, out.Rows)
	}
	hard := rapid.OneOf(rapid.SampledFrom([]string{"", "\t", `\N`, `\`, "\n\r", "a\tb"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		want := trip{
			City: hard.Draw(t, "city"), Riders: rapid.Int32().Draw(t, "riders"), Meter: rapid.Uint64Max(1<<63-1).Draw(t, "meter"),
			Raw: []byte(hard.Draw(t, "raw")), Cash: rapid.Bool().Draw(t, "cash"),
			At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 5).UTC(),
		}
		if rapid.Bool().Draw(t, "fare") {
			fare := rapid.Float64().Draw(t, "fare")
			note := hard.Draw(t, "note")
			want.Fare, want.Note = &fare, &note
		}
		line := table.Append(nil, want)
		if got, err := table.Decode(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v comes back as %+v, %v from %q", want, got, err, line)
		}
	})
	got, err := table.Decode([]byte("a\t\t\t\\N\t\\N\t\t\\N\t\\N"))
	if err != nil || !reflect.DeepEqual(got, trip{City: "a"}) {
		t.Errorf("nulls are %+v, %v", got, err)
	}
}

// Rows and types that do not fit are errors that name the column.
func TestTableErrors(t *testing.T) {
	table := TableOf[trip]()
	for line, want := range map[string]string{
		"a\tb": "has 2 fields, and a mapreduce.trip has 8 columns",
		"a\tx\t1\t1\t\ttrue\t2026-01-02T03:04:05Z\t":     `column fare: "x" is no value of type float64: invalid syntax`,
		"a\t1\t3000000000\t1\t\ttrue\t\\N\t":             "column riders: \"3000000000\" is no value of type int32: value out of range",
		"a\t1\t1\t-1\t\ttrue\t\\N\t":                     "column meter: ",
		"a\t1\t1\t1\t\tmaybe\t\\N\t":                     "column cash: ",
		"a\t1\t1\t1\t\ttrue\tyesterday\t":                "column at: ",
		"a\t1\t1\t1\t\ttrue\t2026-01-02T03:04:05Z\t\t\t": "has 10 fields",
	} {
		if _, err := table.Decode([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	for _, c := range []struct {
		limits func() (KeyUse, error)
		want   string
	}{
		{TableOf[int]().Limits, "a table needs a struct type, not int"},
		{TableOf[struct{}]().Limits, "no exported field"},
		{TableOf[struct{ A map[string]int }]().Limits, "the field A of struct { A map[string]int }: no column holds values of type map[string]int"},
		{TableOf[struct{ A struct{ B int } }]().Limits, "the field A"},
		{TableOf[struct {
			A int `column:"a,b"`
		}]().Limits, "has a comma"},
	} {
		if _, err := c.limits(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "column meter of a mapreduce.trip: 9223372036854775808 is too large") {
			t.Errorf("a large number: %v", err)
		}
	}()
	table.Append(nil, trip{Meter: 1 << 63, hidden: 1})
}
