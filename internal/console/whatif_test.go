package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestWhatIf asks for each change that the form offers. Wrong fields are named, and nothing is
// asked then.
func TestWhatIf(t *testing.T) {
	f := newFake(2, "x")
	s := newConsole(t, f)
	for path, want := range map[string]string{
		"":                        "The master simulates the future",
		"?nodes=&policy=&maps=":   "The master simulates the future",
		"?nodes=%2B2":             "nodes:2",
		"?nodes=-1&kill=j1+j2":    "nodes:-1 kill:j1,j2",
		"?policy=fair&set=a%3D1":  "policy:fair a=1",
		"?priority=HIGH&of=j2+j1": "priorities:j2=HIGH,j1=HIGH",
		"?maps=10&map_seconds=2.5&reduces=1&pool=p&name=n": "submit:10,1,2.5,n,p",
		"?nodes=many":            "nodes &#34;many&#34;: write a whole number",
		"?maps=-1":               "maps &#34;-1&#34;: write a whole number",
		"?map_seconds=NaN":       "map_seconds &#34;NaN&#34;: write a number of seconds",
		"?reduces=4":             "write the number of maps of the job to submit",
		"?set=a%3D1":             "choose the policy whose parameters are a=1",
		"?set=nonsense":          "write name=value",
		"?policy=nosuch":         "no policy nosuch",
		"?priority=x&of=j1":      "The master simulates the future",
		"?nodes=99999999999":     "write a whole number",
		"?nodes=1&kill=%3Cb%3Ex": "nodes:1 kill:<b>x",
	} {
		f.asked = nil
		body := ask(s, http.MethodGet, "/ui/whatif"+path, "ann").Body.String()
		got := body
		if c := f.asked; c != nil && c.Policy != "nosuch" {
			var parts []string
			add := func(on bool, format string, args ...any) {
				if on {
					parts = append(parts, fmt.Sprintf(format, args...))
				}
			}
			add(c.Policy != "", "policy:%s", c.Policy)
			add(len(c.Set) > 0, "a=%s", c.Set["a"])
			add(c.Nodes != 0, "nodes:%d", c.Nodes)
			add(len(c.Kill) > 0, "kill:%s", strings.Join(c.Kill, ","))
			var levels []string
			for _, p := range c.Priorities {
				levels = append(levels, p.Job+"="+p.Priority)
			}
			add(len(levels) > 0, "priorities:%s", strings.Join(levels, ","))
			for _, j := range c.Submit {
				add(true, "submit:%d,%d,%v,%s,%s", j.Maps, j.Reduces, j.MapSeconds, j.Job.Name, j.Job.Pool)
			}
			got = strings.Join(parts, " ")
			if !strings.Contains(body, "1 job would end earlier, 0 later") {
				t.Errorf("%s: no answer in %.3000s", path, body)
			}
		}
		if got != want && (f.asked != nil && f.asked.Policy != "nosuch" || !strings.Contains(got, want)) {
			t.Errorf("%s: want %q in %.3000s", path, want, got)
		}
	}
	if w := ask(New(t.Context(), f, nil, s.who, ""), http.MethodGet, "/ui/whatif", "ann"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "What if") {
		t.Errorf("without an actor: %d", w.Code)
	}
}

// TestTrends compares the latest run of a name with the ones before it.
func TestTrends(t *testing.T) {
	f := newFake(0, "x")
	add := func(name string, took int64, state slotwisev1.JobState) {
		f.jobs = append([]*slotwisev1.JobStatus{{Id: fmt.Sprint("j", len(f.jobs)+1), Name: name, State: state, SubmittedMs: 1000, EndedMs: 1000 + took}}, f.jobs...)
	}
	const ok = slotwisev1.JobState_JOB_STATE_SUCCEEDED
	for _, took := range []int64{5000, 4000, 6000, 7000} {
		add("slower", took, ok)
		add("same", 5000+took/100, ok)
	}
	add("slower", 100, slotwisev1.JobState_JOB_STATE_FAILED)
	add("once", 5000, ok)
	s := newConsole(t, f)
	got := ask(s, http.MethodGet, "/ui/history?format=csv&table=trends", "ann").Body.String()
	if want := "name,runs,median_ms,last_ms,change\nslower,4,5000,7000,0.4\nsame,4,5050,5070,0.0039603960396039604\n"; got != want {
		t.Errorf("%s", got)
	}
	body := ask(s, http.MethodGet, "/ui/history", "ann").Body.String()
	if !strings.Contains(body, `<span class="more">+40 %</span>`) || strings.Count(body, `class="spark"`) != 2 || strings.Contains(body, `class="less"`) {
		t.Errorf("%s", body[strings.Index(body, `id="trends"`):])
	}
	f.jobs = f.jobs[:1]
	if body := ask(s, http.MethodGet, "/ui/history", "ann").Body.String(); strings.Contains(body, "Times by name") {
		t.Error("a single run has a trend")
	}
}
