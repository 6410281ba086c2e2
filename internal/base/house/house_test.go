package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

// TestRepository applies all rules to the repository.
func TestRepository(t *testing.T) {
	tree, err := Load(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.gos) < 10 {
		t.Fatalf("only %d Go files found", len(tree.gos))
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			found, err := r.Run(tree)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Error(f)
			}
			if len(found) > 0 {
				t.Logf("why: %s", r.Why)
			}
		})
	}
}

// TestDebts checks that each debt still excuses an arrow. One that excuses none has been
// paid: it must be removed, or else the arrow may return unnoticed.
func TestDebts(t *testing.T) {
	tree, err := Load(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for i := range debts {
		rest := slices.Concat(debts[:i], debts[i+1:])
		all := debts
		debts = rest
		found, err := checkImports(tree)
		debts = all
		if err != nil || len(found) == 0 {
			t.Errorf("the debt from %s to %s is paid: remove it (%v)", all[i].from, all[i].to, err)
		}
	}
}

// TestRulesFail shows that every rule finds violations: each is applied to small trees
// that violate it, and to similar ones that do not.
func TestRulesFail(t *testing.T) {
	tried := make(map[string]bool)
	for _, tt := range badTrees {
		t.Run(tt.rule+"/"+tt.what, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range tt.tree {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := Load(fsys)
			if err != nil {
				t.Fatal(err)
			}
			found, err := rule(t, tt.rule).Run(tree)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("found %v, want no finding", found)
			case tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), tt.want)):
				t.Errorf("found %v, want one with %q", found, tt.want)
			}
		})
		if tt.want != "" {
			tried[tt.rule] = true
		}
	}
	for _, r := range Rules() {
		if !tried[r.Name] {
			t.Errorf("rule %s has no tree that violates it", r.Name)
		}
	}
}

// rule returns the rule with a name.
func rule(t *testing.T, name string) Rule {
	for _, r := range Rules() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no rule %s", name)
	return Rule{}
}

// TestPurePackagesAgree checks that .golangci.yml bans clocks, I/O and unseeded
// randomness in the packages that are pure here.
func TestPurePackagesAgree(t *testing.T) {
	data, err := os.ReadFile("../../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct{ Files []string }
				}
			}
			Exclusions struct {
				Rules []struct {
					Text       string
					PathExcept string `yaml:"path-except"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(pure))
	var files []string
	for _, f := range config.Linters.Settings.Depguard.Rules["pure"].Files {
		if dir, ok := strings.CutPrefix(f, "**/"); ok {
			files = append(files, strings.TrimSuffix(dir, "/**"))
		}
	}
	if slices.Sort(files); !slices.Equal(files, want) {
		t.Errorf("depguard's list of pure packages is %q, want %q", files, want)
	}
	paths := ""
	for _, r := range config.Linters.Exclusions.Rules {
		if r.Text == "pure package" && r.PathExcept != "" {
			paths = r.PathExcept
		}
	}
	only, err := regexp.Compile(paths)
	if err != nil || paths == "" {
		t.Fatalf("forbidigo's expression %q: %v", paths, err)
	}
	for _, dir := range pure {
		if !only.MatchString(dir + "/a.go") {
			t.Errorf("forbidigo does not check %s: %s", dir, paths)
		}
	}
	if only.MatchString("internal/live/local/a.go") || only.MatchString("lab/sim/a.go") {
		t.Errorf("forbidigo checks packages that are not pure: %s", paths)
	}
}
