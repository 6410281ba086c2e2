package master

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/secure"
)

// TestSubmitRates submits as fast as possible as one user, then after pauses, and as others.
func TestSubmitRates(t *testing.T) {
	t.Parallel()
	var r submitRates
	now := time.Unix(1000, 0)
	count := func(user string) (n int) {
		for r.allow(user, now) {
			n++
		}
		return n
	}
	for _, x := range []struct {
		user  string
		pause time.Duration
		want  int
	}{
		{"ann", 0, submitBurst}, {"ann", 0, 0}, {"bob", 0, submitBurst}, {"ann", time.Second, submitsPerSecond},
		{"ann", time.Hour, submitBurst}, {"ann", -time.Hour, 0}, // the clock was set back
	} {
		now = now.Add(x.pause)
		if got := count(x.user); got != x.want {
			t.Errorf("%s after %v: %d jobs, want %d", x.user, x.pause, got, x.want)
		}
	}
	for i := range manyBuckets {
		r.allow(fmt.Sprint(i), now)
	}
	now = now.Add(24 * time.Hour)
	r.allow("one more", now)
	if n := len(r.mu.users); n > 1 {
		t.Errorf("%d buckets after a day without submissions", n)
	}
}

// TestSubmitRateByRole uses up a user's rate. Only he is refused, and his client may try
// again.
func TestSubmitRateByRole(t *testing.T) {
	t.Parallel()
	m := &Master{}
	ann := secure.Identity{User: "ann", Role: secure.User}
	m.rates.mu.users = map[string]bucket{"ann": {0, time.Now().Add(time.Hour)}}
	for _, x := range []struct {
		who  secure.Identity
		want connect.Code
	}{
		{ann, connect.CodeUnavailable},
		{secure.Identity{User: "ann", Role: secure.Driver, Chain: "c1"}, 0}, // the chain counted
		{secure.Identity{User: "bob", Role: secure.User}, 0},
		{secure.Identity{User: "ann", Role: secure.Admin}, 0},
		{secure.Identity{Open: true, Role: secure.Admin}, 0},
	} {
		err := m.admitRate(x.who)
		if got := connect.CodeOf(err); err == nil && x.want != 0 || err != nil && got != x.want {
			t.Errorf("%v: %v", x.who, err)
		}
	}
}
