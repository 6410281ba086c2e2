package repro

import (
	"slices"
	"testing"
)

func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		p    printed
		ours []float64
		want Verdict
	}{
		{printed{20, 20, "%"}, []float64{0.15}, AsPrint}, {printed{20, 20, "%"}, []float64{0.149}, InSize}, {printed{20, 20, "%"}, []float64{0.099}, Fails},
		{printed{20, 20, "%"}, []float64{0.4}, InSize}, {printed{20, 20, "%"}, []float64{0.401}, Fails}, {printed{20, 20, "%"}, []float64{-0.2}, Fails},
		{printed{28, 28, "%"}, []float64{0.284}, AsPrint}, {printed{28, 28, "%"}, []float64{0.286}, InSize},
		{printed{11, 12, "%"}, []float64{0.105, 0.125}, AsPrint}, {printed{11, 12, "%"}, []float64{0.11, 0.055}, InSize}, {printed{11, 12, "%"}, []float64{0.11, 0.05}, Fails},
		{printed{-60, -50, "%"}, []float64{-0.55}, AsPrint}, {printed{-60, -50, "%"}, []float64{-0.8, -0.25}, InSize}, {printed{-60, -50, "%"}, []float64{-0.88}, Fails}, {printed{-90, -90, "%"}, []float64{-0.8}, InSize}, {printed{-90, -90, "%"}, []float64{-0.7}, Fails}, {printed{-60, -50, "%"}, []float64{-0.24}, Fails},
		{printed{-60, -50, "%"}, []float64{0.5}, Fails}, {printed{2.06, 2.06, "times"}, []float64{2.064}, AsPrint}, {printed{2.06, 2.06, "times"}, []float64{1.03}, InSize},
	} {
		if v := c.p.judge(c.ours...); v != c.want {
			t.Errorf("%v by %v: %v, want %v", c.ours, c.p, v, c.want)
		}
	}
}

// TestJudge judges means of rounds with their intervals.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		printed string
		ours    []float64
		want    Verdict
	}{
		{"2 to 9 %", []float64{-0.144, 0.022, 0.188}, Untold}, // 2.2 ± 41 %
		{"2 to 9 %", []float64{0.02, 0.03, 0.04}, AsPrint}, {"2 to 9 %", []float64{-0.038, -0.037, -0.04}, Fails},
		{"-12 to -11 %", []float64{-0.1, 0.1, 0.003}, Untold}, // the interval contains 0 and -11 %
		{"-57 %", []float64{0.3, -0.3, 0.1}, Untold}, {"-57 %", []float64{0.1, 0.12, 0.11}, Fails}, {"-57 %", []float64{-0.01, 0.02}, Fails},
		{"-60 to -50 %", []float64{-0.88, -0.87}, Fails}, {"20 %", []float64{0.2}, AsPrint},
		{"less", []float64{-0.3, -0.31}, AsPrint}, {"less", []float64{-0.1, 0.1, 0.02}, Untold}, {"less", []float64{0.3, 0.31}, Fails},
	} {
		if v := Judge(c.printed, c.ours); v != c.want {
			t.Errorf("%v by %s: %v, want %v", c.ours, c.printed, v, c.want)
		}
	}
}

func TestHalf(t *testing.T) {
	for x, want := range map[float64]float64{20: 5, 28: 0.5, -60: 5, 2.06: 0.005, 1.5: 0.05, 100: 50, 115: 0.5, 0.4: 0.05} {
		if got := half(x); got != want {
			t.Errorf("half a unit of %g: %g, want %g", x, got, want)
		}
	}
}

func TestParsePrinted(t *testing.T) {
	for text, want := range map[string]printed{
		"20": {20, 20, ""}, "20 %": {20, 20, "%"}, "11 to 12 %": {11, 12, "%"}, "-60 to -50 %": {-60, -50, "%"}, "5 times": {5, 5, "times"}, "2.03": {2.03, 2.03, ""},
	} {
		if got := parsePrinted(text); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

func TestInBound(t *testing.T) {
	for _, c := range []struct {
		limit string
		x     float64
		want  bool
	}{
		{"< 2", 1.9, true}, {"< 2", 2, false}, {"≤ 10", 10, true}, {"≤ 10", 10.1, false}, {"> 60 %", 0.61, true}, {"> 60 %", 0.6, false}, {"< 250 s", 249, true},
	} {
		if got := inBound(c.limit, c.x); got != c.want {
			t.Errorf("%g %s: %t", c.x, c.limit, got)
		}
	}
}

func TestWords(t *testing.T) {
	for word, want := range map[string][2]float64{ // the last number that passes, and one that does not
		"rarely": {0.1, 0.11}, "low": {0.49, 0.5}, "close to": {1.09, 1.11}, "little difference": {0.24, 0.25},
	} {
		if !words[word](want[0]) || words[word](want[1]) {
			t.Errorf("%q: %g passes: %t, %g passes: %t", word, want[0], words[word](want[0]), want[1], words[word](want[1]))
		}
	}
	if words["close to"](0.89) {
		t.Error("0.89 is close to 1")
	}
}

// TestClaims judges claims of each rule, and explains the failing ones.
func TestClaims(t *testing.T) {
	x := newLab(t)
	x.exp.claims = map[string]claimData{
		"first": {Text: "a before b", By: "order", From: "Figure 1"},
		"size":  {Text: "%s gains 20 %", By: "size: 20 %", From: "Figure 2"},
		"list":  {Text: "as printed", By: "size: 10, 20", From: "Table 1"},
		"limit": {Text: "below 2", By: "bound: < 2", From: "Table 2"},
		"word":  {Text: "it is low", By: "word: low", From: "Section 3"},
	}
	x.exp.hypotheses = map[string]string{"why": "a supposed cause"}
	x.holds("first", true, "%d before %d", 1, 2)
	x.size("size:PI", []float64{0.2}, "e")
	x.size("size:PD", []float64{0.2, 0.3}, "e")
	x.size("list", []float64{10, 14}, "e")
	x.within("limit", []float64{1, 2}, "e")
	x.word("word", []float64{0.4, 0.6}, "e")
	var got []string
	for _, c := range x.Claims {
		got = append(got, c.Text+", "+c.From+", "+c.Rule+": "+c.Verdict.String())
	}
	want := []string{"a before b, Figure 1, order: holds", "PI gains 20 %, Figure 2, size: 20 %: holds", "PD gains 20 %, Figure 2, size: 20 %: in size",
		"as printed, Table 1, size: 10, 20: in size", "below 2, Table 2, bound: < 2: does not hold", "it is low, Section 3, word: low: does not hold"}
	if !slices.Equal(got, want) || x.Claims[0].Evidence != "1 before 2" {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	x.holds("first", true, "e")
	if x.seeds([]float64{1, -1, 0.5}, ""); x.Claims[6].Verdict != Untold {
		t.Error("an interval around 0 does not veto that a claim of order holds")
	}
	x.Claims = x.Claims[:6]
	if x.sized("list", 10, 5) != Fails || x.sized("size", 0.21, 0.19) != AsPrint {
		t.Error("numbers are compared with the wrong ones of a list")
	}
	if !x.failing(1) || x.failing(2) != true || len(x.lastClaims(3)) != 3 {
		t.Error("the last claims do not hold, but failing is false")
	}
	x.explain(3, "why", []*Table{newTable("t", "c")}, "it is %d", 7)
	if w := x.Claims[5].Why; w == nil || w != x.Claims[4].Why || w.Hypothesis != "a supposed cause" || w.Conclusion != "it is 7" || x.Claims[3].Why != nil {
		t.Errorf("explained by %+v; the claim before by %v", w, x.Claims[3].Why)
	}
}
