//go:build !race

// Package detector tells tests whether the race detector is on, under which a program takes
// up to ten times as long.
package detector

// On says that the race detector is on.
const On = false
