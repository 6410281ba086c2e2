package sched

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// memory is a Stateful that knows one word.
type memory struct{ word string }

func (m *memory) Save() ([]byte, error) { return []byte(m.word), nil }

func (m *memory) Load(b []byte) error {
	if bytes.Contains(b, []byte("bad")) {
		m.word = "half read"
		return errors.New("bad word")
	}
	m.word = string(b)
	return nil
}

func TestStateRoundTrip(t *testing.T) {
	doc, err := SaveState("p", []Stateful{&memory{"one"}, &memory{""}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &memory{"x"}, &memory{"y"}
	if err := LoadState(doc, "p", []Stateful{a, b}); err != nil || a.word != "one" || b.word != "" {
		t.Errorf("%v %q %q", err, a.word, b.word)
	}
}

func TestStateRefused(t *testing.T) {
	doc, err := SaveState("p", []Stateful{&memory{"one"}, &memory{"two"}})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := SaveState("p", []Stateful{&memory{"one"}, &memory{"bad"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &memory{"x"}, &memory{"y"}
	both := []Stateful{a, b}
	for _, c := range []struct {
		name, policy string
		doc          []byte
		parts        []Stateful
		want         string
	}{
		{"another policy", "q", doc, both, `policy "p"`},
		{"another number of parts", "p", doc, both[:1], "2 parts"},
		{"a part refuses", "p", bad, both, "bad word"},
		{"empty", "p", nil, both, "unexpected end"},
		{"another version", "p", bytes.Replace(doc, []byte(`"version":1`), []byte(`"version":9`), 1), both, "version 9"},
	} {
		err := LoadState(c.doc, c.policy, c.parts)
		if err == nil || !strings.Contains(err.Error(), c.want) || a.word != "x" || b.word != "y" {
			t.Errorf("%s: error %v, parts %q %q", c.name, err, a.word, b.word)
		}
	}
	for i := range doc {
		d := bytes.Clone(doc)
		d[i] ^= 1
		if err := LoadState(d, "p", both); err == nil && (a.word != "one" || b.word != "two") {
			t.Errorf("byte %d flipped: %q %q", i, a.word, b.word)
		}
		for n := range doc {
			if LoadState(doc[:n], "p", both) == nil {
				t.Fatalf("cut at %d: no error", n)
			}
		}
		if i > 3 {
			break
		}
	}
}
