package browser

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// longUser is the longest name of the users of a busy cluster.
const longUser = "a.user.with.a.long.name@department.example.org"

// busy is a cluster of three users with jobs in all states, a chain, and nodes that need attention.
type busy struct {
	*clustertest.Cluster
	tokens    map[string]string
	shared    string
	submitted int
}

// newBusy starts the master, which has nothing to show yet.
func newBusy(t *testing.T) *busy {
	file, c := filepath.Join(t.TempDir(), "tokens"), &busy{tokens: map[string]string{}, shared: t.TempDir()}
	for user, role := range map[string]secure.Role{"ann": secure.User, "bob": secure.User, longUser: secure.User, "root": secure.Admin, "worker": secure.Worker} {
		var err error
		if c.tokens[user], err = secure.AddToken(file, secure.Identity{User: user, Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	c.Cluster = newTestCluster(t, "--tokens", file, "--storage-root", "file://"+c.shared, "--policy", "fair")
	for user, token := range c.tokens {
		if err := os.WriteFile(filepath.Join(c.Dir, user), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

var idOf = regexp.MustCompile(`\bj[0-9]+\b`)

// submit submits a job and returns its id. A command with --wait does not print it; all jobs before
// such a one must have come from submit, too.
func (c *busy) submit(user, output string, args ...string) string {
	c.T.Helper()
	status, out := c.Run(append([]string{"submit", "--master", c.URL, "--token-file", user, "--output", filepath.Join(c.shared, output)}, args...)...)
	c.submitted++
	id := idOf.FindString(out)
	if slices.Contains(args, "--wait") {
		id = fmt.Sprint("j", c.submitted)
	}
	if id == "" {
		c.T.Fatalf("submit %v: status %d: %s", args, status, out)
	}
	return id
}

// fill starts the workers, one of which fails every task of a script, and submits the jobs. It returns the
// ids of some.
func (c *busy) fill() map[string]string {
	c.T.Helper()
	worker := func(name string) *clustertest.Worker {
		memory := "32MiB"
		if name == "w5" {
			memory = "96MiB"
		}
		return c.StartWorker(name, "--map-slots", "2", "--memory", memory, "--token-file", filepath.Join(c.Dir, "worker"))
	}
	for i := range 5 {
		worker(fmt.Sprint("w", i+1))
	}
	os.Setenv("PICTURES_TEST_BAD", "1") // for this worker alone; attempts inherit no variables of slotwise
	worker("w6")
	os.Unsetenv("PICTURES_TEST_BAD")
	gone := worker("rack-7-host-112.department.example.org")
	worker("w10")
	in := filepath.Join(c.shared, "in")
	words := strings.Repeat("the quick brown fox jumps over the lazy dog\n", 4000)
	var points strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&points, "%d,%d\n", i*7919%100+100*(i%3), i*104729%100)
	}
	if err := os.MkdirAll(in, 0o777); err != nil {
		c.T.Fatal(err)
	}
	for name, text := range map[string]string{"a.txt": words, "points.csv": points.String()} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o666); err != nil {
			c.T.Fatal(err)
		}
	}
	script := func(name, text string) []string {
		return []string{"--mapper", "./" + name, "--reducer", "cat", "--file", c.Write(name, "#!/bin/sh\n"+text), "--input", filepath.Join(in, "a.txt"), "--split-size", "16KiB", "--reduces", "1"}
	}
	ids := map[string]string{}
	for i := range 3 { // runs of one name, for its trend
		ids["ended"] = c.submit("ann", fmt.Sprint("counts", i), "wordcount", filepath.Join(in, "a.txt"), "--name", fmt.Sprint("nightly-counts-", i+1), "--pool", "reports", "--split-size", "16KiB", "--reduces", "2", "--wait")
	}
	ids["before"] = "j1"
	for i, user := range []string{"ann", "bob", "ann", "bob", longUser} {
		c.submit(user, fmt.Sprint("bad", i), append(script("sometimes.sh", "[ -z \"$PICTURES_TEST_BAD\" ] || { echo no space left on this device >&2; exit 1; }\nsleep 0.2; wc -l\n"), "--name", fmt.Sprint("import-", i), "--wait")...)
	}
	ids["failed"] = c.submit("bob", "none", append(script("fails.sh", "echo line 17: the field amount is no number: 12,50 >&2\nexit 3\n"), "--name", "bills", "--pool", "tests", "--wait")...)
	ids["chain"] = "chain-1"
	c.submit("ann", "means", "kmeans", filepath.Join(in, "points.csv"), "--param", "k=3", "--split-size", "8KiB", "--wait")
	for i, x := range [][2]string{{"ann", "reports"}, {"bob", "tests"}, {longUser, "a-pool-with-a-long-name-for-ad-hoc-questions"}, {"ann", "reports"}} {
		ids[fmt.Sprint("running", i)] = c.submit(x[0], fmt.Sprint("sleep", i), "sleep", "--name", []string{"nightly-report", "load test", "the-sales-of-all-regions-by-month-and-by-customer-joined-with-returns-2026-11-24", "small"}[i],
			"--param", fmt.Sprintf("maps=%dx%dms,6s", 300+200*i, 1500+500*i), "--param", "reduces=2x9s", "--pool", x[1])
	}
	// Only w5 has the memory for one of its tasks, and w5 is drained.
	ids["waiting"] = c.submit("bob", "wide", "sleep", "--name", "wide", "--param", "maps=4x5s", "--pool", "tests", "--task-memory", "64MiB")
	for _, args := range [][]string{{"nodes", "drain", "w5"}} {
		if status, out := c.Run(append(args, "--master", c.URL, "--token-file", "root")...); status != 0 {
			c.T.Fatalf("%v: %s", args, out)
		}
	}
	gone.Kill()
	return ids
}

// signIn signs in and continues at a path.
func (b *chrome) signIn(user, token, path string) {
	b.t.Helper()
	b.open("/ui/login?next=" + path)
	b.do("the token of "+user, chromedp.SetValue(`input[name="token"]`, token, chromedp.ByQuery), chromedp.Submit(`input[name="token"]`, chromedp.ByQuery))
	b.until(user+" is signed in", fmt.Sprintf(`document.body.dataset.ready === "1" && location.pathname === %q && document.querySelector(".who").textContent.includes(%q)`, path, user))
}

// view is a page at a path, by the name of its pictures.
type view struct{ name, path string }

// TestPictures writes pictures of all pages of an empty and of a busy cluster in two themes and two widths
// into the directory SLOTWISE_PICTURES; SLOTWISE_VIEWS is a regular expression for the names of the pages, if not all
// are wanted. With SLOTWISE_REWRITE=1 it writes those of docs/console.md.
// No page has barriers in any form, and on a phone none is higher than six screens.
func TestPictures(t *testing.T) {
	dir, docs := os.Getenv("SLOTWISE_PICTURES"), os.Getenv("SLOTWISE_REWRITE") == "1"
	if dir == "" && !docs {
		t.Skip("takes minutes: set SLOTWISE_PICTURES to a directory, or SLOTWISE_REWRITE=1")
	}
	c := newBusy(t)
	b := newChrome(t, c.URL)
	axe := os.Getenv("SLOTWISE_AXE") != "0" // it takes most of the time
	wanted := regexp.MustCompile(os.Getenv("SLOTWISE_VIEWS"))
	forms := func(views ...view) {
		for _, v := range views {
			if wanted.MatchString(v.name) {
				b.forms(v, dir, axe)
			}
		}
	}
	if dir != "" {
		forms(view{"login", "/ui/login?next=/ui/"})
	}
	b.signIn("root", c.tokens["root"], "/ui/")
	if dir != "" {
		forms(view{"empty-overview", "/ui/"}, view{"empty-jobs", "/ui/jobs"}, view{"empty-nodes", "/ui/nodes"}, view{"empty-history", "/ui/history"}, view{"empty-policy", "/ui/policy"}, view{"empty-whatif", "/ui/whatif"})
	}
	ids := c.fill()
	job := func(name string) string { return "/ui/jobs/" + ids[name] }
	if dir != "" {
		b.open(job("waiting"))
		if state := eval[string](b, `document.querySelector("#summary .state").textContent`); state != "waiting" {
			t.Errorf("the job of the picture of a waiting job is %s", state)
		}
	}
	b.open(job("running0"))
	b.until("some attempts", `document.querySelectorAll("#timeline rect[class*=map]").length > 20`)
	if docs {
		for _, x := range []picture{
			{"/ui/", "overview", "light"}, {"/ui/", "overview", "dark"}, {"/ui/", "overview", "phone"}, {"/ui/jobs", "jobs", "light"}, {"/ui/jobs", "jobs", "phone"},
			{job("running0"), "job", "light"}, {job("running0"), "job", "dark"}, {job("running0"), "job", "phone"}, {job("failed"), "failed", "light"}, {job("chain"), "chain", "light"},
			{job("ended") + "/attempts", "attempts", "light"}, {"/ui/attempts/" + ids["failed"] + "_m_0_0", "log", "light"}, {"/ui/nodes", "nodes", "light"}, {"/ui/nodes/w1", "node", "light"}, {"/ui/history", "history", "light"},
			{"/ui/compare?a=" + ids["before"] + "&b=" + ids["ended"], "compare", "light"}, {"/ui/whatif?nodes=2", "whatif", "light"}, {"/ui/policy?name=fifo", "policy", "dark"},
		} {
			b.picture(x)
		}
	}
	if dir == "" {
		return
	}
	b.theme("light", 1280)
	b.open("/ui/whatif")
	b.do("simulate the past", chromedp.SetValue(`#since input[name="since"]`, "1h", chromedp.ByQuery), chromedp.Click("#since button", chromedp.ByQuery))
	b.until("the answer about the past", `document.body.dataset.ready === "1" && document.querySelector("#t-past") !== null`)
	past := eval[string](b, "location.pathname")
	forms(view{"overview", "/ui/"}, view{"jobs", "/ui/jobs"}, view{"job-running", job("running2")}, view{"job-waiting", job("waiting")}, view{"job-failed", job("failed")}, view{"job-ended", job("ended")}, view{"chain", job("chain")},
		view{"attempts", job("running0") + "/attempts"}, view{"log", "/ui/attempts/" + ids["failed"] + "_m_0_0"}, view{"nodes", "/ui/nodes"}, view{"node-graylisted", "/ui/nodes/w6"}, view{"node", "/ui/nodes/w1"},
		view{"policy", "/ui/policy"}, view{"policy-preview", "/ui/policy?name=fifo"}, view{"whatif", "/ui/whatif"}, view{"whatif-nodes", "/ui/whatif?nodes=2"}, view{"whatif-past", past},
		view{"history", "/ui/history"}, view{"compare", "/ui/compare?a=" + ids["before"] + "&b=" + ids["ended"]}, view{"nothing", "/ui/nosuch"})
}

// TestPicturesAuto writes the pictures of the page of policy auto after it has switched, as TestPictures does.
func TestPicturesAuto(t *testing.T) {
	dir := os.Getenv("SLOTWISE_PICTURES")
	if dir == "" {
		t.Skip("takes a minute: set SLOTWISE_PICTURES to a directory")
	}
	b := newChrome(t, newAuto(t).URL)
	b.open("/ui/policy")
	b.until("a switch", `[...document.querySelectorAll("#t-state0 td[data-name=Chosen]")].some((e) => e.textContent === "fair")`)
	b.forms(view{"policy-auto", "/ui/policy"}, dir, os.Getenv("SLOTWISE_AXE") != "0")
}

// newAuto starts a cluster under policy auto, on which small jobs wait behind a large one until the policy switches.
func newAuto(t *testing.T) *clustertest.Cluster {
	c := newTestCluster(t, "--policy", "auto", "--policy-set", "candidates=fifo,fair,yarn", "--policy-set", "choose-every=3s", "--policy-set", "least-time=1m")
	for i := range 3 {
		c.StartWorker(fmt.Sprint("w", i+1), "--map-slots", "2")
	}
	submit := func(name, tasks string) {
		if status, out := c.Run("submit", "--master", c.URL, "sleep", "--name", name, "--param", tasks, "--output", filepath.Join(c.Dir, name)); status != 0 {
			t.Fatalf("%s: status %d: %s", name, status, out)
		}
	}
	submit("batch", "maps=400x2s")
	for i := range 8 {
		submit(fmt.Sprint("question-", i+1), "maps=3x2s")
	}
	return c
}

// forms writes the four pictures of a page, whole pages, into a directory, and looks for barriers.
func (b *chrome) forms(v view, dir string, axe bool) {
	b.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			name := fmt.Sprintf("%s-%s-%d", v.name, theme, width)
			b.theme(theme, width)
			b.open(v.path)
			b.painted()
			height := eval[int64](b, "document.documentElement.scrollHeight")
			// Tables that are too wide for the window can be scrolled, but hide their last columns.
			if wide := eval[[]string](b, `[...document.querySelectorAll(".scroll")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.getAttribute("aria-label"))`); width == 1280 && len(wide) > 0 {
				b.t.Errorf("%s: wider than the window: %q", name, wide)
			}
			if most := int64(6 * 844); width == 390 && height > most {
				b.t.Errorf("%s: %d pixels high, and six screens are %d", name, height, most)
			}
			var shot []byte
			b.do(name, chromedp.ActionFunc(func(ctx context.Context) (err error) {
				shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(&page.Viewport{Width: float64(width), Height: float64(height), Scale: 1}).Do(ctx)
				return err
			}))
			if err := os.MkdirAll(dir, 0o777); err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o666); err != nil {
				b.t.Fatal(err)
			}
			if axe {
				b.axe(name)
			}
		}
	}
	b.complaints() // the answer 404 of a page that shows an error
}

// painted waits until the page is painted.
func (b *chrome) painted() {
	b.t.Helper()
	b.do("painted", chromedp.Evaluate(`window.painted = false; requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = true; })); 1`, nil))
	b.until("the page is painted", "window.painted")
	time.Sleep(50 * time.Millisecond) // animations of the browser's own controls
}

// picture is a picture of docs/console.md: the page at a path, in a theme, or on a phone.
type picture struct{ path, name, theme string }

// picture writes a picture.
func (b *chrome) picture(x picture) {
	b.t.Helper()
	dir := filepath.Join("..", "..", "docs", "console")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		b.t.Fatal(err)
	}
	width, height := int64(1200), int64(780)
	theme := x.theme
	if theme == "phone" {
		theme, width, height = "light", 390, 844
	}
	b.theme(theme, width)
	b.do("height", emulation.SetDeviceMetricsOverride(width, height, 1, false))
	b.open(x.path)
	b.painted()
	var shot []byte
	b.do(x.name, chromedp.CaptureScreenshot(&shot))
	shot, err := fewColours(shot)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(shot) > 80<<10 {
		b.t.Errorf("%s is too large: %d bytes", x.name, len(shot))
	}
	if err := os.WriteFile(filepath.Join(dir, x.name+"-"+x.theme+".png"), shot, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// fewColours reduces a PNG to the 64 colours that most of its pixels have, so that the repository
// stays small. Pages have few colours; the others are edges of letters.
func fewColours(b []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	count, bounds := map[color.Color]int{}, full.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[full.At(x, y)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Or(count[b]-count[a], strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	}))
	palette = palette[:min(len(palette), 64)]
	nearest := map[color.Color]uint8{}
	few := image.NewPaletted(bounds, palette)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			c := full.At(x, y)
			if _, known := nearest[c]; !known {
				nearest[c] = uint8(palette.Index(c))
			}
			few.SetColorIndex(x, y, nearest[c])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}
