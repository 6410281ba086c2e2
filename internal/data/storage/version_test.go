package storage

import "testing"

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		now, then     Version
		grown, replac bool
	}{
		{Version{1, 10}, Version{1, 10}, false, false},
		{Version{2, 10}, Version{1, 10}, false, false}, // a file system whose numbers change
		{Version{1, 11}, Version{1, 10}, false, true},  // written in place
		{Version{1, 11}, Version{1, 10}, true, false},  // a log
		{Version{2, 11}, Version{1, 10}, true, true},
		{Version{2, 11}, Version{1, 10}, false, true},
		{Version{0, 11}, Version{0, 10}, true, false}, // a system without numbers
		{Version{7, 0}, Version{7, 0}, false, false},  // S3
		{Version{8, 0}, Version{7, 0}, false, true},
		{Version{8, 0}, Version{7, 0}, true, true},
		{Version{}, Version{7, 10}, false, false},
		{Version{7, 10}, Version{}, false, false},
	} {
		if got := c.now.Replaced(c.then, c.grown); got != c.replac {
			t.Errorf("%+v after %+v, grown %v: replaced %v", c.now, c.then, c.grown, got)
		}
	}
}
