package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// chrome is a tab of a browser that records what goes wrong in its pages.
type chrome struct {
	t   *testing.T
	ctx context.Context
	url string
	mu  struct {
		sync.Mutex
		complaints []string
	}
}

// newChrome starts a browser. Without one the test is skipped, and fails in CI.
func newChrome(t *testing.T, url string) *chrome {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is missing: .ci/run installs it")
		}
		t.Skip("chromium is missing: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Env("TZ=UTC"))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(alloc, chromedp.WithErrorf(t.Logf))
	t.Cleanup(stop)
	b := &chrome{t: t, ctx: ctx, url: url}
	chromedp.ListenTarget(ctx, b.listen)
	if err := chromedp.Run(ctx, log.Enable(), network.Enable()); err != nil { // the browser lives as long as this context
		t.Fatal(err)
	}
	return b
}

// listen records errors of the console, exceptions, and what the policy of contents refused.
func (b *chrome) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			text = fmt.Sprint("console: ", e.Type)
		}
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.complaints = append(b.mu.complaints, text)
	}
}

// complaints returns what went wrong since the last call.
func (b *chrome) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.mu.complaints = nil }()
	return b.mu.complaints
}

// do carries out actions, for at most three minutes: on a busy machine axe-core takes more than one.
func (b *chrome) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, 3*time.Minute)
	defer stop()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v; %q", what, err, b.complaints())
	}
}

// open loads a page and waits for its script.
func (b *chrome) open(path string) {
	b.t.Helper()
	b.do(path, chromedp.Navigate(b.url+path), chromedp.WaitReady("body[data-ready]", chromedp.ByQuery))
}

// eval returns the value of an expression in the page.
func eval[T any](b *chrome, expression string) (v T) {
	b.t.Helper()
	b.do(expression, chromedp.Evaluate(expression, &v))
	return v
}

// until waits until an expression is true. Between two pages it cannot be evaluated.
func (b *chrome) until(what, expression string) {
	b.t.Helper()
	clustertest.Eventually(b.t, what, func() bool {
		ctx, stop := context.WithTimeout(b.ctx, time.Minute)
		defer stop()
		holds := false
		return chromedp.Run(ctx, chromedp.Evaluate(expression, &holds)) == nil && holds
	})
}

// lowContrast returns the texts whose contrast with their background is below 4.5 to 1, as
// WCAG 2 computes it. Large text needs 3 to 1.
const lowContrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number), by = c.startsWith("color(srgb") ? 255 : 1; return { r: by * m[0], g: by * m[1], b: by * m[2], a: m.length > 3 ? m[3] : 1 }; };
	const light = ({ r, g, b }) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c; } return { r: 255, g: 255, b: 255 }; };
	const bad = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || /^(TITLE|OPTION|SCRIPT)$/i.test(e.tagName)) continue;
		const s = getComputedStyle(e), a = light(parse(e.closest("svg") ? s.fill : s.color)), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(s.fontSize);
		if (ratio < (size >= 24 ? 3 : 4.5)) bad.add(e.tagName + "." + e.getAttribute("class") + " " + ratio.toFixed(2) + " " + e.textContent.slice(0, 30));
	}
	return [...bad];
})()`

// nameless returns the controls that a screen reader cannot name.
func (b *chrome) nameless() (bad []string) {
	b.t.Helper()
	b.do("accessibility", chromedp.ActionFunc(func(ctx context.Context) error {
		nodes, err := accessibility.GetFullAXTree().Do(ctx)
		for _, n := range nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			switch role := strings.Trim(string(n.Role.Value), `"`); role {
			case "button", "link", "textbox", "searchbox", "combobox", "progressbar", "image", "navigation", "heading", "table", "group":
				if n.Name == nil || strings.Trim(string(n.Name.Value), `" `) == "" {
					if role == "group" || role == "table" {
						continue // groups without a role of their own, such as details
					}
					bad = append(bad, role)
				}
			}
		}
		return err
	}))
	return bad
}

// theme switches between the light and the dark theme, and the width of the window.
func (b *chrome) theme(name string, width int64) {
	b.t.Helper()
	b.do(name, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}),
		emulation.SetDeviceMetricsOverride(width, 900, 1, false))
}

// check opens a page, and reports low contrast in either theme, controls without a name, a page
// that is wider than a window of 320 or 3,840 pixels, small text in the large one, more than six
// screens of a phone, barriers that axe-core finds, and what the browser complains about.
func (b *chrome) check(path string) {
	b.t.Helper()
	b.theme("light", 1280)
	b.open(path)
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme, 1280)
		if bad := eval[[]string](b, lowContrast); len(bad) > 0 {
			b.t.Errorf("%s, %s: low contrast: %q", path, theme, bad)
		}
		b.axe(path + ", " + theme)
	}
	if bad := b.nameless(); len(bad) > 0 {
		b.t.Errorf("%s: without a name: %q", path, bad)
	}
	b.open(path) // its folds are closed again
	b.phone(path)
	for _, width := range []int64{320, 3840} {
		b.theme("light", width)
		if w := eval[int64](b, "document.documentElement.scrollWidth"); w > width {
			b.t.Errorf("%s: %d pixels wide in a window of %d", path, w, width)
		}
	}
	if size := eval[float64](b, `parseFloat(getComputedStyle(document.body).fontSize)`); size < 20 {
		b.t.Errorf("%s: letters of %v pixels in a window of 3840", path, size)
	}
	if bad := b.complaints(); len(bad) > 0 {
		b.t.Errorf("%s: %q", path, bad)
	}
}

// TestBrowser opens every page in a real browser while jobs of several kinds run.
func TestBrowser(t *testing.T) {
	c := newTestCluster(t, "--policy", "fair", "--heartbeat", "200ms")
	b := newChrome(t, c.URL)
	for _, w := range []string{"w1", "w2"} {
		c.StartWorker(w, "--map-slots", "2")
	}
	c.Words("in/a.txt", 20_000)
	slow := c.Write("slow.sh", "#!/bin/sh\necho attempt begins >&2\nsleep 0.4\nwc -l\n")
	fails := c.Write("fails.sh", "#!/bin/sh\necho this job always fails >&2\nexit 3\n")
	c.Must("wordcount", "in", "--output", "counts", "--split-size", "32KiB", "--reduces", "3", "--pool", "reports")
	if status, out := c.Submit("--mapper", "./fails.sh", "--reducer", "cat", "--file", fails, "--input", "in", "--output", "none", "--reduces", "1", "--pool", "tests"); !strings.Contains(out, "j2") || status == 0 {
		t.Fatalf("the failing job: status %d, %s", status, out)
	}
	submit := c.Command("submit", "--master", c.URL, "--mapper", "./slow.sh", "--reducer", "cat", "--file", slow, "--input", "in", "--output", "slow",
		"--split-size", "8KiB", "--reduces", "2", "--pool", "<script>alert(1)")
	if out, err := submit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	talks := c.Write("talks.sh", "#!/bin/sh\ni=0\nwhile [ $i -lt 3000 ]; do i=$((i+1)); echo line $i >&2; sleep 0.2; done\n")
	if out, err := c.Command("submit", "--master", c.URL, "--mapper", "./talks.sh", "--reducer", "cat", "--file", talks, "--input", "in", "--output", "talk", "--reduces", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	live(b)
	keys(b)
	actions(b)
	followLog(b)
	pages := []string{"/ui/", "/ui/jobs", "/ui/jobs/j1", "/ui/jobs/j2", "/ui/jobs/j3", "/ui/jobs/j3/attempts", "/ui/attempts/j2_m_0_0", "/ui/nodes", "/ui/nodes/w1", "/ui/policy", "/ui/policy?name=fair", "/ui/whatif?nodes=2", "/ui/history", "/ui/compare?a=j1&b=j2", "/ui/login"}
	for _, path := range pages {
		b.check(path)
	}
	noScript(b, pages)
	b.do("search", chromedp.Navigate(b.url+"/ui/jobs"), chromedp.SetValue(`input[name="pool"]`, "reports", chromedp.ByQuery), chromedp.Submit(`form.filter`, chromedp.ByQuery), chromedp.WaitVisible(`a[href="/ui/jobs/j1"]`, chromedp.ByQuery))
	b.do("script on", emulation.SetScriptExecutionDisabled(false))
	silent(b, c)
}

// silent stops the master for a while, and then ends it. The page says so each time, within five seconds on an idle
// machine, and that the master answers again.
func silent(b *chrome, c *clustertest.Cluster) {
	const banner = `document.getElementById("live").classList.contains("lost")`
	b.open("/ui/")
	b.until("the page is connected", `document.body.dataset.connected === "1"`)
	for try := 1; ; try++ { // a busy machine may delay the answers of the master
		time.Sleep(3 * time.Second) // a banner without a reason would appear in this time
		if !eval[bool](b, banner) {
			break
		}
		if try == 5 {
			b.t.Error("the page misses a master that answers")
			break
		}
	}
	b.missed("frozen", banner, func() { c.Master.Cmd.Process.Signal(syscall.SIGSTOP) })
	c.Master.Cmd.Process.Signal(syscall.SIGCONT)
	b.until("the master answers again", "!"+banner)
	b.missed("dead", banner, c.Master.Kill)
	b.complaints() // refused connections
}

// missed stops the master with end and waits for the banner.
func (b *chrome) missed(what, banner string, end func()) {
	b.t.Helper()
	end()
	start := time.Now()
	b.until("a banner for a "+what+" master", banner)
	b.t.Logf("a %s master: a banner after %v", what, time.Since(start).Round(10*time.Millisecond))
}

// live watches a job's page, which must change without being loaded again.
func live(b *chrome) {
	b.open("/ui/jobs/j3")
	b.until("the page is connected", `document.body.dataset.connected === "1"`)
	eval[bool](b, "window.same = true")
	before := eval[string](b, `document.getElementById("summary").textContent`)
	b.until("the page shows progress", fmt.Sprintf(`document.body.dataset.updates > 1 && document.getElementById("summary").textContent !== %q`, before))
	if !eval[bool](b, "window.same === true") {
		b.t.Error("the page was loaded again")
	}
	if eval[int](b, `document.querySelectorAll("#timeline rect[class*=map]").length`) == 0 {
		b.t.Error("no attempt in the timeline")
	}
}

// followLog watches the log of a running attempt, which grows without another load of the page,
// until the job is killed by its button.
func followLog(b *chrome) {
	b.open("/ui/jobs/j4/attempts")
	b.until("an attempt of j4", `document.querySelector('a[href="/ui/attempts/j4_m_0_0"]') !== null`)
	b.open("/ui/attempts/j4_m_0_0")
	eval[bool](b, "window.same = true")
	const last = `Number((document.querySelector("pre").textContent.match(/line (\d+)\s*$/) || [0, 0])[1])`
	b.until("a line of the log", last+" > 0")
	before := eval[int](b, last)
	b.until("three more lines", fmt.Sprintf("%s >= %d", last, before+3))
	if !eval[bool](b, "window.same === true") {
		b.t.Error("the page of the log was loaded again")
	}
	log := eval[string](b, `document.querySelector("pre").textContent`)
	for i := 1; i <= before; i++ {
		if strings.Count(log, fmt.Sprintf("line %d\n", i)) != 1 {
			b.t.Errorf("line %d is missing or repeated in %.200s", i, log)
			break
		}
	}
	b.open("/ui/jobs/j4")
	b.tabTo("the fold of kill", `document.activeElement.matches("details.danger summary")`)
	b.do("kill", chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("seen enough"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until("j4 is killed", `document.body.dataset.ready === "1" && document.getElementById("summary").textContent.includes("killed")`)
	b.open("/ui/attempts/j4_m_0_0")
	b.until("the log is complete", `document.getElementById("live").textContent.includes("complete")`)
}

// tabTo presses the Tab key until an expression is true.
func (b *chrome) tabTo(what, reached string) {
	b.t.Helper()
	for range 100 {
		if eval[bool](b, reached) {
			return
		}
		b.do("Tab", chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("the Tab key does not lead to %s", what)
}

// actions acts with the keyboard alone: it opens an attempt from its bar, changes a priority, asks what
// more nodes would change, and compares two jobs.
func actions(b *chrome) {
	b.open("/ui/jobs/j1")
	b.tabTo("the timeline", `document.activeElement.closest(".plot") !== null`)
	first := eval[string](b, `document.activeElement.getAttribute("href")`)
	b.do("the next bar", chromedp.KeyEvent(kb.ArrowRight))
	next := eval[string](b, `document.activeElement.getAttribute("href")`)
	if first == next || !strings.HasPrefix(next, "/ui/attempts/j1_") {
		b.t.Errorf("an arrow key leads from %q to %q", first, next)
	}
	b.do("Tab", chromedp.KeyEvent(kb.Tab))
	if eval[bool](b, `document.activeElement.closest(".plot") !== null`) {
		b.t.Error("each bar is a stop of the Tab key")
	}
	b.open("/ui/jobs/j1")
	b.tabTo("the timeline", `document.activeElement.closest(".plot") !== null`)
	b.do("the log", chromedp.KeyEvent(kb.Enter))
	b.until("the log of the attempt", fmt.Sprintf(`location.pathname === %q && document.body.dataset.ready === "1"`, first))
	b.open("/ui/jobs/j4")
	b.tabTo("the fold of the priority", `document.activeElement.matches("#actions summary")`)
	b.do("HIGH", chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("H"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until("the priority", `document.body.dataset.ready === "1" && location.search === "?done=priority" && document.getElementById("summary").textContent.includes("high")`)
	b.open("/ui/whatif")
	b.tabTo("the number of nodes", `document.activeElement.name === "nodes"`)
	b.do("two nodes", chromedp.KeyEvent("2"), chromedp.KeyEvent(kb.Enter))
	b.until("what two nodes would change", `document.body.dataset.ready === "1" && location.search.includes("nodes=2") && document.getElementById("preview") !== null`)
	b.open("/ui/jobs?state=succeeded")
	b.tabTo("a box", `document.activeElement.type === "checkbox"`)
	b.do("check", chromedp.KeyEvent(" "))
	if got := eval[int](b, `document.querySelectorAll("#jobs input:checked").length`); got != 1 {
		b.t.Errorf("%d boxes are checked", got)
	}
	b.tabTo("the button that compares", `document.activeElement.textContent === "Compare two"`)
	b.do("compare", chromedp.KeyEvent(kb.Enter))
	b.until("the complaint about one job", `document.body.dataset.ready === "1" && document.body.textContent.includes("check two to compare")`)
	b.complaints() // the answer 400
}

// keys goes from page to page with the keyboard.
func keys(b *chrome) {
	b.do("g n", chromedp.KeyEvent("g"), chromedp.KeyEvent("n"))
	b.until("the page of nodes", `location.pathname === "/ui/nodes" && document.body.dataset.ready === "1"`)
	b.do("Tab", chromedp.KeyEvent(kb.Tab))
	if got := eval[string](b, `document.activeElement.textContent`); got != "Skip to the content" {
		b.t.Errorf("the first stop is %q", got)
	}
	if got := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`); got != "solid" {
		b.t.Errorf("the focus is shown by %q", got)
	}
	b.do("Enter", chromedp.KeyEvent(kb.Enter))
	b.until("the content has the focus", `document.activeElement.id === "main"`)
	b.do("?", chromedp.KeyEvent("?"))
	b.until("the list of keys", `document.querySelector("dialog[open]") !== null`)
	b.do("Escape", chromedp.KeyEvent(kb.Escape))
	b.until("no list of keys", `document.querySelector("dialog") === null`)
	b.do("/", chromedp.KeyEvent("/"))
	b.until("the search field", `document.activeElement.name === "q"`)
	// DevTools sends the character although the script has prevented it.
	b.do("w1", chromedp.SetValue(`input[name="q"]`, "w1", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	b.until("the node that was searched", `location.search.includes("q=w1") && document.querySelectorAll("#t-nodes tbody tr").length === 1`)
	b.open("/ui/jobs/j1")
	b.do("+", chromedp.KeyEvent("+"))
	b.until("a part of the timeline", `location.search.includes("from=")`)
	b.do("0", chromedp.KeyEvent("0"))
	b.until("the whole timeline", `!location.search.includes("from=")`)
}

// noScript reads each page in a browser that runs no script from now on.
func noScript(b *chrome, pages []string) {
	b.do("script off", emulation.SetScriptExecutionDisabled(true))
	for _, path := range pages {
		var text string
		b.do(path, chromedp.Navigate(b.url+path), chromedp.Text("main", &text, chromedp.ByQuery))
		if len(text) < 60 {
			b.t.Errorf("%s without a script: %q", path, text)
		}
	}
}
