//go:build !race

package repro

// raceOn says that the race detector is on.
const raceOn = false
