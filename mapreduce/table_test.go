package mapreduce

import (
	"reflect"
	"strconv"
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

// place is embedded in the rows of TestEmbeddedColumns.
type place struct {
	City string
	Zip  int `column:"-"`
}

// Money writes itself as text. So does a struct that embeds it.
type Money struct{ cents int }

// MarshalText implements encoding.TextMarshaler.
func (m Money) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(m.cents), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Money) UnmarshalText(b []byte) (err error) {
	m.cents, err = strconv.Atoi(string(b))
	return err
}

// Town is a string that is embedded.
type Town string

// The fields of an embedded struct are columns, or none is if the tag leaves the struct out.
func TestEmbeddedColumns(t *testing.T) {
	type Base struct{ A, B int }
	for _, c := range []struct{ got, want string }{
		{TableOf[struct {
			place
			N int
		}]().Input("csv").Rows, "City,N"},
		{TableOf[struct {
			place `column:"-"`
			N     int
		}]().Input("csv").Rows, "N"},
		{TableOf[struct {
			Base `column:"-"`
			A    int
		}]().Input("csv").Rows, "A"},
		{TableOf[struct {
			*Base `column:"-"`
			N     int
		}]().Input("csv").Rows, "N"},
		{TableOf[struct {
			time.Time
			Money
			Town
		}]().Input("csv").Rows, "Time,Money,Town"},
		{TableOf[struct {
			Money `column:"fare"`
			Base
		}]().Input("csv").Rows, "fare,A,B"},
		{TableOf[struct{ Event }]().Input("csv").Rows, "Time,Name"},
	} {
		if c.got != "csv,columns="+c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	type row struct {
		place
		Money
		Town
	}
	table, want := TableOf[row](), row{place{City: "a"}, Money{5}, "b"}
	if got, err := table.Decode(table.Append(nil, want)); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// A time.Time takes dates and timestamps as lines have them, without a zone in UTC.
func TestTimeColumns(t *testing.T) {
	table := TableOf[struct {
		At   time.Time
		Then *time.Time
	}]()
	whole := time.Date(2024, 5, 1, 8, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2024-05-01T08:30:00.25": whole.Add(250 * time.Millisecond), "2024-05-01T08:30:00": whole, "2024-05-01 08:30:00.123456789": whole.Add(123456789),
		"2024-05-01": time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), "2024-05-01T08:30:00Z": whole, "2024-05-01T10:30:00.5+02:00": whole.Add(time.Second / 2),
		"2024-05-01 10:30:00+02:00": whole, "2024-05-01 08:30:00Z": whole, "": {}, `\N`: {},
	} {
		got, err := table.Decode([]byte(text + "\t" + text))
		then := time.Time{}
		if got.Then != nil {
			then = *got.Then
		}
		if err != nil || !got.At.Equal(want) || !then.Equal(want) || (got.Then == nil) != want.IsZero() {
			t.Errorf("%q: %v, %v, %v", text, got.At, got.Then, err)
		}
	}
	for _, text := range []string{"08:30:00", "2024-13-01", "2024-05-01T", "1714552200", "2024-05-01T08:30:00.25 ", "01/05/2024"} {
		if _, err := table.Decode([]byte(text + "\t")); err == nil || !strings.Contains(err.Error(), "column At: ") || !strings.Contains(err.Error(), "is neither a date nor a timestamp, such as 2024-05-01") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Event has the text of its time only.
type Event struct {
	time.Time
	Name string
}

// Deep has an embedded pointer, and is embedded itself.
type Deep struct{ *Money }

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
		{TableOf[struct {
			*place
			N int
		}]().Limits, "the field place of struct { *mapreduce.place; N int }: an embedded pointer may be nil"},
		{TableOf[struct{ Deep }]().Limits, "the field Money of struct { mapreduce.Deep }: an embedded pointer may be nil, and then its fields have no place; embed mapreduce.Money, or give the field the tag column:\"-\""},
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
