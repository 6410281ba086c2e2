package report

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/base/svg"
)

// HTMLPage is a page that refers to no other file. Its heading is the title, style adds rules of CSS
// to the figures' rules, which follow the reader's theme.
func HTMLPage(title, style string, body ...g.Node) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(h.Meta(h.Charset("utf-8")), h.Meta(h.Name("color-scheme"), h.Content("light dark")), h.TitleEl(g.Text(title)),
			h.StyleEl(g.Raw("\n"+svg.Sheet()+"\n"+style))),
		h.Body(append([]g.Node{h.H1(g.Text(title))}, body...)...)))
}
