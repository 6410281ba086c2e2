package local

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var c Pace
	at := func(seconds int, maps, reduces float64) string {
		p := Progress{
			Job: "j", Reduces: 1, MapFrac: maps, ReduceFrac: reduces,
			Elapsed: time.Duration(seconds) * time.Second, BytesRead: int64(seconds) << 20,
		}
		return progressLine(&p, c.Remarks(&p))
	}
	for _, tt := range []struct{ got, want string }{
		{at(0, 0, 0), "j: map 0 %, reduce 0 %, 0 B/s"},
		{at(10, 0.5, 0), "j: map 50 % (10 s left), reduce 0 %, 1.0 MiB/s"},
		{at(20, 1, 0.2), "j: map 100 %, reduce 20 %, 1.0 MiB/s"},
		{at(30, 1, 0.6), "j: map 100 %, reduce 60 % (10 s left), 1.0 MiB/s"},
		{at(40, 1, 1), "j: map 100 %, reduce 100 % (0 s left), 1.0 MiB/s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
