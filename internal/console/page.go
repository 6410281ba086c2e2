package console

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
)

// page is a page's content, which html.go turns into HTML.
// A view makes a page for each request and sets its title, its sections and its actions. Server.html adds
// Nav, Who, SignedIn, Version, Asset, Now, Theme, Here, and the URLs of tables. So nothing of a page may be
// kept for another request.
type page struct {
	Title    string
	Nav      []link
	Crumbs   []link
	Who      string
	SignedIn bool // by a cookie, so that signing out has an effect
	Version  string
	Asset    string // prefix of the paths of assets
	Now      time.Time
	Theme    string   // light or dark; "" follows the browser
	Here     string   // the path and query of the page
	Lead     *section // beside the title: what the page is about, in a few words
	Actions  *section // at the right of the title
	Sections []*section
	Live     bool // the page changes by itself
	Soon     bool // the page lacks a part that it will have in a moment
	Message  string
	Refused  bool // Message reports a failure
}

// all returns the sections in the order of the page.
func (p *page) all() []*section {
	// add leaves out the parts that are nil.
	p2 := page{}
	p2.add(p.Lead, p.Actions)
	return append(p2.Sections, p.Sections...)
}

// link is a reference to another page.
type link struct {
	Text, Href string
	Current    bool
}

// section is a part of a page that the script replaces as a whole. A section shows those
// of its fields that are set.
// ID is the id of its element, by which the script finds the section that it replaces. It is unique in a page
// and the same in each view of the page, also where a section comes and goes.
type section struct {
	ID, Title string
	Half      bool     // shares a line with the next one in a broad window
	Folded    bool     // closed until the user opens it; needs a title
	Lead      string   // one sentence that must be read first
	Notes     []string // paragraphs
	Alerts    []string // paragraphs that must not be missed
	Filter    *filter
	Facts     []fact
	Chart     *chart
	Table     *table
	Forms     []form
	Tiles     []tile
	Text      *text
	Image     *image
	Links     []link
}

// image is a figure that the console serves from a file.
type image struct{ Src, Alt string }

// fact is a named value.
type fact struct {
	Name string
	cell
}

// text is preformatted, such as a log.
type text struct {
	Body, Label string
	Follow      string // URL that streams the text; "" if it is complete
}

// filter is a form that changes the query of the page.
type filter struct {
	Action, Button string // of another page; "" for this one
	Fields         []field
}

// field is one input of a form.
type field struct {
	Name, Label, Value, Type string
	Options                  []string
	All                      string // what the empty option is called; "" is all
	Required                 bool
	// Group, if it is set, begins a group of this name, which ends before the next field with one.
	Group string
}

// form is an action. It is closed, with the text of Summary, unless it is Open.
type form struct {
	Summary, Action, Button, Note string
	Method                        string // "" is post
	Fields                        []field
	Danger, Open                  bool
	Upload                        bool // it may have a file
}

// cell is one value of a table, for people and for programs.
// Value is exact where Text is cut or formatted, so that programs never parse words.
type cell struct {
	Text   string
	Href   string
	Class  string
	Value  any     // in JSON and CSV; nil means Text
	Bar    float64 // of a progress bar, 0 to 1
	HasBar bool
	Spark  []int64 // a small chart beside the text
	At     int64   // a moment in ms since the Unix epoch, which the script translates to the reader's zone
}

// Texts of up to shortText bytes are never broken into lines. Texts from longText on get a broad
// column, because they make a row very high otherwise.
const (
	shortText = 18
	longText  = 40
)

// Short reports whether the text of a cell is too short to be broken into lines.
func (c cell) Short() bool { return len(c.Text) <= shortText }

// Long reports whether the text of a cell needs a broad column.
func (c cell) Long() bool { return len(c.Text) >= longText }

// table is shown as HTML, CSV or JSON.
// Each row has a cell for each column, also for columns that the page or the data leaves out. The keys of
// columns are an interface of the console: scripts of users read them.
type table struct {
	ID, Caption string
	Columns     []column
	Rows        [][]cell
	Empty       string // shown instead of no rows
	More        *pager
	CSV, JSON   string // URLs of the other formats
	Folded      bool   // closed until the user opens it: a twin of a chart
	Pick        *picker
}

// picker makes a table a form: each row has a box with the text of its first cell, and buttons act
// on the rows whose boxes are checked.
type picker struct {
	Action string // receives the names of the rows as the parameter job
	Change bool   // the viewer may change some of the rows
}

// column is a column of a table. Key names it in CSV and JSON.
type column struct {
	Key, Name string
	Number    bool   // right-aligned
	DataOnly  bool   // in CSV and JSON, and not in the page
	PageOnly  bool   // in the page, and not in CSV and JSON
	Minor     bool   // left out in narrow windows
	Sort      string // URL of the page in the order of this column; "" if the table has one order
	Order     string // ascending or descending if the table has this order
}

// pager leads to the other pages of a list.
type pager struct {
	From, To, Total int
	Previous, Next  string
}

func plain(s string) cell          { return cell{Text: s} }
func number(n int64) cell          { return cell{Text: terminal.Count(n), Value: n} }
func bytesCell(n int64) cell       { return cell{Text: terminal.Bytes(n), Value: n} }
func milliseconds(ms int64) cell   { return cell{Text: shortDuration(ms), Value: ms} }
func classed(s, class string) cell { return cell{Text: s, Class: class} }

// linked is a text that leads to a page. An empty one leads nowhere.
func linked(s, href string) cell {
	if s == "" {
		return cell{Text: "–", Value: ""}
	}
	return cell{Text: s, Href: href}
}

// shortDuration formats a time in ms.
func shortDuration(ms int64) string { return terminal.Duration(time.Duration(ms) * time.Millisecond) }

// moment is a time of day, with its date if that is another day than now's.
func moment(ms int64, now time.Time) cell {
	if ms == 0 {
		return cell{Text: "–", Value: int64(0)}
	}
	t, layout := time.UnixMilli(ms).In(now.Location()), "15:04:05"
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		layout = time.DateTime
	}
	return cell{Text: t.Format(layout), Value: ms, At: ms}
}

// bar is a progress bar with its value in words.
func bar(f float64, text string) cell {
	f = min(1, max(0, f))
	return cell{Text: text, Bar: f, HasBar: true, Value: f}
}

// value returns what programs get of a cell.
func (c cell) value() any {
	if c.Value == nil {
		return c.Text
	}
	return c.Value
}

// writeJSON writes the rows as an array of objects.
func (t *table) writeJSON(w io.Writer) error {
	rows := make([]map[string]any, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := make(map[string]any, len(r))
		for i, c := range r {
			if !t.Columns[i].PageOnly {
				row[t.Columns[i].Key] = c.value()
			}
		}
		rows = append(rows, row)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	// Programs turn pages by total and from, as people do. The total is the list's and not the page's.
	if t.More != nil {
		return e.Encode(map[string]any{"total": t.More.Total, "from": t.More.From, "rows": rows})
	}
	return e.Encode(map[string]any{"total": len(rows), "from": min(1, len(rows)), "rows": rows})
}

// writeCSV writes a line of keys and the rows.
func (t *table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var line []string
	for _, c := range t.Columns {
		if !c.PageOnly {
			line = append(line, c.Key)
		}
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, r := range t.Rows {
		line = line[:0]
		for i, c := range r {
			if !t.Columns[i].PageOnly {
				line = append(line, csvField(c.value()))
			}
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// natural compares two names so that w2 comes before w10: a run of digits counts as a number.
// It is a total order, which slices.SortFunc needs.
func natural(a, b string) int {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n == 0 || m == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		// Without leading zeros the longer number is the larger one, whatever its length.
		p, q := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[n:], y[m:]
	}
	// A name that ends here comes first. Leading zeros decide last: before the rest they would order w2b,
	// w002 and w2aaaa in a circle, and a sort would depend on the source's order.
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// sortBy orders all rows by the column that the parameter sort names, downwards after a minus,
// and makes the heads of the columns links to such orders.
func (t *table) sortBy(u *url.URL) {
	key, down := strings.CutPrefix(u.Query().Get("sort"), "-")
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Sort = with(u, "sort", c.Key, "offset", "")
		if c.Key != key {
			continue
		}
		c.Order = "ascending"
		if down {
			c.Order = "descending"
		} else {
			c.Sort = with(u, "sort", "-"+c.Key, "offset", "")
		}
		slices.SortStableFunc(t.Rows, func(a, b []cell) int {
			if down {
				a, b = b, a
			}
			return compareValues(a[i].value(), b[i].value())
		})
	}
}

// compareValues compares two values of a column.
func compareValues(a, b any) int {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case int:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	x, first := number(a)
	y, second := number(b)
	if first && second {
		return cmp.Compare(x, y)
	}
	return natural(fmt.Sprint(a), fmt.Sprint(b))
}

// csvField formats a value. Text that a spreadsheet would run as a formula gets an
// apostrophe in front: names come from users.
func csvField(v any) string {
	s, isText := v.(string)
	switch {
	case !isText:
		return fmt.Sprint(v)
	// OWASP's list. A name such as -x gets the apostrophe, too; negative numbers do not, because they are no
	// texts.
	case s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@' || s[0] == '\t' || s[0] == '\r'):
		return "'" + s
	}
	return s
}

// with returns the request's URL with some parameters changed; "" removes one.
func with(u *url.URL, pairs ...string) string {
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + q.Encode()
}

// pageSize is the number of rows of a page of a list.
const pageSize = 35

// offset returns where the page of a list begins.
func offset(u *url.URL) int {
	// A wrong number shows the first page: people edit addresses and pass them on.
	n, err := strconv.Atoi(u.Query().Get("offset"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// paged adds links to the other pages of a list.
func (t *table) paged(u *url.URL, from, total int) {
	// An offset beyond the end, as after jobs have ended, gives no rows. Previous leads back then.
	p := &pager{From: min(from+1, total), To: from + len(t.Rows), Total: total}
	if from > 0 {
		p.Previous = with(u, "offset", strconv.Itoa(max(0, from-pageSize)))
	}
	// Without rows, Next would lead to this page again.
	if p.To < total && len(t.Rows) > 0 {
		p.Next = with(u, "offset", strconv.Itoa(p.To))
	}
	t.More = p
}
