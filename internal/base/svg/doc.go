// Package svg writes charts as SVG: the figures of reports, which are files, and the
// charts of the console's pages. It has no clock and does no I/O; equal input gives equal
// bytes on every processor.
//
//	scale.go   values to positions; ticks on linear, logarithmic and time axes
//	canvas.go  elements, paths, numbers and texts as SVG
//	style.go   the colours in light and dark, the style sheet, and the width of texts
//	marks.go   what a plotting area shows: lines, areas, boxes, dots, whiskers
//	figure.go  panels, axes and a legend, laid out on one drawing
//
// Elements have classes and no colours. A file has the style sheet with it; a page has it
// once for all its charts (Sheet). So both look alike and follow the reader's theme.
package svg
