package console

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// TestPreview asks what another policy would change. Nothing is installed, and the form that
// installs it appears unless the request is wrong.
func TestPreview(t *testing.T) {
	f := newFake(1, `<b>"x"`)
	s := newConsole(t, f)
	const install = "Running attempts continue"
	for path, want := range map[string][]string{
		"/ui/policy":                           {"Inner state", "s_m", "Deficit (slots)", "-2", "Show what it would change", "!" + install, "!Preview"},
		"/ui/policy?name=fair&set=a%3D1":       {"Preview: fair", "1 job would end earlier, 0 later", " earlier</bdi>", "same", "From 32 simulated futures", install, `name="set" value="a=1"`, "!data-live"},
		"/ui/policy?name=nosuch":               {"no policy nosuch", "!" + install},
		"/ui/policy?name=fair&set=%3Cb%3E":     {"write name=value", "!" + install, "!<b>"},
		"/ui/policy?name=slow":                 {"is unknown: it took too long", install},
		"/ui/policy?format=json&table=state0":  {`"deficit": -2`},
		"/ui/policy?format=csv&table=state":    {"map slots,3,slots,s_m"},
		"/ui/policy?name=%3Cscript%3E&set=":    {"!<script>a", "Preview: &lt;script&gt;"},
		"/ui/policy?range=30m&name=fair&set=x": {"write name=value"},
	} {
		w := ask(s, http.MethodGet, path, "root")
		for _, text := range want {
			text, absent := strings.CutPrefix(text, "!")
			if strings.Contains(w.Body.String(), text) == absent {
				t.Errorf("%s: %q absent: want %v: %d %.3000s", path, text, absent, w.Code, w.Body)
			}
		}
	}
	if len(f.acted) > 0 {
		t.Errorf("a preview acted: %q", f.acted)
	}
}

// TestInsightsAreBounded records more values and lines than there is room for, then another
// policy.
func TestInsightsAreBounded(t *testing.T) {
	var s insights
	now := time.Unix(1e9, 0)
	table := sched.InsightTable{Name: "pools", Columns: []sched.Measure{{Name: "pool"}, {Name: "share", Chart: "shares"}}}
	for i := range 50 {
		table.Add(sched.Text(fmt.Sprint("p", i)), sched.Number(i))
	}
	in := sched.Insight{Tables: []sched.InsightTable{table}}
	for i := range 40 {
		in.Figures = append(in.Figures, sched.Figure{Measure: sched.Measure{Name: fmt.Sprint("f", i), Chart: fmt.Sprint("c", i)}, Datum: sched.Number(i)},
			sched.Figure{Measure: sched.Measure{Name: fmt.Sprint("g", i), Chart: fmt.Sprint("c", i)}, Datum: sched.Text("none")})
	}
	for i := range insightLength + 100 {
		s.add(now.Add(time.Duration(i)*insightStep), "fair", in)
	}
	end := now.Add((insightLength + 100) * insightStep)
	lines, list := s.since(end, 24*time.Hour)
	if len(lines) != 40+seriesColours || len(list) != insightLength {
		t.Errorf("%d lines, %d samples", len(lines), len(list))
	}
	if c := lineChart("shares", lines, list, end, 30*time.Minute); c == nil || len(c.Legend) != seriesColours || len(c.Paths) != seriesColours || len(c.Paths[7].D.String()) > 100 {
		t.Errorf("%+v", c)
	}
	s.add(end, "fifo", sched.Insight{})
	if lines, list := s.since(end, time.Hour); len(lines)+len(list) > 0 {
		t.Errorf("another policy has %v, %v", lines, list)
	}
}

// TestStepPath draws a value that is constant, changes, and is unknown for a while.
func TestStepPath(t *testing.T) {
	var points []insightSample
	for i, v := range []float64{1, 1, 1, 2, -1, 1, 1} {
		points = append(points, insightSample{at: time.UnixMilli(int64(i)), values: []float64{v}})
	}
	unit := svg.Scale{Low: 0, High: 10, From: 0, To: 10}
	got := stepPath(points, unit, unit, func(p insightSample) (float64, bool) { return p.values[0], p.values[0] > 0 })
	if want := "M0 1H3V2H4M5 1H6"; got.String() != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNodeLoads records a node for longer than the record holds, and too many nodes.
func TestNodeLoads(t *testing.T) {
	f := newFake(1, "w1")
	s := newConsole(t, f)
	now := time.Now()
	for i := range nodeLength + 20 {
		at := now.Add(time.Duration(i-nodeLength-20) * nodeStep)
		s.loads.add(at, []*slotwisev1.NodeStatus{{Name: "w1", Cpu: 0.5, Memory: 0.25, Maps: int32(i % 4)}, {Name: "gone"}})
	}
	if n := len(s.loads.mu.nodes["w1"]); n != nodeLength {
		t.Errorf("%d samples", n)
	}
	if body := ask(s, http.MethodGet, "/ui/nodes/w1", "ann").Body.String(); !strings.Contains(body, "Load (%), last 30 minutes") || !strings.Contains(body, "Slots in use, last 30 minutes") {
		t.Errorf("no charts: %.3000s", body)
	}
	many := make([]*slotwisev1.NodeStatus, mostLoads+5)
	for i := range many {
		many[i] = &slotwisev1.NodeStatus{Name: fmt.Sprint("n", i)}
	}
	s.loads.add(now, many)
	if s.loads.mu.nodes["w1"] != nil || len(s.loads.mu.nodes) != mostLoads {
		t.Errorf("%d nodes", len(s.loads.mu.nodes))
	}
}

// TestLineChart: counts have whole numbers at their axis, and lines of which fewer than two points are known are no
// chart.
func TestLineChart(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	draw := func(values ...float64) *chart {
		var list []insightSample
		for i, v := range values {
			list = append(list, insightSample{now.Add(time.Duration(i-len(values)) * time.Second), []float64{v}})
		}
		return lineChart("choices", []line{{chart: "choices", name: "switches"}}, list, now, time.Minute)
	}
	for _, x := range draw(0, 0, 1).YTicks {
		if strings.Contains(x.Label, ".") {
			t.Errorf("a tick at %s switches", x.Label)
		}
	}
	if !slices.ContainsFunc(draw(0, 0.2, 0.7).YTicks, func(x svg.Tick) bool { return strings.Contains(x.Label, ".") }) {
		t.Error("fractions have no ticks")
	}
	if draw(math.NaN(), math.NaN(), 1) != nil {
		t.Error("a single value is a chart")
	}
}

// TestCapitalized begins texts of any script with a capital: names come from policies and from files.
func TestCapitalized(t *testing.T) {
	for text, want := range map[string]string{"": "", "slots": "Slots", "été": "Été", "待ち": "待ち"} {
		if got := capitalized(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestSummary shows by what a policy decides above its figures.
func TestSummary(t *testing.T) {
	f := newFake(1, "x")
	f.summary = "policy auto has fair decide"
	if body := ask(newConsole(t, f), http.MethodGet, "/ui/policy", "ann").Body.String(); !strings.Contains(body, "Policy auto has fair decide.") {
		t.Errorf("no summary in %.3000s", body)
	}
}
