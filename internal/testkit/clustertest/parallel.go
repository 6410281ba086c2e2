package clustertest

import (
	"flag"
	"runtime"
	"strconv"
)

// ManyAtOnce raises the number of parallel tests that run at a time to four times its default. TestMain of a
// package calls it before it runs the tests if most tests wait, for other processes or for time-outs.
// The flag -parallel of go test is parsed later and still decides.
func ManyAtOnce() {
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // without a test's flags, so outside of a test
	}
}
