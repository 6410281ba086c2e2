package sched

import (
	"maps"
	"strings"
	"testing"
)

func TestProfiles(t *testing.T) {
	info := Info{Name: "p", Parts: []PartInfo{{Params: []Param{{Name: "a"}, {Name: "b"}}}},
		Profiles: []Profile{{Name: "old", Set: map[string]string{"a": "1", "b": "2", "gone": "3"}}}}
	for _, c := range []struct {
		name      string
		set, want map[string]string
	}{
		{"none", map[string]string{"a": "9"}, map[string]string{"a": "9"}},
		{"default", map[string]string{"profile": "default"}, map[string]string{}},
		{"of parts replaced too", map[string]string{"profile": "old"}, map[string]string{"a": "1", "b": "2"}},
		{"by hand first", map[string]string{"profile": "old", "b": "7"}, map[string]string{"a": "1", "b": "7"}},
	} {
		got, err := withProfile(info, c.set)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := withProfile(info, map[string]string{"profile": "olt"}); err == nil || !strings.Contains(err.Error(), `"old"`) {
		t.Errorf("an unknown profile: %v", err)
	}
}

// conf is a part that understands integers.
type conf struct{ got int }

func (c *conf) Reconfigure(x any) (bool, error) { n, ok := x.(int); c.got = n; return ok, nil }

// consult records the parts that Consult receives.
type consult struct {
	fixed
	parts []any
}

func (c *consult) Consult(parts []any) { c.parts = parts }

func TestHooksOfConfigurationAndParts(t *testing.T) {
	c := &consult{}
	p := Compose(c, c, c, &fixed{})
	if len(c.parts) != 4 || c.parts[3] != p.Speculate {
		t.Errorf("consulted with %v", c.parts)
	}
	if h := HooksOf(&parted{p, &conf{}}); len(h.Configs) != 1 {
		t.Errorf("configurations %v", h.Configs)
	}
}

// parted is a policy with one more part.
type parted struct {
	Policy
	part any
}

func (p *parted) Parts() []any { return []any{p.part} }

// sparse is a speculate part that may or may not want copies.
type sparse struct {
	fixed
	may bool
}

func (s *sparse) MayCopy(*Round) bool { return s.may }

func TestSparseStopsCopies(t *testing.T) {
	for _, may := range []bool{false, true} {
		f := &fixed{}
		_, _, _, r := bench(f)
		c := Compose(f, f, f, &sparse{may: may})
		c.Begin(r)
		if r.Copies() != may {
			t.Errorf("may copy %v: copies %v", may, r.Copies())
		}
	}
}
