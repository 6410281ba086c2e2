package svg

import (
	"fmt"
	"strconv"
	"strings"

	_ "embed" // the style sheet
)

// colour is a colour in both themes.
type colour struct{ name, light, dark string }

// colours are the variables of the style sheet. The colours of series, s0 and on, are Okabe and
// Ito's, which people with colour-blindness can distinguish, lightened or darkened for 3:1 on
// the background; the most different ones come first. None is grey, which marks discarded
// work and reference values.
var colours = []colour{
	{"bg", "#fff", "#14181d"}, {"fg", "#1b1f24", "#e6eaef"}, {"soft", "#545d68", "#a3adb8"}, {"line", "#d3d9e0", "#3a434d"},
	{"raised", "#f4f6f8", "#1e242b"}, {"bad", "#a8321e", "#ff9a86"}, {"gone", "#8a9096", "#7d848c"}, {"idle", "#eceff2", "#22292f"},
	{"s0", "#0072b2", "#4aa8dd"}, {"s1", "#c65a00", "#ee8540"}, {"s2", "#00875f", "#2fc092"}, {"s3", "#b0568f", "#dd8fbf"},
	{"s4", "#b88600", "#d9a520"}, {"s5", "#3399d1", "#86c5ef"}, {"s6", "#643c8c", "#b49adb"}, {"s7", "#82501e", "#c99a6b"},
	{"s8", "#5f8200", "#a9c94a"}, {"s9", "#820f3c", "#e0708f"},
}

// Colours is the number of colours for series.
const Colours = 10

// Series returns the class of the i-th series. Colours repeat after the last one.
func Series(i int) string { return "s" + strconv.Itoa(i%Colours) }

//go:embed style.css
var rules string

// Sheet returns the style sheet for a page that contains charts: the colours as variables and
// the rules for the classes of elements. The colours follow the reader's theme, or the CSS
// property color-scheme if the page sets it.
func Sheet() string {
	var out strings.Builder
	for _, c := range colours {
		fmt.Fprintf(&out, " --%s: light-dark(%s, %s);", c.name, c.light, c.dark)
	}
	return ":root { color-scheme: light dark;" + out.String() + " }\n" + rules
}

// fileSheet returns the style sheet for a drawing in a separate file. It has colours in
// place of variables, because viewers other than browsers do not know variables and would
// draw everything in black.
func fileSheet() string {
	resolve := func(value func(colour) string) string {
		var pairs []string
		for _, c := range colours {
			pairs = append(pairs, "var(--"+c.name+")", value(c))
		}
		return strings.NewReplacer(pairs...).Replace(rules)
	}
	return "text { font-family: " + fonts + " }\n" + resolve(func(c colour) string { return c.light }) +
		// Twice the rules: a viewer that does not know the media query skips these and shows the light theme.
		"@media (prefers-color-scheme: dark) {\n" + resolve(func(c colour) string { return c.dark }) + "}\n"
}

// fonts are fonts of nearly equal widths, which textWidth knows.
const fonts = `Arial, "Liberation Sans", Helvetica, sans-serif`

// Sizes of texts in units of the drawing. The style sheet has the same numbers.
const (
	textSize  = 12
	titleSize = 15
)

// Baseline is the distance from the middle of a line of text down to the position of Text.
const Baseline = 4

// widths holds the widths of the characters from space to ~ in the fonts, in thousandths of
// the size of the text.
var widths = [...]uint16{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// textWidth returns the width of a text of a size, about as a viewer draws it. Letters outside
// ASCII count as wide ones, and letters of Asia's scripts as squares.
// Measured with a table, because nothing here can ask a browser: a layout that is a few percent off is fine.
func textWidth(text string, size float64) float64 {
	sum := 0
	for _, r := range text {
		switch at := int(r) - ' '; {
		case at >= 0 && at < len(widths):
			sum += int(widths[at])
		// From Hangul on scripts have square letters.
		case r >= 0x1100:
			sum += 1000
		default:
			sum += 620
		}
	}
	return float64(sum) / 1000 * size
}

// cut shortens a text to a width. It ends in … then.
func cut(text string, size, width float64) string {
	if textWidth(text, size) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && textWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ") + "…"
}

// wrapped divides a text at spaces into lines of at most a width. A longer word is cut.
func wrapped(text string, size, width float64) []string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		if last := len(lines) - 1; last >= 0 && textWidth(lines[last]+" "+word, size) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, cut(word, size, width))
	}
	return lines
}
