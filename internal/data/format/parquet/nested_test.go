package parquet

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
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
