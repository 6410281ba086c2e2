package storage

import "testing"

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		now, then     Version
		grown, replac bool
	}{
		{Version{1, 10_001, 0}, Version{1, 10_001, 0}, false, false},
		{Version{2, 10_001, 0}, Version{1, 10_001, 0}, false, true},  // distcp -p: a copy with the old time
		{Version{2, 10_001, 0}, Version{1, 10_001, 9}, false, false}, // a file system whose numbers change
		{Version{2, 10_001, 0}, Version{1, 10_001, 9}, true, false},
		{Version{1, 20_001, 0}, Version{1, 10_001, 0}, false, true}, // written in place
		{Version{1, 20_001, 0}, Version{1, 10_001, 0}, true, false}, // a log
		{Version{2, 20_001, 0}, Version{1, 10_001, 0}, true, true},
		{Version{2, 20_001, 0}, Version{1, 10_001, 0}, false, true},
		{Version{0, 20_001, 0}, Version{0, 10_001, 0}, true, false},        // a system without numbers
		{Version{1, 5e9, 0}, Version{1, 5e9 + 123456789, 0}, false, false}, // the same time in whole seconds
		{Version{1, 5e9 + 123456700, 0}, Version{1, 5e9 + 123456789, 0}, false, false},
		{Version{1, 5e9 + 123456600, 0}, Version{1, 5e9 + 123456789, 0}, false, true},
		{Version{1, 6e9, 0}, Version{1, 5e9 + 123456789, 0}, false, true},
		{Version{7, 0, 0}, Version{7, 0, 0}, false, false}, // S3
		{Version{8, 0, 0}, Version{7, 0, 0}, false, true},
		{Version{8, 0, 0}, Version{7, 0, 0}, true, true},
		{Version{}, Version{7, 10_001, 0}, false, false},
		{Version{}, Version{7, 10_001, 9}, false, false},
		{Version{7, 10_001, 0}, Version{}, false, false},
	} {
		if got := c.now.Replaced(c.then, c.grown); got != c.replac {
			t.Errorf("%+v after %+v, grown %v: replaced %v", c.now, c.then, c.grown, got)
		}
	}
}
