package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/slotwise/slotwise/internal/live/pages"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// ask sends a request to a console as a user.
func ask(s *Server, method, path, user string, header ...string) *httptest.ResponseRecorder {
	body := ""
	path, form, posted := strings.Cut(path, "|")
	if posted {
		body = form
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if posted {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	role := secure.User
	if user == "root" {
		role = secure.Admin
	}
	r = r.WithContext(secure.With(r.Context(), secure.Identity{User: user, Role: role}))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// newConsole returns a console with a few samples.
func newConsole(t testing.TB, f *fake) *Server {
	s := New(t.Context(), f, f, pages.Visitor, "test")
	for i := range 5 {
		s.samples.add(time.Now().Add(time.Duration(i-5)*time.Minute), f.use)
	}
	return s
}

// views are all pages.
var views = []string{"/ui/", "/ui/?range=24h", "/ui/jobs", "/ui/jobs?q=zzz", "/ui/jobs/j1", "/ui/jobs/j1?from=2500&to=3000", "/ui/jobs/j1/attempts", "/ui/jobs/j1/attempts?kind=map&sort=time",
	"/ui/attempts/j1_m_0_0", "/ui/nodes", "/ui/nodes/NAME", "/ui/policy", "/ui/whatif?nodes=1", "/ui/history", "/ui/compare?a=j1&b=j2", "/ui/login?next=/ui/jobs"}

// hostile are names that try to leave their place in a page.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'); alert(1); ('`, "\u202egnorw\u202c\u2066", strings.Repeat("long", 250), "", "={1+1}", `</pre></title>`, "a\x00b\xff",
}

// TestPages renders each page with each hostile name. The name must appear as text only,
// and each page must have what people who use a keyboard or a screen reader need.
func TestPages(t *testing.T) {
	for _, name := range hostile {
		f := newFake(3, name)
		s := newConsole(t, f)
		for _, view := range views {
			path := strings.ReplaceAll(view, "NAME", url.PathEscape(name))
			if strings.HasSuffix(view, "NAME") && name == "" {
				continue
			}
			w := ask(s, http.MethodGet, path, "ann")
			if w.Code != http.StatusOK {
				t.Errorf("%s with name %.20q: %d %.300s", view, name, w.Code, w.Body)
				continue
			}
			if strings.Contains(w.Body.String(), `="#"`) {
				t.Errorf("%s with name %.20q: a link was taken for one to another site", view, name)
			}
			root, err := html.Parse(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range inspect(root) {
				t.Errorf("%s with name %.20q: %s", view, name, bad)
			}
		}
	}
}

// TestLinks checks that attributes of URLs only lead to the console.
func TestLinks(t *testing.T) {
	for value, want := range map[string]string{
		"/ui/jobs/j1": "/ui/jobs/j1", "?a=b": "?a=b", "#main": "#main", `/ui/"><script>`: "/ui/&#34;&gt;&lt;script&gt;",
		"javascript:alert(1)": "#", "//evil.example/": "#", `/\evil.example`: "#", "https://evil.example/": "#", "data:text/html,x": "#", " /ui/": "#", "": "#",
	} {
		var b strings.Builder
		if err := href(value).Render(&b); err != nil || b.String() != ` href="`+want+`"` {
			t.Errorf("%q: %s, %v", value, &b, err)
		}
	}
}

// attr returns an attribute of an element.
func attr(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// words returns the text in an element, with the names that attributes give.
func words(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	label, _ := attr(n, "aria-label")
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		label += words(c)
	}
	return label
}

// inspect returns the defects of a page: code from elsewhere, or elements without names.
func inspect(root *html.Node) (bad []string) {
	count := map[string]int{}
	ids := map[string]bool{}
	level := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data != "title" || n.Parent.Data == "head" { // a figure's parts have titles, too
			count[n.Data]++
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				bad = append(bad, fmt.Sprintf("<%s> has %s, which the policy of contents refuses", n.Data, a.Key))
			}
			if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/ui/") && !strings.HasPrefix(a.Val, "#") {
				bad = append(bad, fmt.Sprintf("<%s> leads to %q", n.Data, a.Val))
			}
			if a.Key == "tabindex" && a.Val != "0" && a.Val != "-1" {
				bad = append(bad, "positive tabindex")
			}
			if a.Key == "id" {
				if ids[a.Val] {
					bad = append(bad, "two elements are called "+a.Val)
				}
				ids[a.Val] = true
			}
		}
		switch n.Data {
		case "a", "button", "summary", "h1", "h2", "title", "th", "label":
			if strings.TrimSpace(words(n)) == "" {
				bad = append(bad, "an empty <"+n.Data+">")
			}
		case "progress", "pre", "nav":
			if l, _ := attr(n, "aria-label"); l == "" {
				bad = append(bad, "<"+n.Data+"> has no name")
			}
		case "svg":
			if n.Parent.Data == "svg" { // the part that stretches
				continue
			}
			l, named := attr(n, "aria-label")
			if _, hidden := attr(n, "aria-hidden"); !hidden && (!named || l == "") {
				bad = append(bad, "a figure has no name")
			}
		case "input", "select":
			if kind, _ := attr(n, "type"); n.Parent.Data != "label" && kind != "hidden" {
				bad = append(bad, "an input has no label")
			}
		case "img", "iframe", "object", "embed", "base":
			bad = append(bad, "<"+n.Data+">")
		case "script":
			if n.FirstChild != nil {
				bad = append(bad, "a script in the page")
			}
		}
		if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
			if l := int(n.Data[1] - '0'); l > level+1 {
				bad = append(bad, "a heading is skipped before "+words(n))
			} else {
				level = l
			}
		}
	}
	for _, one := range []string{"h1", "main", "title"} {
		if count[one] != 1 {
			bad = append(bad, fmt.Sprintf("%d <%s>", count[one], one))
		}
	}
	if count["script"] != 1 {
		bad = append(bad, fmt.Sprintf("%d scripts", count["script"]))
	}
	return bad
}

// TestHeaders checks that each answer, errors included, restricts what a browser does.
func TestHeaders(t *testing.T) {
	s := newConsole(t, newFake(1, "x"))
	_, hash := assets()
	for path, want := range map[string]int{"/ui/": 200, "/ui/none": 404, "/ui/jobs/j99": 404, "/ui/jobs?format=xml": 400, "/ui/nodes/none": 404, "/ui/history?from=x": 400,
		"/ui/jobs?format=csv&table=none": 404, "/ui/assets/" + hash + "/style.css": 200, "/ui/assets/" + hash + "/../page.html": 307, "/ui/assets/old/style.css": 404} {
		w := ask(s, http.MethodGet, path, "ann")
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if h := w.Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestActions sends each action as the owner, as another user, and from another site.
func TestActions(t *testing.T) {
	f := newFake(1, "x")
	s := newConsole(t, f)
	for path, want := range map[string]string{
		"/ui/jobs/j1/kill|reason=bad+input": "kill j1 bad input", "/ui/jobs/j1/priority|priority=HIGH": "priority j1 HIGH", "/ui/jobs/j1/move|pool=p": "move j1 p",
		"/ui/nodes/w1/drain|": "drain w1 false", "/ui/nodes/w1/drain?undo=1|": "drain w1 true", "/ui/policy|name=fair&set=a%3D1+b%3D2": "policy fair map[a:1 b:2]",
	} {
		for _, tt := range []struct {
			user   string
			header []string
			status int
		}{
			{"eve", nil, 403}, {"ann", []string{"Sec-Fetch-Site", "cross-site"}, 403}, {"ann", []string{"Sec-Fetch-Site", "same-site"}, 403},
			{"ann", []string{"Origin", "https://evil.example"}, 403}, {"ann", []string{"Sec-Fetch-Site", "same-origin"}, 303},
		} {
			f.acted = nil
			w := ask(s, http.MethodPost, path, tt.user, tt.header...)
			if w.Code != tt.status || (len(f.acted) == 1 && f.acted[0] == want) != (tt.status == 303) {
				t.Errorf("%s as %s %v: %d, %q", path, tt.user, tt.header, w.Code, f.acted)
			}
		}
		bare, _, _ := strings.Cut(path, "|")
		f.acted = nil
		if ask(s, http.MethodGet, bare, "ann"); len(f.acted) > 0 {
			t.Errorf("GET %s: %q", bare, f.acted)
		}
	}
	if w := ask(s, http.MethodPost, "/ui/policy|name=fair&set=nonsense", "ann"); w.Code != 400 {
		t.Errorf("a parameter without value: %d", w.Code)
	}
}

// TestViewer checks what a user sees who may not change a job.
func TestViewer(t *testing.T) {
	s := newConsole(t, newFake(1, "x"))
	owner, other := ask(s, http.MethodGet, "/ui/jobs/j1", "ann").Body.String(), ask(s, http.MethodGet, "/ui/jobs/j1", "eve").Body.String()
	for _, secret := range []string{"/ui/jobs/j1/kill", "/ui/attempts/j1_m_0_0"} {
		if !strings.Contains(owner, secret) || strings.Contains(other, secret) {
			t.Errorf("%s: owner %v, other %v", secret, strings.Contains(owner, secret), strings.Contains(other, secret))
		}
	}
	for _, path := range []string{"/ui/attempts/j1_m_0_0", "/ui/attempts/j1_m_0_0/log"} {
		if w := ask(s, http.MethodGet, path, "eve"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "two") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := ask(s, http.MethodGet, path, "ann"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "two") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := ask(s, http.MethodGet, "/ui/attempts/j1_m_0_0/stack", "ann"); w.Code != http.StatusOK || w.Body.String() != "goroutine 1 of j1_m_0_0" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("a stack: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if ro := ask(New(t.Context(), newFake(1, "x"), nil, pages.Visitor, ""), http.MethodPost, "/ui/jobs/j1/kill|", "ann"); ro.Code != http.StatusMethodNotAllowed && ro.Code != http.StatusNotFound {
		t.Errorf("a console without actions: %d", ro.Code)
	}
}

// TestFormats reads each table as CSV and as JSON.
func TestFormats(t *testing.T) {
	s := newConsole(t, newFake(120, "=1+1"))
	for path, rows := range map[string]int{"/ui/?table=use": 5, "/ui/": pageSize, "/ui/jobs": pageSize, "/ui/jobs?offset=100": 20, "/ui/jobs?offset=1000": 0, "/ui/jobs/j1?table=attempts": 10, "/ui/jobs/j1/attempts": 20,
		"/ui/jobs/j1?table=times": 1, "/ui/jobs/j1?table=counters": 2, "/ui/nodes": 1, "/ui/policy?table=params": 1, "/ui/history": pageSize, "/ui/jobs/j1/attempts?state=failed": 0} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(ask(s, http.MethodGet, with(u, "format", "csv"), "ann").Body).ReadAll()
		if err != nil || len(lines) != rows+1 {
			t.Errorf("%s: %d lines, want %d and a head (%v)", path, len(lines)-1, rows, err)
			continue
		}
		var data struct {
			Rows []map[string]any
		}
		if err := json.Unmarshal(ask(s, http.MethodGet, with(u, "format", "json"), "ann").Body.Bytes(), &data); err != nil || len(data.Rows) != rows {
			t.Errorf("%s: %d rows, want %d (%v)", path, len(data.Rows), rows, err)
		}
		for _, l := range lines[1:] {
			if slices.ContainsFunc(l, func(f string) bool { return strings.HasPrefix(f, "=") }) {
				t.Errorf("%s: a spreadsheet would run %q", path, l)
			}
		}
	}
}

// TestEvents waits for the event of a change, and for the end of the stream with the
// console's context.
func TestEvents(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	f := newFake(1, "x")
	s := New(ctx, f, f, pages.Visitor, "")
	s.samples.add(time.Now(), f.use)
	srv := httptest.NewServer(s)
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL + "/ui/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read := func() string {
		b := make([]byte, 200)
		n, _ := resp.Body.Read(b)
		return string(b[:n])
	}
	if got := read(); got != "event: change\ndata: 1\n\n" {
		t.Errorf("first: %q", got)
	}
	f.use.Revision = 2
	s.samples.add(time.Now(), f.use)
	if got := read(); got != "event: change\ndata: 2\n\n" {
		t.Errorf("second: %q", got)
	}
	stop()
	if got := read(); got != "" {
		t.Errorf("after the end: %q", got)
	}
}
