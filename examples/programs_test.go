package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The programs of the module examples/programs are built outside this module, as an
// author's are. These have at most 60 lines each.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users":   "1\tann\n2\tbob\n",
		"orders":  "1\ttea\n1\trice\n3\tsalt\n",
		"amounts": "Oslo 5 ann\nRome 7 bob\nOslo 12 cem\nOslo 9 dag\n",
		"text":    "the cat\nthe elephant sat\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := filepath.Abs(filepath.Join("..", "internal", "data", "format", "parquet", "testdata", "snappy.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"join --input users=users.txt --input orders=orders.txt", "ann\ttea\nann\trice\n"},
		{"largest --n 2 --input amounts.txt", "Oslo\t12 cem\nOslo\t9 dag\nRome\t7 bob\n"},
		{"topwords --n 3 --input text.txt", "elephant\ncat\nsat\n"},
		{"sums --by b --of id --input " + rows, "\t4158\nfalse\t20344\ntrue\t20348\n"},
		{"chain --input text.txt", "the\t2\ncat\t1\nelephant\t1\nsat\t1\n"},
	} {
		words := strings.Fields(c.command)
		source, err := os.ReadFile(filepath.Join("programs", words[0], "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(source, []byte("\n")); n > 60 {
			t.Errorf("%s has %d lines", words[0], n)
		}
		output := words[0] + "-output"
		run := exec.Command(filepath.Join(programs(t), words[0]), append(words[1:], "--output", output, "--reduces", "2", "--workers", "1", "--quiet")...)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.command, err, out)
			continue
		}
		parts, err := filepath.Glob(filepath.Join(dir, output, "part-*"))
		if err != nil || len(parts) == 0 {
			t.Fatal(parts, err)
		}
		var got strings.Builder
		for _, p := range parts {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(text)
		}
		if sorted(got.String()) != sorted(c.want) || words[0] == "chain" && got.String() != c.want {
			t.Errorf("%s:\n%swant\n%s", c.command, &got, c.want)
		}
	}
}

// sorted returns the lines in order.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
