package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe-core is a program in JavaScript that finds barriers in pages for people who use a screen
// reader or a keyboard, or who see little.
const (
	axeVersion = "4.14.1"
	axeSHA256  = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// axeScript returns axe-core, which npm puts into the user's cache directory. Without npm it returns
// "", and fails in CI.
var axeScript = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "slotwise-ci", "axe-core-"+axeVersion)
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(file); err != nil {
		if out, err := exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-save", "axe-core@"+axeVersion).CombinedOutput(); err != nil {
			return string(out), err
		}
	}
	b, err := os.ReadFile(file)
	return string(b), err
})

// axe reports the barriers of the open page.
func (b *chrome) axe(what string) {
	b.t.Helper()
	if found := b.barriers(what); len(found) > 0 {
		b.t.Errorf("%s: axe-core finds %s", what, strings.Join(found, "\n"))
	}
}

// barriers returns the serious and critical barriers that axe-core finds in the open page, with all of
// its folds open.
func (b *chrome) barriers(what string) (found []string) {
	b.t.Helper()
	script, err := axeScript()
	if err != nil {
		if os.Getenv("CI") == "true" {
			b.t.Fatalf("axe-core is missing: %v: %s", err, script)
		}
		b.t.Logf("axe-core is missing, so %s is not checked with it: %v", what, err)
		return nil
	}
	if sum := sha256.Sum256([]byte(script)); hex.EncodeToString(sum[:]) != axeSHA256 {
		b.t.Fatalf("axe-core %s has the digest %x", axeVersion, sum)
	}
	b.do("axe "+what, chromedp.Evaluate(script+"; 1", nil),
		chromedp.Evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; });
			axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
				.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + n.html.slice(0, 160))))`, &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return found
}

// phone checks the open page in the window of a phone: it has at most six screens, and no
// barriers.
func (b *chrome) phone(path string) {
	b.t.Helper()
	const width, height, screens = 390, 844, 6
	b.do("phone", emulation.SetDeviceMetricsOverride(width, height, 1, true))
	if h := eval[int](b, "document.documentElement.scrollHeight"); h > screens*height {
		b.t.Errorf("%s: %d pixels high on a phone", path, h)
	}
	b.axe(path + " on a phone")
}

// TestAxeFinds checks that a page with a barrier does not pass.
func TestAxeFinds(t *testing.T) {
	if _, err := axeScript(); err != nil {
		t.Skip("axe-core is missing")
	}
	b := newChrome(t, "")
	b.do("a page", chromedp.Navigate("data:text/html,<title>x</title><img src=x>"))
	if found := b.barriers("an image without a text"); len(found) == 0 {
		t.Error("axe-core finds nothing")
	}
}
