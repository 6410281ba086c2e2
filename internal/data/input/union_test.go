package input

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/format"
)

// TestUnion: planning opens all files for the union of their columns, in the order of the files; the schema
// has the same columns. A column that no file has, text among the files and a damaged file are errors.
func TestUnion(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 40 {
		write(fmt.Sprintf("in/p=%02d/a.csv", i), fmt.Sprintf("c%d,same\n1,x\n", i/2))
		if i%2 == 0 {
			want = append(want, fmt.Sprintf("c%d", i/2))
		}
		if i == 0 {
			want = append(want, "same", "p")
		}
	}
	write("in/p=40/empty.csv", "")
	plan := func(choice format.Choice) ([]Split, error) {
		t.Helper()
		rows, err := choice.Spec()
		if err != nil {
			t.Fatal(err)
		}
		return Plan(t.Context(), Options{Inputs: []string{filepath.Join(dir, "in")}, Rows: rows})
	}
	splits, err := plan(format.Choice{Format: "csv", Missing: "null"})
	if err != nil || !slices.Equal(splits[0].First.Columns, want) {
		t.Fatalf("%v: %v", splits, err)
	}
	splits, err = plan(format.Choice{Format: "csv", Missing: "null", Where: []string{"p>=38"}, Columns: []string{"c19", "p"}})
	if err != nil || len(splits) != 1 || len(splits[0].Pieces) != 2 || splits[0].First != nil {
		t.Fatalf("%v: %v", splits, err)
	}
	s, err := ReadSchema(t.Context(), Options{Inputs: []string{filepath.Join(dir, "in")}})
	if err != nil || len(s.Files) != 41 || len(s.Columns) != 22 {
		t.Fatalf("%+v: %v", s, err)
	}
	for _, c := range s.Columns {
		count, kind := 2, "int"
		switch c.Name {
		case "same":
			count, kind = 40, "string"
		case "p":
			count = 40
		}
		if c.Files != count || len(c.Without) != 40-count || c.Type != kind && c.Name != "p" || c.InPath != (c.Name == "p") {
			t.Errorf("%+v", c)
		}
	}
	for _, bad := range []struct {
		choice format.Choice
		want   string
	}{
		{format.Choice{Format: "csv", Missing: "null", Columns: []string{"d"}}, `the input has no column "d" in any of its files (40)`},
		{format.Choice{Format: "csv", Missing: "null", Where: []string{"d=1"}}, `the input has no column "d" in any of its files (40)`},
		{format.Choice{Format: "csv", Missing: "error"}, "its columns are not the columns of"},
		{format.Choice{Format: "csv", Missing: "null", Where: []string{"p=7"}, Columns: []string{"c9"}}, `the input has no column "c9" in any of its files (1)`},
	} {
		splits, err := plan(bad.choice)
		if err == nil { // found when a task opens its file
			r, openErr := Open(t.Context(), nil, splits[0], Format{}, 0)
			for err = openErr; err == nil; {
				_, err = r.NextBlock()
			}
		}
		if !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v", bad.choice, err)
		}
	}
}
