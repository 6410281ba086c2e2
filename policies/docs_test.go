package policies

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

// sources maps the folder of each source to the policies that its README describes.
var sources = map[string][]string{
	"hadoop":    {"fifo", "fair", "capacity", "yarn"},
	"tumm":      {"tumm", "htumm"},
	"modfair":   {"modfair"},
	"tyrex":     {"statictags", "dynamictags", "classictags", "sita"},
	"learning":  {"learning-nb", "learning-perceptron"},
	"dynamicmr": {"dynamicmr-pi", "dynamicmr-pd"},
	"flex":      {"flex"},
	"deadline":  {"deadline"},
	"auto":      {"auto"},
	"reference": {"srpt", "psjf"},
}

var (
	span    = regexp.MustCompile("`([^`\n]+)`")
	setting = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)*)=(\S+)$`)
	hyphens = regexp.MustCompile(`^[a-z]+(?:-[a-z]+)+$`)
	// option matches a flag of a command line with its value. Lines that end in a backslash
	// are joined first.
	option = regexp.MustCompile(`--(policy|policy-set) ('[^']*'|[^\s` + "`" + `]+)`)
)

// The index names every policy with the README of its source, and the README begins with it.
func TestReadmesNamePolicies(t *testing.T) {
	index, described := readme(t, "."), make(map[string]bool)
	for dir, names := range sources {
		title, _, _ := strings.Cut(readme(t, dir), "\n")
		for _, name := range names {
			described[name] = true
			row := regexp.MustCompile("(?m)^\\|.*`" + name + "`.*\\(" + dir + `/README\.md\) \|$`)
			if !row.MatchString(index) {
				t.Errorf("README.md has no row that links %s to %s/README.md", name, dir)
			}
			if !strings.Contains(title, name) && name != "classictags" && name != "sita" { // references, named in the text
				t.Errorf("%s/README.md: %q does not name %s", dir, title, name)
			}
		}
	}
	for _, name := range Names() {
		if !described[name] {
			t.Errorf("no README describes %s", name)
		}
	}
}

func readme(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The command lines of the READMEs name policies that parse and settings that build, and so
// do the settings (name=value) in their text. A name with hyphens is a policy's, a part's, a
// parameter's or a value's.
func TestReadmesNameParameters(t *testing.T) {
	known := map[string]bool{"cloud-spot": true} // a world of simulations
	accepts := make(map[string][]string)         // policies by parameter
	for _, name := range Names() {
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		known[name] = true
		for _, part := range info.Parts {
			known[part.Name] = true
			for _, p := range part.Params {
				known[p.Name] = true
				accepts[p.Name] = append(accepts[p.Name], name)
				for _, w := range regexp.MustCompile(`[a-z-]+`).FindAllString(p.Help, -1) {
					known[w] = true
				}
			}
		}
		for _, p := range info.Profiles {
			accepts["profile"] = append(accepts["profile"], name)
			known[p.Name] = true
		}
	}
	settings, options := 0, 0
	for dir := range sources {
		text := readme(t, dir)
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			if hyphens.MatchString(m[1]) && !known[m[1]] {
				t.Errorf("%s/README.md: %s is no policy, part, parameter or value", dir, m[1])
			}
			if s := setting.FindStringSubmatch(m[1]); s != nil && !slices.Contains([]string{"slots", "order", "place", "speculate"}, s[1]) {
				settings++
				checkSetting(t, dir, s[1], s[2], accepts[s[1]])
			}
		}
		policy := ""
		for _, m := range option.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			options++
			value := strings.Trim(m[2], "'")
			if m[1] == "policy" {
				policy = value
				// sim takes several policies; a composition has an equals sign.
				for _, spec := range specs(value) {
					if _, err := Parse(spec); err != nil {
						t.Errorf("%s/README.md: --policy %s: %v", dir, spec, err)
					}
				}
				continue
			}
			name, v, _ := strings.Cut(value, "=")
			checkSetting(t, dir, name, v, []string{policy})
		}
	}
	if settings < 20 || options < 10 {
		t.Errorf("only %d settings and %d options found", settings, options)
	}
}

// specs splits a list of policies, and leaves a composition of parts whole.
func specs(value string) []string {
	if strings.Contains(value, "=") {
		return []string{value}
	}
	return strings.Split(value, ",")
}

// checkSetting fails unless one of the policies takes the value.
func checkSetting(t *testing.T, dir, name, value string, policies []string) {
	t.Helper()
	var last error
	for _, policy := range policies {
		if _, last = Build(policy, sched.Options{Set: map[string]string{name: value}}); last == nil {
			return
		}
	}
	t.Errorf("%s/README.md: no policy takes %s=%s: %v", dir, name, value, last)
}

// A profile sets existing parameters to valid values. Policies may share a profile that
// sets parameters of only some parts.
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
