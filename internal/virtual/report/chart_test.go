package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// charts are one of each sort.
func charts() []Chart {
	return []Chart{
		{Title: "Bars", Y: "gain [%]", Groups: []string{"first", "second"}, Limits: []Limit{{"limit", 12}},
			Series: []Series{{Name: "here", Y: []float64{10, -5}}, {Name: "printed", Y: []float64{math.NaN(), 7}, Hollow: true}}},
		{Title: "Lines", X: "time", Y: "load", LogX: true, LogY: true,
			Series: []Series{{Name: "a", X: []float64{1, 10}, Y: []float64{2, 20}}, {Name: "b", X: []float64{1, 10}, Y: []float64{3, math.NaN()}, Hollow: true}, {Name: "none"}}},
	}
}

func TestCharts(t *testing.T) {
	for _, c := range charts() {
		var text [2]bytes.Buffer
		for i := range text {
			f, err := Draw(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.SVG(&text[i]); err != nil {
				t.Fatal(err)
			}
		}
		svg := text[0].String()
		if svg != text[1].String() {
			t.Errorf("%s: not twice the same", c.Title)
		}
		want := []string{c.Title, c.Y, "here", "printed", "limit", "first", "second"}
		if len(c.Groups) == 0 {
			want = []string{c.Title, c.X, c.Y, ">a<", ">b<"}
		}
		for _, w := range want {
			if !strings.Contains(svg, w) {
				t.Errorf("%s: no %q", c.Title, w)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, ">none<") {
			t.Errorf("%s: draws what is not there", c.Title)
		}
	}
}
