package master

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs eight tests at a time: most of them wait for elections, leases and time-outs. Those that
// measure times or memory run before them, one after the other. The flag -parallel of go test still decides.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
