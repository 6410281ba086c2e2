package report

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/base/svg"
)

// pageStyle looks like the console's pages. On a phone a figure keeps the width at which its texts can be
// read, and scrolls within the page, as a wide text does. Figures measure their texts in Arial, so other fonts
// would be cut off.
const pageStyle = `html{font:100%/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg)}
body{max-width:72rem;margin:0 auto;padding:.5rem 1rem 2rem}
h1{font-size:1.5rem;margin:.2rem 0 .6rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:1.4rem 0 .4rem;overflow-wrap:anywhere}
p{max-width:60rem;overflow-wrap:anywhere}
pre{font-size:.85rem}pre,figure{overflow-x:auto}figure{margin:1rem 0;font-family:Arial,"Liberation Sans",Helvetica,sans-serif}
figure svg{max-width:100%;min-width:40rem;height:auto}
`

// HTMLPage is a page that refers to no other file. Its heading is the title, style adds rules of CSS
// to the rules of all pages and of the figures, which follow the reader's theme.
func HTMLPage(title, style string, body ...g.Node) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(h.Meta(h.Charset("utf-8")), h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")), h.Meta(h.Name("color-scheme"), h.Content("light dark")), h.TitleEl(g.Text(title)),
			h.StyleEl(g.Raw("\n"+svg.Sheet()+"\n"+pageStyle+style))),
		h.Body(append([]g.Node{h.H1(g.Text(title))}, body...)...)))
}
