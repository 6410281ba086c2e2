package parquet

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// mapFile returns a file with one row, whose map has the given keys.
func mapFile(t *testing.T, key parquet.Node, keys ...parquet.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	schema := parquet.NewSchema("r", parquet.Group{"m": parquet.Map(key, parquet.Int(32))})
	w := parquet.NewWriter(&b, schema)
	var row parquet.Row
	for i, k := range keys {
		row = append(row, k.Level(min(i, 1), 1, 0))
	}
	for i := range keys {
		row = append(row, parquet.Int32Value(int32(i)).Level(min(i, 1), 1, 1))
	}
	if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestMapKeys: a key's name is the key as a JSON value, without quotes. Two equal
// keys are an error and never one entry.
func TestMapKeys(t *testing.T) {
	text := func(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) }
	for name, c := range map[string]struct {
		key  parquet.Node
		keys []parquet.Value
		want string
	}{
		"text":    {parquet.String(), []parquet.Value{text("a"), text(`q"ä`)}, `{"m":{"a":0,"q\"ä":1}}`},
		"bytes":   {parquet.Leaf(parquet.ByteArrayType), []parquet.Value{text("ab"), text("\xff")}, `{"m":{"/w==":1,"YWI=":0}}`},
		"numbers": {parquet.Int(32), []parquet.Value{parquet.Int32Value(5), parquet.Int32Value(-1)}, `{"m":{"-1":1,"5":0}}`},
		"flags":   {parquet.Leaf(parquet.BooleanType), []parquet.Value{parquet.BooleanValue(true), parquet.BooleanValue(false)}, `{"m":{"false":1,"true":0}}`},
		"days":    {parquet.Date(), []parquet.Value{parquet.Int32Value(19724)}, `{"m":{"2024-01-02":0}}`},
	} {
		got, err := lines(mapFile(t, c.key, c.keys...), "parquet,as=json")
		if err != nil || got != c.want+"\n" {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	_, err := lines(mapFile(t, parquet.String(), text("a"), text("b"), text("a")), "parquet,as=json")
	if err == nil || !strings.Contains(err.Error(), `a map has the key "a" twice`) {
		t.Errorf("equal keys: %v", err)
	}
}

// TestOldLists reads lists as old writers encode them. The annotation LIST decides, not the names of the fields:
// records with the fields key and value are no map, and an inner field may have any name.
func TestOldLists(t *testing.T) {
	number := parquet.Required(parquet.Leaf(parquet.Int32Type))
	pair := parquet.Group{"key": number, "value": number}
	for name, c := range map[string]struct {
		repeated parquet.Node
		field    string // the repeated field's name
		want     string
		without  string // the same without the annotation
	}{
		"numbers":      {number, "array", `[1,1]`, `[1,1]`},
		"other name":   {number, "x", `[1,1]`, `{"x":[1,1]}`},
		"records":      {pair, "array", `[{"key":1,"value":1},{"key":1,"value":1}]`, ""},
		"other group":  {parquet.Group{"x": number}, "items", `[1,1]`, `{"items":[{"x":1},{"x":1}]}`},
		"one field":    {parquet.Group{"x": number}, "array", `[{"x":1},{"x":1}]`, `[{"x":1},{"x":1}]`},
		"tuple":        {parquet.Group{"x": number}, "l_tuple", `[{"x":1},{"x":1}]`, `{"l_tuple":[{"x":1},{"x":1}]}`},
		"lists inside": {parquet.Group{"x": parquet.Repeated(number)}, "items", `[{"x":[1]},{"x":[1]}]`, `{"items":[{"x":[1]},{"x":[1]}]}`},
	} {
		schema := parquet.NewSchema("r", parquet.Group{"l": parquet.Group{c.field: parquet.Repeated(c.repeated)}})
		var row parquet.Row
		for column, path := range schema.Columns() {
			leaf, _ := schema.Lookup(path...)
			for item := range 2 {
				row = append(row, parquet.Int32Value(1).Level(item, leaf.MaxDefinitionLevel, column))
			}
		}
		var b bytes.Buffer
		w := parquet.NewGenericWriter[any](&b, schema)
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := lines(b.Bytes(), "parquet"); c.without != "" && (err != nil || got != c.without+"\n") {
			t.Errorf("%s, without an annotation: %s, %v; want %s", name, got, err, c.without)
		}
		meta, at := footer(t, b.Bytes())
		meta.Schema[1].ConvertedType = thrift.New(deprecated.List)
		if got, err := lines(withFooter(t, b.Bytes()[:at], meta), "parquet"); err != nil || got != c.want+"\n" {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}
