package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/svg"
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
			if err := Draw(c).SVG(&text[i]); err != nil {
				t.Fatal(err)
			}
		}
		drawn := text[0].String()
		if drawn != text[1].String() {
			t.Errorf("%s: not twice the same", c.Title)
		}
		want := []string{c.Title, c.Y, "here", "printed", "limit", "first", "second"}
		if len(c.Groups) == 0 {
			want = []string{c.Title, c.X, c.Y, ">a<", ">b<"}
		}
		for _, w := range want {
			if !strings.Contains(drawn, w) {
				t.Errorf("%s: no %q", c.Title, w)
			}
		}
		if strings.Contains(drawn, "NaN") || strings.Contains(drawn, ">none<") {
			t.Errorf("%s: draws what is not there", c.Title)
		}
	}
}

// TestBarsAreTheNumbers reads the bars of a chart and compares them with the numbers.
func TestBarsAreTheNumbers(t *testing.T) {
	y := [][]float64{{10, -5, math.NaN()}, {0, 7, 2}}
	f := Draw(Chart{Groups: []string{"a", "b", "c"}, Series: []Series{{Name: "first", Y: y[0]}, {Name: "second", Y: y[1], Hollow: true}}, Limits: []Limit{{"limit", 12}}})
	p := f.Panels[0]
	if p.Y.Low > -5 || p.Y.High < 12 || len(p.Marks) != 3 {
		t.Errorf("from %v to %v, %d marks", p.Y.Low, p.Y.High, len(p.Marks))
	}
	for i, want := range y {
		end := math.Inf(-1)
		for k, b := range p.Marks[i].(svg.Boxes).List {
			if b.Top != want[k] && !(math.IsNaN(b.Top) && math.IsNaN(want[k])) || b.Bottom != 0 || b.Left < end || b.Left < float64(k)-0.5 || b.Right > float64(k)+0.5 {
				t.Errorf("series %d, group %d: %+v, want %v", i, k, b, want[k])
			}
			end = b.Right
		}
	}
	logarithmic := Draw(Chart{LogY: true, Groups: []string{"a"}, Series: []Series{{Name: "x", Y: []float64{0.5}}, {Name: "y", Y: []float64{300}}}})
	if b := logarithmic.Panels[0].Marks[1].(svg.Boxes).List[0]; b.Bottom != logarithmic.Panels[0].Y.Low || b.Bottom <= 0 {
		t.Errorf("a bar on a logarithmic axis: %+v", b)
	}
}

// TestChartsWithoutNumbers draws charts of nothing.
func TestChartsWithoutNumbers(t *testing.T) {
	nan := math.NaN()
	for _, c := range []Chart{{}, {LogX: true, LogY: true}, {Groups: []string{"a"}}, {Groups: []string{"a"}, LogY: true, Series: []Series{{Name: "x", Y: []float64{nan}}}},
		{Series: []Series{{Name: "x", X: []float64{1}, Y: []float64{nan}}}}, {Series: []Series{{Name: "x", X: []float64{1}, Y: []float64{4}}}}} {
		if s := Draw(c).Inline(); !strings.HasPrefix(s, "<svg") || strings.Contains(s, "NaN") {
			t.Errorf("%+v: %s", c, s)
		}
	}
}

// TestRanges reads the error bars of bars and of lines.
func TestRanges(t *testing.T) {
	s := Series{Name: "a", X: []float64{1, 5}, Y: []float64{3, 4}, Low: []float64{2, math.NaN()}, High: []float64{9, math.NaN()}}
	for _, c := range []Chart{{Series: []Series{s}, Ranges: "of seeds"}, {Series: []Series{s}, Ranges: "of seeds", Groups: []string{"x", "y"}}} {
		f := Draw(c)
		p := f.Panels[0]
		w, drawn := p.Marks[1].(svg.Whiskers) // after the bars or the line
		at := 1.
		if len(c.Groups) > 0 {
			b := p.Marks[0].(svg.Boxes).List[0]
			at = (b.Left + b.Right) / 2
		}
		if !drawn || len(w.List) != 2 || math.Abs(w.List[0].X-at) > 0.01 || w.List[0].Low != 2 || w.List[0].High != 9 || p.Y.High < 9 || f.Legend[1].Name != "of seeds" {
			t.Errorf("%+v: %+v to %v", c, w, p.Y.High)
		}
	}
}
