package svg

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// samples returns a figure of each kind of chart.
func samples() map[string]*Figure {
	curve := []Point{{0, 1}, {1, 4}, {2, math.NaN()}, {3, 2}, {4, 3}}
	return map[string]*Figure{
		"lines": {Title: "Lines with dots, an error bar and a limit", Panels: []*Panel{{Height: 200, X: Axis{Label: "load", Low: 0, High: 4}, Y: Axis{Label: "response [s]", Low: 0, High: 5},
			Marks: []Mark{Line{Class: "line s0 w1", Points: curve}, Dots{Class: "s0", Points: curve}, Whiskers{Class: "whisker", List: []Whisker{{1, 3, 4.5}}},
				Line{Class: "line ref d0", Points: []Point{{0, 3.3}, {4, 3.3}}}}}},
			Legend: []Key{{Name: "fair", Classes: []string{"line s0 w1"}, Line: true}, {Name: "a reference with a name that needs two lines of the legend", Classes: []string{"line ref d0"}, Line: true}}},
		"steps": {Title: "Steps on a logarithmic axis", Panels: []*Panel{{Height: 200, X: Axis{Label: "slowdown", Low: 1, High: 3000, Log: true}, Y: Axis{Low: 0, High: 1},
			Marks: []Mark{Line{Class: "line s1", Steps: true, Points: []Point{{1, 0}, {10, 0.5}, {200, 0.9}, {3000, 1}}}}}}},
		"areas": {Title: "Areas in two panels", Panels: []*Panel{
			{Title: "fifo", Height: 90, X: Axis{Low: 0, High: 7200, Ticks: SecondsTicks}, Y: Axis{Label: "slots", Low: 0, High: 40000}, Marks: []Mark{Area{Class: "area map", Points: []Point{{0, 8000}, {1800, 32000}, {7200, 2000}}}}},
			{Title: "fair", Height: 90, X: Axis{Label: "time [min]", Low: 0, High: 7200, Ticks: SecondsTicks}, Y: Axis{Label: "slots", Low: 0, High: 100}, Marks: []Mark{Area{Class: "area reduce", Points: []Point{{0, 50}, {3600, 10}, {7200, 0}}}}}},
			Legend: []Key{{Name: "maps", Classes: []string{"area map"}}, {Name: "reduces", Classes: []string{"area reduce"}}}},
		"bars": {Title: "Bars with long names", Panels: []*Panel{{Height: 200, Y: Axis{Label: "gain [%]", Low: -5, High: 12},
			X:     Axis{Names: []string{"wordcount", "a category with a long name", "another category with a long name", "a name that is cut because it is much longer than any sensible name"}},
			Marks: []Mark{Boxes{Class: "s0", List: []Box{{-0.3, 0, 0, 10}, {0.7, 1, 0, -4}, {1.7, 2, 0, 7}, {2.7, 3, 0, 1}}}, Boxes{Class: "hollow ref", List: []Box{{0, 0.3, 0, 8}, {1, 1.3, 0, math.NaN()}}}}}},
			Legend: []Key{{Name: "here", Classes: []string{"s0"}}, {Name: "printed", Classes: []string{"hollow ref"}}}},
		"turned": {Title: "Names that are turned", Panels: []*Panel{{Height: 120, Y: Axis{Low: 0.5, High: 200, Log: true}, Marks: []Mark{Boxes{Class: "s4", List: []Box{{-0.4, 0.4, 0.5, 100}, {7.6, 8.4, 0.5, 2}}}},
			X: Axis{Names: []string{"a first name that begins further left", "wordcount", "inverted index", "histogram of movies", "histogram of ratings", "classification", "sequence count", "adjacency list", "self join"}}}}},
		"lanes": {Title: "Boxes in lanes, & <names> that need escaping", Panels: []*Panel{{Height: 100, X: Axis{Label: "time [s]", Low: 0, High: 60}, Y: Axis{Low: -0.5, High: 3, Ticks: Fixed([]Tick{{0.5, "n<1>"}, {2.5, "n2"}})},
			Marks: []Mark{Boxes{Class: "idle", List: []Box{{0, 60, 0, 0.9}, {0, 60, 1, 1.9}, {0, 60, 2, 2.9}}}, Boxes{Class: "s2 pale", Gap: 0.7, List: []Box{{0, 20, 0, 0.9}, {20, 20, 1, 1.9}, {30, 60, 2, 2.9}}}}}},
			Legend: []Key{{Name: "colour: job"}, {Name: "both tones", Classes: []string{"s2 pale", "s2"}}}},
	}
}

// TestGolden compares a figure of each kind with the drawing that a person has looked at.
// -rewrite writes the drawings again.
func TestGolden(t *testing.T) {
	for name, f := range samples() {
		var got, again bytes.Buffer
		if err := f.SVG(&got); err != nil {
			t.Fatal(err)
		}
		if err := samples()[name].SVG(&again); err != nil || !bytes.Equal(got.Bytes(), again.Bytes()) {
			t.Errorf("%s: not twice the same, %v", name, err)
		}
		path := filepath.Join("testdata", name+".svg")
		if *rewrite {
			if err := os.WriteFile(path, got.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from %s (%v); if the new drawing is good, go test -rewrite writes it:\n%s", name, path, err, &got)
		}
		if inline := f.Inline(); strings.Contains(inline, "<style") || strings.Contains(inline, "<?xml") || !strings.Contains(got.String(), inline[strings.Index(inline, "<rect"):]) {
			t.Errorf("%s: in a page it is another drawing:\n%s", name, inline)
		}
	}
}

// drawing holds the elements that a test reads from a figure.
type drawing struct {
	attributes map[string]string
	marks      []string // paths and circles, as written
	texts      []string
}

// read parses a figure as XML, strictly.
func read(t rapid.TB, text string) drawing {
	d := drawing{attributes: map[string]string{}}
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return d
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch x := token.(type) {
		case xml.StartElement:
			a := map[string]string{}
			for _, at := range x.Attr {
				a[at.Name.Local] = at.Value
			}
			switch x.Name.Local {
			case "svg":
				d.attributes = a
			case "path":
				d.marks = append(d.marks, a["d"])
			case "circle":
				d.marks = append(d.marks, "M"+a["cx"]+" "+a["cy"])
			}
		case xml.CharData:
			d.texts = append(d.texts, string(x))
		}
	}
}

// positions returns all positions that a path reaches, of absolute commands and of h and v.
func positions(d string) (list []Point) {
	x, y := 0., 0.
	for _, m := range regexp.MustCompile(`([MLHVhvz])([-0-9.]*) ?([-0-9.]*)`).FindAllStringSubmatch(d, -1) {
		a, _ := strconv.ParseFloat(m[2], 64)
		b, _ := strconv.ParseFloat(m[3], 64)
		switch m[1] {
		case "M", "L":
			x, y = a, b
		case "H":
			x = a
		case "V":
			y = a
		case "h":
			x += a
		case "v":
			y += a
		}
		list = append(list, Point{x, y})
	}
	return list
}

// TestAnyFigure draws figures of any values, NaN and infinite ones among them, with any texts.
// The drawing is well-formed, has no NaN, all marks are inside the plotting area, and all of
// the plotting area and the legend inside the drawing.
func TestAnyFigure(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300}))
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x00\x1b</svg>", "a\xff&\"'", strings.Repeat("wide ", 80), strings.Repeat("W", 300), "日本語の名前"}))
	rapid.Check(t, func(t *rapid.T) {
		axis := func(name string) Axis {
			a := Axis{Label: text.Draw(t, name), Low: value.Draw(t, name+" low"), High: value.Draw(t, name+" high"), Log: rapid.Bool().Draw(t, name+" log")}
			switch rapid.IntRange(0, 5).Draw(t, name+" ticks") {
			case 0:
				a.Ticks = SecondsTicks
			case 1:
				a.Ticks = WholeTicks
			case 2:
				a.Names = rapid.SliceOfN(text, 1, 20).Draw(t, name+" names")
			}
			return a
		}
		var points []Point
		var boxes []Box
		var whiskers []Whisker
		for range rapid.IntRange(0, 8).Draw(t, "points") {
			p := Point{value.Draw(t, "x"), value.Draw(t, "y")}
			points = append(points, p)
			boxes = append(boxes, Box{p.X, value.Draw(t, "right"), p.Y, value.Draw(t, "top")})
			whiskers = append(whiskers, Whisker{p.X, p.Y, value.Draw(t, "top")})
		}
		x, y := axis("x"), axis("y")
		y.Names = nil
		p := &Panel{Title: text.Draw(t, "panel"), Height: rapid.Float64Range(20, 500).Draw(t, "height"), X: x, Y: y,
			Marks: []Mark{Line{"line", points, false}, Line{"line", points, true}, Area{"area", points}, Boxes{"s0", boxes, 1}, Dots{"s1", points}, Whiskers{"whisker", whiskers}}}
		f := &Figure{Title: text.Draw(t, "title"), Panels: []*Panel{p}, Legend: []Key{{Name: text.Draw(t, "key"), Classes: []string{"s0"}}}}
		d := read(t, f.Inline())
		placed, height := f.layout()
		area := placed[0]
		if area.x.From < edge || area.x.To > figureWidth-edge || area.x.To < area.x.From+100 || area.bottom > height {
			t.Fatalf("the plotting area is from %v to %v, down to %v of %v", area.x.From, area.x.To, area.bottom, height)
		}
		const error = 0.11 // positions have one decimal, and widths another
		for _, m := range d.marks {
			if strings.Contains(m, "NaN") || strings.Contains(m, "Inf") {
				t.Fatalf("no number in %s", m)
			}
			for _, at := range positions(m) {
				if at.X < area.x.From-error || at.X > area.x.To+error || at.Y < area.top-error || at.Y > area.bottom+error {
					t.Fatalf("%v is outside of x %v to %v, y %v to %v: %s", at, area.x.From, area.x.To, area.top, area.bottom, m)
				}
			}
		}
	})
}

// TestAnyTicks asks for ticks of any range. They rise, lie inside, are few, and divide the range
// so that each part has a tick.
func TestAnyTicks(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1000, 1000), rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1e16, 1e16 + 4, math.MaxFloat64, 5e-324}))
	rapid.Check(t, func(t *rapid.T) {
		a, b, n := value.Draw(t, "a"), value.Draw(t, "b"), rapid.IntRange(2, 12).Draw(t, "n")
		low, high := min(a, b), max(a, b)
		list := Steps(low, high, n)
		if len(list) == 0 || len(list) > max(n+2, 6) {
			t.Fatalf("%d ticks of %g to %g: %v", len(list), low, high, list)
		}
		for i, v := range list {
			if v < low || v > high || i > 0 && v <= list[i-1] {
				t.Fatalf("%v of %g to %g", list, low, high)
			}
		}
		span := high/2 - low/2
		if span > math.Abs(low)*1e-9 && span > 1e-300 && !math.IsInf(high-low, 0) {
			if gap := max(list[0]/2-low/2, high/2-list[len(list)-1]/2); gap > 1.01*5/2*span/float64(n) {
				t.Fatalf("%v leave %g of %g to %g without ticks", list, gap, low, high)
			}
		}
		if low > 0 {
			ticks := LogTicks(low, high, n)
			for i, tick := range ticks {
				if tick.At < low || tick.At > high || i > 0 && tick.At <= ticks[i-1].At {
					t.Fatalf("%v of %g to %g", ticks, low, high)
				}
			}
			if high > 1.5*low && (len(ticks) < 2 || len(ticks) > 3*n+6) && span > 1e-300 {
				t.Fatalf("%d ticks of %g to %g, about %d wanted: %v", len(ticks), low, high, n, ticks)
			}
		}
	})
}

// TestAnyClock does the same for axes of moments.
func TestAnyClock(t *testing.T) {
	moment := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 1e13), rapid.Int64Range(1_700_000_000_000, 1_700_000_100_000))
	rapid.Check(t, func(t *rapid.T) {
		from, to := moment.Draw(t, "from"), moment.Draw(t, "to")
		ticks := ClockTicks(from, to, time.UTC)
		if len(ticks) > 9 {
			t.Fatalf("%d ticks", len(ticks))
		}
		for i, tick := range ticks {
			if tick.At < float64(from) || tick.At > float64(to) || i > 0 && tick.At <= ticks[i-1].At {
				t.Fatalf("%v of %d to %d", ticks, from, to)
			}
		}
		if span := to - from; span >= 10_000 && span < 1<<52 && len(ticks) < 2 {
			t.Fatalf("%d ticks for %d ms", len(ticks), span)
		}
	})
}

// TestScale compares positions with the formulas that a person would write.
func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1e-3, 1e3).Draw(t, "low")
		high := low * rapid.Float64Range(1.01, 1e6).Draw(t, "ratio")
		v := low + (high-low)*rapid.Float64Range(0, 1).Draw(t, "part")
		linear := Scale{Low: low, High: high, From: 50, To: 10}
		if want := 50 - 40*(v-low)/(high-low); math.Abs(linear.At(v)-want) > 1e-9 {
			t.Fatalf("%g on %+v: %g, want %g", v, linear, linear.At(v), want)
		}
		log := Scale{Low: low, High: high, From: 50, To: 10, Log: true}
		if want := 50 - 40*math.Log(v/low)/math.Log(high/low); math.Abs(log.At(v)-want) > 1e-9 {
			t.Fatalf("%g on %+v: %g, want %g", v, log, log.At(v), want)
		}
		x := rapid.Float64Range(1e-307, math.MaxFloat64).Draw(t, "x") // math.Log is wrong for smaller ones on amd64
		if got, want := logarithm(x), math.Log(x); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Fatalf("the logarithm of %g: %g, want %g", x, got, want)
		}
	})
	for _, s := range []Scale{{}, {Low: 3, High: 3, From: 5, To: 9}, {Low: math.NaN(), High: 1, From: 5}, {Low: -1, High: 1, From: 5, Log: true}} {
		if got := s.At(1); got != s.From {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		ticks []Tick
		want  string
	}{
		{Ticks(0, 27, 10), "0 5 10 15 20 25"},
		{Ticks(0, 1, 10), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"},
		{Ticks(0, 120, 10), "0 20 40 60 80 100 120"},
		{Ticks(-3, 3, 4), "-2 0 2"},
		{Ticks(0, 2e9, 2), "0 1e+09 2e+09"},
		{Ticks(5, 5, 4), "5"},
		{Ticks(math.NaN(), 5, 4), ""},
		{WholeTicks(0, 2, 10), "0 1 2"},
		{SecondsTicks(0, 7200, 10), "0 20 40 60 80 100 120"},
		{LogTicks(1, 100, 10), "1 2 5 10 20 50 100"},
		{LogTicks(1, 1e9, 10), "1 10 100 1000 10000 100000 1000000 10000000 100000000 1e+09"},
		{LogTicks(1.2, 1.7, 5), "1.2 1.3 1.4 1.5 1.6 1.7"},
		{LogTicks(0, 1, 5), ""},
		{ClockTicks(0, 60_000, time.UTC), "00:00:10 00:00:20 00:00:30 00:00:40 00:00:50 00:01:00"},
		{ClockTicks(0, 4*24*3600_000, time.UTC), "01-02 00:00 01-03 00:00 01-04 00:00 01-05 00:00"},
		{ClockTicks(5, 5, time.UTC), ""},
	} {
		var got []string
		for _, tick := range c.ticks {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := SecondsTicks(0, 7200, 10)[1].At; got != 1200 {
		t.Errorf("20 minutes are %v s", got)
	}
}

// TestLabels measures the texts of axes and legends: no two overlap, and none leaves the drawing.
func TestLabels(t *testing.T) {
	for name, f := range samples() {
		panels, height := f.layout()
		for _, p := range panels {
			end := math.Inf(-1)
			for _, tick := range p.xTicks {
				half := textWidth(tick.Label, textSize) / 2
				if at := p.x.At(tick.At); tick.Label != "" && !p.turned {
					if at-half < end || at-half < 0 || at+half > figureWidth {
						t.Errorf("%s: the label %q", name, tick.Label)
					}
					end = at + half
				}
			}
			if w := widest(p.yTicks); p.x.From-w-tickLength < edge {
				t.Errorf("%s: labels of %v units begin outside", name, w)
			}
			for i, n := range p.X.Names {
				if p.turned && p.x.At(float64(i))-textWidth(cut(n, textSize, mostName), textSize)*cosine < 0 {
					t.Errorf("%s: %q begins outside", name, n)
				}
			}
		}
		if right := panels[0].x.To; len(f.Legend) > 0 && right > figureWidth-edge-f.legendWidth()-10 {
			t.Errorf("%s: the legend is above the data", name)
		}
		if panels[0].top+f.legendHeight() > height {
			t.Errorf("%s: the legend ends outside", name)
		}
	}
	tall := &Figure{Panels: []*Panel{{Height: 50}}, Legend: slices.Repeat([]Key{{Name: "a policy"}}, 30)}
	if panels, height := tall.layout(); panels[0].top+30*lineHeight > height {
		t.Errorf("30 lines of a legend in %v units", height)
	}
	// Many labels are thinned.
	f := &Figure{Panels: []*Panel{{Height: 50, X: Axis{Names: make([]string, 300)}}}}
	for i := range f.Panels[0].X.Names {
		f.Panels[0].X.Names[i] = fmt.Sprint("category ", i)
	}
	if n := strings.Count(f.Inline(), ">category "); n < 10 || n > 60 {
		t.Errorf("%d of 300 names", n)
	}
}

// TestNumbers formats positions and numbers that are no position.
func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 1.26: "1.3", -0.01: "0", 1234.5: "1234.5", math.Inf(1): "0", math.Inf(-1): "0"} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := number(math.NaN()); got != "0" {
		t.Errorf("NaN: %q", got)
	}
}

// TestTexts checks the measures of texts, and that no line is wider than it may be.
func TestTexts(t *testing.T) {
	// As Chromium measures Liberation Sans, which has the widths of Arial.
	for text, want := range map[string]float64{"": 0, "makespan [s]": 71.37, "fifo,speculate=late": 97.07, "TuMM, Figure 7: makespan": 146.27} {
		if got := textWidth(text, textSize); math.Abs(got-want) > 0.1+want/200 { // it moves some letters closer together
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, width := rapid.String().Draw(t, "text"), rapid.Float64Range(20, 300).Draw(t, "width")
		short := cut(text, textSize, width)
		if textWidth(short, textSize) > width {
			t.Fatalf("%q has %v units, %v wanted", short, textWidth(short, textSize), width)
		}
		for _, line := range wrapped(text, textSize, width) {
			if textWidth(line, textSize) > width {
				t.Fatalf("%q has %v units, %v wanted", line, textWidth(line, textSize), width)
			}
		}
	})
	if got := wrapped("one two three", 10, 40); strings.Join(got, "|") != "one two|three" {
		t.Errorf("%q", got)
	}
}

// channels returns the red, green and blue parts of a colour such as #0072b2 or #fff.
func channels(t *testing.T, hex string) [3]float64 {
	hex = strings.TrimPrefix(hex, "#")
	var parts [3]float64
	for i := range parts {
		digits := ""
		if len(hex) == 3 {
			digits = hex[i:i+1] + hex[i:i+1]
		} else {
			digits = hex[2*i : 2*i+2]
		}
		n, err := strconv.ParseUint(digits, 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = float64(n)
	}
	return parts
}

// luminance is the relative luminance of WCAG 2.
func luminance(c [3]float64) float64 {
	sum := 0.
	for i, part := range []float64{0.2126, 0.7152, 0.0722} {
		v := c[i] / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += part * v
	}
	return sum
}

// TestColours checks that in both themes texts and series stand out from the background, and
// that no series is nearly grey, which marks discarded work.
func TestColours(t *testing.T) {
	least := map[string]float64{"fg": 7, "soft": 4.5, "bad": 4.5, "gone": 3}
	for i := range Colours {
		least[Series(i)] = 3
	}
	for _, theme := range []func(colour) string{func(c colour) string { return c.light }, func(c colour) string { return c.dark }} {
		back := luminance(channels(t, theme(colours[0])))
		for _, c := range colours {
			rgb := channels(t, theme(c))
			a, b := max(back, luminance(rgb)), min(back, luminance(rgb))
			if ratio := (a + 0.05) / (b + 0.05); ratio < least[c.name] {
				t.Errorf("%s %s: contrast %.2f, want %v", c.name, theme(c), ratio, least[c.name])
			}
			if c.name[0] == 's' && c.name != "soft" && max(rgb[0], rgb[1], rgb[2])-min(rgb[0], rgb[1], rgb[2]) < 45 {
				t.Errorf("%s %s is nearly grey", c.name, theme(c))
			}
		}
	}
}

// TestSheet checks that every colour of the rules is defined, and that files have no variables.
func TestSheet(t *testing.T) {
	for _, m := range regexp.MustCompile(`var\(--(\w+)\)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(Sheet(), " --"+m[1]+": ") {
			t.Errorf("--%s is not defined", m[1])
		}
	}
	if s := fileSheet(); strings.Contains(s, "var(") || strings.Count(s, "{") != strings.Count(s, "}") || strings.Contains(s, "<") {
		t.Errorf("%s", s)
	}
}
