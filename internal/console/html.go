package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/console/source"
)

// This file turns pages into HTML. gomponents escapes every text and every value of an attribute,
// whatever jobs and users are called; g.Raw is for drawings alone, whose canvas escapes.
// docs/architecture.md says why these are not the standard library's templates.

// urlAttr is an attribute whose value is a URL. All links of the console lead to the console, so that
// a value such as javascript:… that did not come from it leads nowhere.
func urlAttr(attribute, value string) g.Node {
	// Browsers read // and /\ as the beginning of another host's address.
	if !(strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//") && !strings.HasPrefix(value, `/\`) || strings.HasPrefix(value, "?") || strings.HasPrefix(value, "#")) {
		value = "#"
	}
	return g.Attr(attribute, value)
}

func href(value string) g.Node { return urlAttr("href", value) }

// optional is an attribute that is left out if its value is empty.
func optional(name, value string) g.Node {
	if value == "" {
		return nil
	}
	return g.Attr(name, value)
}

// flagged is an attribute without a value, which is there if on is true.
func flagged(name string, on bool) g.Node {
	if !on {
		return nil
	}
	return g.Attr(name)
}

// each renders the elements of a list within a parent, which is left out without elements.
func each[T any](list []T, parent func(...g.Node) g.Node, element func(T) g.Node) g.Node {
	if len(list) == 0 {
		return nil
	}
	return parent(g.Map(list, element))
}

// bdi isolates a text from others, so that right-to-left characters in it reorder nothing else.
func bdi(text string) g.Node { return g.El("bdi", g.Text(text)) }

// html is the whole page.
func (p *page) html() g.Node {
	return h.Doctype(h.HTML(h.Lang("en"), optional("data-theme", p.Theme),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			// Without it, phones lay a page out for a desktop and shrink it.
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(p.Title+" · slotwise")),
			h.Link(h.Rel("icon"), href(p.Asset+"icon.svg")),
			h.Link(h.Rel("stylesheet"), href(p.Asset+"style.css")),
			// Deferred, because it looks for elements of the page when it starts.
			h.Script(urlAttr("src", p.Asset+"console.js"), h.Defer()),
			// With scripts the page asks for the missing part by itself.
			g.If(p.Soon, h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content("1")))),
		),
		h.Body(flagged("data-live", p.Live),
			h.A(h.Class("skip"), href("#main"), g.Text("Skip to the content")),
			h.Header(
				h.P(h.Class("brand"), h.A(href(source.Root), g.Text("slotwise"))),
				each(p.Nav, within("Pages", ""), func(l link) g.Node { return l.item("page") }),
				h.P(h.Class("who"), h.Span(g.Text("updated "), clock(p.Now.UnixMilli(), p.Now.Format("15:04:05 MST"), h.ID("updated"))), g.If(p.Who != "", g.Group{g.Text(" · "), bdi(p.Who)})),
				g.If(p.SignedIn, h.Form(h.Class("signout"), h.Method("post"), h.Action(source.Root+"logout"), h.Button(g.Text("Sign out")))),
			),
			// The target of the skip link: without a tabindex, Safari scrolls there and leaves the focus in
			// the header.
			h.Main(h.ID("main"), h.TabIndex("-1"),
				// Empty, and there from the start: screen readers announce a change of a live region, and not
				// one that is added with its text.
				h.P(h.Class("live"), h.ID("live"), h.Role("status")),
				each(p.Crumbs, within("Path", "crumbs"), func(l link) g.Node { return l.item("") }),
				h.Div(h.Class("head"), h.Div(h.Class("lead"), h.H1(bdi(p.Title)), g.Iff(p.Lead != nil, func() g.Node { return p.Lead.html() })),
					g.Iff(p.Actions != nil, func() g.Node { return p.Actions.html() })),
				g.If(p.Message != "", p.message()),
				g.Map(p.Sections, (*section).html),
			),
			h.Footer(h.P(g.Text("slotwise "+p.Version+" · press "), h.Kbd(g.Text("?")), g.Text(" for the keys")),
				g.If(len(p.Nav) > 0, h.Form(h.Class("theme"), h.Method("post"), h.Action(source.Root+"theme"), h.Input(h.Type("hidden"), h.Name("next"), h.Value(p.Here)), g.Text("Theme"),
					g.Map([]string{"browser's", "light", "dark"}, func(name string) g.Node {
						// Buttons with aria-pressed and no select, so that the choice works without a script
						// and is announced.
						current := name == p.Theme || p.Theme == "" && name == "browser's"
						return g.Group{g.Text(" "), h.Button(h.Name("theme"), h.Value(name), h.Aria("pressed", fmt.Sprint(current)), g.Text(name))}
					})))),
		),
	))
}

// message reports the effect of an action, or its failure.
func (p *page) message() g.Node {
	if p.Refused {
		// An alert interrupts a screen reader; a status waits until it pauses.
		return h.P(h.Class("alert"), h.Role("alert"), g.Text(p.Message))
	}
	return h.P(h.Class("message"), h.Role("status"), g.Text(p.Message))
}

// clock is a moment. The script shows it in the reader's zone when the pointer rests on it.
func clock(ms int64, text string, attributes ...g.Node) g.Node {
	return h.Time(g.Group(attributes), h.DateTime(time.UnixMilli(ms).UTC().Format(time.RFC3339)), g.Text(text))
}

// within is a list of links in a landmark of the page.
func within(label, class string) func(...g.Node) g.Node {
	return func(items ...g.Node) g.Node {
		// Each landmark has a name, because a page has several of one kind.
		return h.Nav(optional("class", class), h.Aria("label", label), h.Ul(items...))
	}
}

// item is the link in a list. current is the value of aria-current of the link to the shown page.
func (l link) item(current string) g.Node {
	return h.Li(h.A(href(l.Href), g.If(l.Current, h.Aria("current", current)), g.Text(l.Text)))
}

// html is the section, without the parts that are not set.
func (s *section) html() g.Node {
	heading := "h-" + s.ID
	title := h.H2(h.ID(heading), g.Text(s.Title))
	var content g.Node
	switch {
	case s.Title == "":
		content = s.content()
	case s.Folded:
		// The id lets the script open the new section again where the user has opened the old one.
		content = h.Details(h.Class("fold"), h.ID("fold-"+s.ID), h.Summary(title), s.content())
	default:
		content = g.Group{title, s.content()}
	}
	// A section with a name is a landmark for screen readers. Parts without a title would only crowd their
	// list.
	return h.Section(h.ID(s.ID), g.Attr("data-section"), g.If(s.Half, h.Class("half")), g.If(s.Title != "", h.Aria("labelledby", heading)), content)
}

// content is the section without its title.
func (s *section) content() g.Node {
	return g.Group{
		g.If(s.Lead != "", h.P(h.Class("sentence"), bdi(s.Lead))),
		g.Map(s.Alerts, func(text string) g.Node { return h.P(h.Class("alert"), h.Role("alert"), bdi(text)) }),
		g.Map(s.Notes, func(text string) g.Node { return h.P(h.Class("note"), g.Text(text)) }),
		each(s.Facts, inClass(h.Dl, "facts"), func(f fact) g.Node { return h.Div(h.Dt(g.Text(f.Name)), h.Dd(f.cell.html())) }),
		each(s.Links, inClass(h.Ul, "links"), func(l link) g.Node { return l.item("true") }),
		g.Iff(s.Filter != nil, func() g.Node { return s.Filter.html() }),
		each(s.Tiles, inClass(h.Ul, "squares"), tile.html),
		g.Iff(s.Chart != nil, func() g.Node { return s.Chart.html() }),
		g.Iff(s.Image != nil, func() g.Node {
			// Lazy, because a study has up to 60 plots, of which a few are in view.
			return h.P(h.Class("figure"), h.Img(urlAttr("src", s.Image.Src), h.Alt(s.Image.Alt), h.Loading("lazy")))
		}),
		g.Iff(s.Table != nil, func() g.Node {
			if s.Table.Folded {
				return h.Details(h.ID("d-"+s.Table.ID), h.Summary(g.Text("As a table")), s.Table.html())
			}
			return s.Table.html()
		}),
		g.Iff(s.Text != nil, func() g.Node {
			return g.Group{h.H3(h.Class("label"), g.Text(s.Text.Label)),
				// A log scrolls, so the keyboard must be able to reach it: Safari does not focus scrolled
				// boxes by itself.
				h.Pre(h.TabIndex("0"), h.Aria("label", s.Text.Label), optional("data-follow", s.Text.Follow), g.Text(s.Text.Body))}
		}),
		g.Map(s.Forms, form.html),
	}
}

// inClass is an element with a class.
func inClass(element func(...g.Node) g.Node, class string) func(...g.Node) g.Node {
	return func(children ...g.Node) g.Node { return element(append([]g.Node{h.Class(class)}, children...)...) }
}

// html is the square of a node in the overview. A mark, and not only a colour, shows that the node
// needs attention.
func (t tile) html() g.Node {
	mark := t.Short
	if t.State != "alive" {
		mark = strings.TrimSpace("! " + mark)
	}
	// The hidden words are the link's name for screen readers, which skip the short name that is seen. A
	// pointer gets the words as a title.
	return h.Li(h.A(h.Class(t.Class), href(t.Href), h.Title(t.Words), g.If(mark != "", h.Span(h.Aria("hidden", "true"), bdi(mark))), h.Span(h.Class("hidden"), g.Text(t.Words))))
}

// progress is a progress bar for a share.
func progress(share float64, label string) g.Node {
	// An element of HTML and no box with a width: the content security policy permits no style attributes.
	return h.Progress(h.Max("1"), h.Value(fmt.Sprint(share)), h.Aria("label", label))
}

// html is the content of the cell.
func (c cell) html() g.Node {
	var content g.Node
	switch {
	case c.Href != "":
		content = h.A(href(c.Href), bdi(c.Text))
	case c.Class != "":
		content = h.Span(h.Class(c.Class), g.Text(c.Text))
	case c.At != 0:
		content = clock(c.At, c.Text)
	default:
		content = bdi(c.Text)
	}
	if len(c.Spark) > 1 {
		return g.Group{spark(c.Spark), g.Text(" "), content}
	}
	if c.HasBar {
		return g.Group{progress(c.Bar, c.Text), g.Text(" "), content}
	}
	return content
}

// spark is a line through values, without axes. The text beside it names the values.
func spark(values []int64) g.Node {
	const width, height = 96, 20
	// A pixel is left free at each edge, or half of the line's breadth would be cut off.
	var line svg.Path
	for i, v := range values {
		line.To(1+float64(i)*(width-2)/float64(len(values)-1), height-2-float64(v)*(height-4)/float64(max(1, slices.Max(values))))
	}
	var out svg.Canvas
	out.Path("line s0", &line)
	return h.SVG(h.Class("spark"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)), h.Width(fmt.Sprint(width)), h.Height(fmt.Sprint(height)), h.Aria("hidden", "true"), g.Raw(out.String()))
}

// cardColumns is the number of columns that fit a narrow window. Rows of tables with more
// columns become cards there.
const cardColumns = 4

// html is the head of the column.
func (c column) html() g.Node {
	if c.DataOnly {
		return nil
	}
	name := g.Text(c.Name)
	if c.Sort != "" && c.Name != "" {
		name = h.A(href(c.Sort), name)
	}
	class := ""
	if c.Number {
		class = "n"
	}
	if c.Minor {
		class += " minor"
	}
	// Screen readers read aria-sort with the column's name. The arrow that others see comes from the style
	// sheet.
	return h.Th(h.Scope("col"), optional("class", strings.TrimSpace(class)), optional("aria-sort", c.Order), name)
}

// html is the table with the links to its other pages and formats, or the text shown instead of no
// rows. The first cell of a row names the row.
func (t *table) html() g.Node {
	var rows g.Node
	if len(t.Rows) > 0 {
		shown := 0
		for _, c := range t.Columns {
			if !c.DataOnly {
				shown++
			}
		}
		// Wide tables scroll inside this box, which the keyboard must reach. A focused box needs a role and a
		// name for screen readers.
		rows = h.Div(h.Class("scroll"), h.TabIndex("0"), h.Role("group"), h.Aria("label", t.Caption), h.Table(h.ID("t-"+t.ID), g.If(shown > cardColumns, h.Class("cards")),
			h.Caption(g.Text(t.Caption)),
			h.THead(h.Tr(g.If(t.Pick != nil, h.Td()), g.Map(t.Columns, column.html))),
			h.TBody(g.Map(t.Rows, func(row []cell) g.Node {
				var cells g.Group
				if t.Pick != nil {
					// The label names the box after its row, for people who do not see the row around it.
					cells = append(cells, h.Td(h.Label(h.Span(h.Class("hidden"), g.Text(row[0].Text)), h.Input(h.Type("checkbox"), h.Name("job"), h.Value(row[0].Text)))))
				}
				for i, c := range row {
					cells = append(cells, t.cell(i, c))
				}
				// One line for each row, so that answers can be compared and read in tests.
				return g.Group{h.Tr(cells), g.Text("\n")}
			}))))
		if t.Pick != nil {
			method, action := "post", t.Pick.Action
			if !t.Pick.Change { // a viewer who may change nothing gets no form that would be refused
				method, action = "get", "/ui/compare"
			}
			rows = h.Form(h.Method(method), urlAttr("action", action), rows, t.Pick.html())
		}
	} else {
		rows = h.P(h.Class("empty"), g.Text(t.Empty))
	}
	// A table without rows says so; the same as data would be empty.
	if len(t.Rows) == 0 && t.More == nil {
		return rows
	}
	return g.Group{rows, h.P(h.Class("pager"), g.Iff(t.More != nil, func() g.Node { return t.More.html() }),
		h.A(h.Class("data"), href(t.CSV), h.Aria("label", "CSV: "+t.Caption), g.Text("CSV")), g.Text(" "),
		h.A(h.Class("data"), href(t.JSON), h.Aria("label", "JSON: "+t.Caption), g.Text("JSON")))}
}

// html has the buttons below the table. What cannot be undone is folded.
func (p *picker) html() g.Node {
	return h.Div(h.Class("picked"), g.Text("With the checked jobs: "),
		// Comparing is a page and no action, so its address can be passed on.
		h.Button(g.Attr("formmethod", "get"), urlAttr("formaction", "/ui/compare"), g.Text("Compare two")),
		g.If(p.Change, g.Group{
			field{Name: "priority", Label: "Priority", Value: "NORMAL", Options: priorities}.html(),
			h.Button(h.Name("do"), h.Value("priority"), g.Text("Change the priority")),
			h.Details(h.Class("action danger"), h.Summary(g.Text("Kill")), field{Name: "reason", Label: "Reason"}.html(), h.Button(h.Name("do"), h.Value("kill"), g.Text("Kill the checked jobs"))),
		}))
}

// cell is the cell of a column. Its class decides how its text is aligned and broken into lines.
func (t *table) cell(column int, c cell) g.Node {
	if column == 0 {
		class := "w"
		if !c.Short() {
			class = "m"
		}
		// A screen reader repeats the row's header with each cell, and cards of narrow windows have it as
		// their title.
		return h.Th(h.Scope("row"), h.Class(class), c.html())
	}
	class, of := "", &t.Columns[column]
	switch {
	case of.DataOnly:
		return nil
	case of.Number:
		class = "n"
	case c.Short():
		class = "w"
	case c.Long():
		class = "l"
	}
	if of.Minor {
		class += " minor"
	}
	if c.Text == "" {
		class += " none"
	}
	// The style sheet writes data-name in front of the value when rows are cards and have no head.
	return h.Td(optional("class", strings.TrimSpace(class)), h.Data("name", of.Name), c.html())
}

// html has the links to the pages before and after.
func (m *pager) html() g.Node {
	if m.Total == 0 {
		return nil
	}
	return g.Group{g.Textf("Showing %d to %d of %d. ", m.From, m.To, m.Total),
		g.If(m.Previous != "", g.Group{h.A(h.Rel("prev"), href(m.Previous), g.Text("Previous")), g.Text(" ")}),
		g.If(m.Next != "", g.Group{h.A(h.Rel("next"), href(m.Next), g.Text("Next")), g.Text(" ")})}
}

// html is the chart with its legend and the links that change its range, which work without a
// script, too.
func (c *chart) html() g.Node {
	var ends, links g.Node
	if z := c.Zoom; z != nil {
		ends = g.Group{h.Data("from", fmt.Sprint(z.From)), h.Data("to", fmt.Sprint(z.To))}
		to := func(target, key, text string) g.Node {
			return g.Group{h.A(href(target), h.Data("key", key), g.Text(text)), g.Text(" ")}
		}
		links = h.P(h.Class("zoom"), to(z.In, "+", "Zoom in"), to(z.Out, "-", "Zoom out"), to(z.Left, "[", "Earlier"), to(z.Right, "]", "Later"), to(z.All, "0", "All"))
	}
	figure := "f-" + c.ID
	if c.ID == "" {
		figure = ""
	}
	height, bottom := fmt.Sprint(c.H), fmt.Sprint(c.H-8)
	// A text in the stretched part would be stretched, too, so texts are beside it.
	text := func(class string, x float64, y, text string) g.Node {
		return g.El("text", h.Class(class), g.Attr("x", fmt.Sprintf("%.1f%%", 100*x/plotBreadth)), g.Attr("y", y), g.Text(text))
	}
	at := 0
	// An image has no parts, so a chart with links is a group for screen readers.
	role := "img"
	if slices.ContainsFunc(c.Shapes, func(s shape) bool { return s.Href != "" }) {
		role = "group"
	}
	return h.Figure(optional("id", figure),
		// A role, because without one some screen readers read each text of a drawing and others skip it
		// whole.
		h.SVG(h.Class("chart"), h.Height(height), h.Role(role), h.Aria("label", c.Title+". "+c.Desc),
			g.Map(c.YTicks, func(t svg.Tick) g.Node {
				// Left of the drawing, in the padding that the style sheet gives to charts.
				return g.El("text", h.Class("y"), g.Attr("x", "-6"), g.Attr("y", fmt.Sprintf("%.0f", t.At+svg.Baseline)), g.Text(t.Label))
			}),
			// The inner drawing is stretched to any width; preserveAspectRatio would otherwise centre it
			// between empty bands.
			h.SVG(h.Class("plot"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", plotBreadth, c.H)), g.Attr("preserveAspectRatio", "none"), h.Width("100%"), h.Height(height), ends, g.Raw("\n"+c.marks())),
			g.Map(c.XTicks, func(t svg.Tick) g.Node {
				// Every second label is left out in narrow windows.
				at++
				return text([]string{"x odd", "x"}[at%2], t.At, bottom, t.Label)
			}),
			g.Map(c.Labels, func(l label) g.Node {
				class := "label"
				if l.End {
					class += " end"
				}
				return text(class, l.X, fmt.Sprintf("%.0f", l.Y), l.Text)
			})),
		links,
		each(c.Legend, func(items ...g.Node) g.Node {
			return h.FigCaption(h.Ul(append([]g.Node{h.Class("legend")}, items...)...))
		}, func(l legend) g.Node {
			return h.Li(h.SVG(g.Attr("viewBox", "0 0 14 14"), h.Aria("hidden", "true"),
				g.El("rect", h.Class(l.Class), g.Attr("x", "1"), g.Attr("y", "1"), h.Width("12"), h.Height("12"))), g.Text(l.Name))
		}))
}

// html is the label and the input of the field.
func (f field) html() g.Node {
	if f.Type == "hidden" {
		return h.Input(h.Type("hidden"), h.Name(f.Name), h.Value(f.Value))
	}
	var input g.Node
	if len(f.Options) > 0 {
		input = h.Select(h.Name(f.Name), g.Map(f.Options, func(option string) g.Node {
			shown := option
			if shown == "" {
				shown = cmp.Or(f.All, "all")
			}
			return h.Option(h.Value(option), g.If(option == f.Value, h.Selected()), g.Text(shown))
		}))
	} else if f.Type == "area" {
		input = h.Textarea(h.Name(f.Name), h.Rows("4"), g.Text(f.Value))
	} else if f.Type == "file" {
		input = h.Input(h.Name(f.Name), h.Type("file"))
	} else {
		// No autocompletion: browsers would offer reasons and pools of other jobs, and keep tokens.
		input = h.Input(h.Name(f.Name), h.Value(f.Value), optional("type", f.Type), g.If(f.Required, h.Required()), h.AutoComplete("off"), h.MaxLength("2000"))
	}
	return g.Group{h.Label(h.Span(g.Text(f.Label)), g.Text(" "), input), g.Text(" ")}
}

// html is the form that filters the page.
func (f *filter) html() g.Node {
	button := f.Button
	if button == "" {
		button = "Search"
	}
	return h.Form(h.Class("filter"), h.Method("get"), g.If(f.Action != "", urlAttr("action", f.Action)), h.Role("search"), g.Map(f.Fields, field.html), h.Button(g.Text(button)))
}

// html is the action, folded until the user opens it unless it is open.
func (f form) html() g.Node {
	class, method := "action", f.Method
	if f.Danger {
		class += " danger"
	}
	if method == "" {
		method = "post"
	}
	// Only forms with a file are multipart: the actions parse ordinary forms, of at most maxForm bytes.
	content := h.Form(h.Method(method), urlAttr("action", f.Action), g.If(f.Upload, h.EncType("multipart/form-data")), g.If(f.Note != "", h.P(g.Text(f.Note))), grouped(f.Fields), h.Button(g.Text(f.Button)))
	if f.Open {
		return h.Div(h.Class(class), content)
	}
	return h.Details(h.Class(class), h.Summary(g.Text(f.Summary)), content)
}

// grouped renders fields, each group in a fieldset.
func grouped(fields []field) g.Node {
	var out g.Group
	for i := 0; i < len(fields); {
		// Fields before the first group are outside any fieldset.
		from := i
		for i++; i < len(fields) && fields[i].Group == ""; i++ {
		}
		inputs := g.Map(fields[from:i], field.html)
		if name := fields[from].Group; name != "" {
			out = append(out, h.FieldSet(h.Legend(g.Text(name)), inputs))
		} else {
			out = append(out, inputs)
		}
	}
	return out
}
