package machines

import (
	"strings"
	"testing"
)

// FuzzParse parses any bytes as a table of racks. Names must have no blanks.
func FuzzParse(f *testing.F) {
	f.Add([]byte("h1 /r1 # comment\n\nh2 /r2\n"))
	f.Add([]byte("h1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		racks, _ := parseTable(b)
		for host, rack := range racks {
			if host == "" || rack == "" || strings.ContainsAny(host+rack, " \n") {
				t.Errorf("host %q in rack %q", host, rack)
			}
		}
	})
}
