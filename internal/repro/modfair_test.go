package repro

import (
	"context"
	"reflect"
	"testing"
)

// quickly runs a quick experiment by its name.
func quickly(t *testing.T, id string) *Report {
	t.Helper()
	found, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	r, err := found[0].Run(context.Background(), Options{Quick: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestModfairExample(t *testing.T) {
	r := quickly(t, "modfair/fig4-5")
	want := [][]string{{"FIFO", "40.0", "60.0", "80.0", "60.0", "60.0"}, {"Fair", "120.0", "120.0", "120.0", "120.0", "120.0"}}
	if !reflect.DeepEqual(r.Tables[0].Rows, want) || r.Claims[0].Verdict != AsPrint {
		t.Errorf("%v", r.Tables[0].Rows)
	}
}
