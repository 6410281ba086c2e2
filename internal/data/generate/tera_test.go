package generate

import (
	"bytes"
	"testing"
)

// TestTeraRows has the first record as Hadoop's TeraGen writes it, and the same records
// whatever row a part begins at.
func TestTeraRows(t *testing.T) {
	var all bytes.Buffer
	if err := TeraRows(&all, 0, 50); err != nil || all.Len() != 5000 {
		t.Fatal(all.Len(), err)
	}
	first := all.Bytes()[:100]
	if got := string(first[:10]); got != "JimGrayRIP" {
		t.Errorf("the first key is %q", got)
	}
	if got := string(first[12:44]); got != "00000000000000000000000000000000" {
		t.Errorf("the first row is %q", got)
	}
	for from := uint64(0); from < 50; from += 7 {
		var part bytes.Buffer
		if err := TeraRows(&part, from, 50); err != nil || !bytes.Equal(part.Bytes(), all.Bytes()[100*from:]) {
			t.Errorf("rows from %d differ; %v", from, err)
		}
	}
}
