package mapreduce_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

// TestAppendField: Record finds the fields that AppendField makes.
func TestAppendField(t *testing.T) {
	line := mapreduce.AppendField(mapreduce.AppendField(mapreduce.AppendField(nil, []byte("a\tb\\")), nil), []byte(`\N`))
	var r mapreduce.Record
	if r.Parse(line); r.Len() != 3 || r.String(0) != "a\tb\\" || !r.IsNull(1) || r.IsNull(2) || r.String(2) != `\N` {
		t.Errorf("%q", line)
	}
}

func TestRecord(t *testing.T) {
	var r mapreduce.Record
	r.Parse([]byte(`a\tb\\n` + "\t12\t-1.5\t" + `\N` + "\t"))
	if r.Len() != 5 || r.String(0) != "a\tb\\n" || r.Int(1) != 12 || r.Float(2) != -1.5 || !r.IsNull(3) || r.Bytes(3) != nil || r.Int(3) != 0 {
		t.Errorf("%d fields, %q", r.Len(), r.String(0))
	}
	if r.IsNull(4) || !bytes.Equal(r.Bytes(4), []byte{}) || r.Err() != nil {
		t.Errorf("an empty field: %q, %v", r.Bytes(4), r.Err())
	}
	for want, use := range map[string]func(){
		"field 0": func() { r.Int(0) }, "field 3, \"x\", is no number": func() { r.Float(3) }, "has no field 9": func() { r.Bytes(9) },
	} {
		r.Parse([]byte("a\tb\tc\tx"))
		if use(); r.Err() == nil || !strings.Contains(r.Err().Error(), want) {
			t.Errorf("got %v, want %q", r.Err(), want)
		}
	}
}
