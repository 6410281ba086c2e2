package policies

import (
	"os"
	"regexp"
	"testing"
)

// The tables of the policies' pages have the parameters that the registry has,
// with their defaults.
func TestLearningPages(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (?:`([^`]*)`|none) \\|")
	for _, name := range []string{"learning-nb", "learning-perceptron"} {
		page, err := os.ReadFile("../docs/policies/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]string{}
		for _, m := range row.FindAllStringSubmatch(string(page), -1) {
			written[m[1]] = m[2]
		}
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range info.Parts[:2] { // slots and order
			for _, p := range part.Params {
				if d, ok := written[p.Name]; !ok || d != p.Default {
					t.Errorf("%s: the page has %q for %s (%v), the registry %q", name, d, p.Name, ok, p.Default)
				}
				delete(written, p.Name)
			}
		}
		if len(written) > 0 {
			t.Errorf("%s: the page has parameters that are none: %v", name, written)
		}
	}
}
