package modfair

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The page has a row for each parameter, with its default, and no other rows.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies/modfair.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (`[^`]+`|none) \\| .").FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	for _, p := range slices.Concat(Params(), DynamicParams) {
		value := "none"
		if p.Default != "" {
			value = "`" + p.Default + "`"
		}
		want = append(want, p.Name+" "+value)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has the parameters\n%v, want\n%v", got, want)
	}
}
