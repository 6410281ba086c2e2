package house

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRepository(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
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
	missing, total := Undocumented(tree)
	t.Logf("%d of %d exported names have no comment", len(missing), total)
	for _, f := range missing {
		t.Log(f)
	}
}

// A rule that cannot fail protects nothing: each is shown small trees that
// break it, and ones beside them that do not.
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
				t.Errorf("found %v, want nothing", found)
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
			t.Errorf("rule %s is never shown to fail", r.Name)
		}
	}
}

func rule(t *testing.T, name string) Rule {
	for _, r := range Rules() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no rule %s", name)
	return Rule{}
}
