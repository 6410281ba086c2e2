package policies

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched"
)

// parameterRow matches a row of a table of parameters: name, default, meaning.
var parameterRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (`([^`]*)`|none) \\|")

// The page of a policy lists every parameter of the policy once, with its default, and no
// other. It lists the values that each profile sets.
func TestPagesListParameters(t *testing.T) {
	for _, name := range append([]string{"statictags", "dynamictags"}, baselines...) {
		page, err := os.ReadFile(filepath.Join("..", "docs", "policies", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(page), "\n## Parameters")
		text, _, _ = strings.Cut(text, "\n## ")
		said := map[string]string{}
		for _, row := range parameterRow.FindAllStringSubmatch(text, -1) {
			if _, twice := said[row[1]]; twice {
				t.Errorf("%s: the page names %s twice", name, row[1])
			}
			said[row[1]] = row[3]
		}
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]string{}
		for _, part := range info.Parts {
			for _, p := range part.Params {
				has[p.Name] = p.Default
			}
		}
		if d := cmp.Diff(has, said); d != "" {
			t.Errorf("%s: parameters (-) and page (+) differ:\n%s", name, d)
		}
		for _, p := range info.Profiles {
			for k, v := range p.Set {
				if !strings.Contains(text, k+"="+v) {
					t.Errorf("%s: the page does not say that %s sets %s=%s", name, p.Name, k, v)
				}
			}
		}
	}
}

// A profile sets existing parameters to valid values. Policies may share a profile that
// sets parameters of only some of them.
func TestProfilesAreWhole(t *testing.T) {
	names := Names()
	has, found := map[string]bool{}, 0
	var infos []sched.Info
	for _, name := range names {
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
		for _, part := range info.Parts {
			for _, p := range part.Params {
				has[p.Name] = true
			}
		}
	}
	for _, info := range infos {
		for _, p := range info.Profiles {
			found++
			for k := range p.Set {
				if !has[k] {
					t.Errorf("%s: profile %s sets %s, which no policy has", info.Name, p.Name, k)
				}
			}
			if _, err := Build(info.Name, sched.Options{Set: map[string]string{"profile": p.Name}}); err != nil {
				t.Errorf("%s: profile %s: %v", info.Name, p.Name, err)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d profiles", found)
	}
}
