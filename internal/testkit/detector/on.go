//go:build race

package detector

// On says that the race detector is on.
const On = true
