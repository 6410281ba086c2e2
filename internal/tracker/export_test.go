package tracker

// MaxCatchUp is shown to the tests, which are outside because their harness
// imports this package.
const MaxCatchUp = maxCatchUp
