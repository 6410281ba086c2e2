package master

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// rawCalls is a connection of frames under the control of a test.
type rawCalls struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// dialCalls upgrades a connection to a master, as through a proxy that keeps connections alive.
func dialCalls(t *testing.T, url, token string) *rawCalls {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &rawCalls{t, conn, bufio.NewReader(conn)}
	c.write("POST " + frames.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: " + frames.Protocol + "\r\nAuthorization: Bearer " + token + "\r\n\r\n")
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	return c
}

func (c *rawCalls) write(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatal(err)
	}
}

// frame returns a frame.
func frame(number uint64, message string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	return string(binary.BigEndian.AppendUint64(b, number)) + message
}

// encoded returns the bytes of a call.
func encodedCall(t *testing.T, what *slotwisev1.HeartbeatRequest) string {
	t.Helper()
	b, err := proto.Marshal(&slotwisev1.WorkerCall{What: &slotwisev1.WorkerCall_Heartbeat{Heartbeat: what}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// answer reads the next answer, which must be to a call.
func (c *rawCalls) answer(number uint64) *slotwisev1.WorkerAnswer {
	c.t.Helper()
	h, err := frames.ReadHead(c.in)
	if err != nil || h.Number != number {
		c.t.Fatalf("the answer to %d, want %d: %v", h.Number, number, err)
	}
	b, a := make([]byte, h.Length), &slotwisev1.WorkerAnswer{}
	if _, err := io.ReadFull(c.in, b); err != nil || proto.Unmarshal(b, a) != nil {
		c.t.Fatal(err)
	}
	return a
}

// TestOddFrames sends calls that a worker would not send. Each has an answer with an error, and the connection
// serves the next call.
func TestOddFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Limits: Limits{Message: 64 << 10}})
	c := dialCalls(t, r.srv.URL, "")
	good := encodedCall(t, &slotwisev1.HeartbeatRequest{Session: "none"})
	for i, x := range []struct {
		message string
		code    connect.Code // 0 for none
	}{
		{good, 0},
		{"", connect.CodeUnimplemented},
		{"\x0a\x05", connect.CodeInvalidArgument},
		{"\xfa\x01\x00", connect.CodeUnimplemented}, // a call of a later release
		{encodedCall(t, &slotwisev1.HeartbeatRequest{Reports: []*slotwisev1.Report{{Attempt: "x"}}}), connect.CodeInvalidArgument},
		{encodedCall(t, &slotwisev1.HeartbeatRequest{ConditionText: strings.Repeat("x", 40<<10)}), 0},
		{strings.Repeat("x", 64<<10+1), connect.CodeResourceExhausted},
		{good, 0},
	} {
		number := uint64(1000 - i) // any numbers
		c.write(frame(number, x.message))
		a := c.answer(number)
		if got := connect.Code(a.GetError().GetCode()); got != x.code || x.code == 0 && !a.GetHeartbeat().GetRegisterAgain() {
			t.Errorf("message %d: %v", i, a)
		}
	}
	// A frame in pieces, and two in one.
	c.write(frame(1, good)[:3])
	time.Sleep(10 * time.Millisecond)
	c.write(frame(1, good)[3:] + frame(2, good))
	c.answer(1)
	c.answer(2)
	resp, err := http.Post(r.srv.URL+frames.Path, "application/proto", strings.NewReader(good))
	if err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// open returns the number of calls without an answer.
func (r *rig) open() int {
	r.t.Helper()
	n, err := query(context.Background(), r.m, func() (int, error) { return len(r.m.calls), nil })
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestHeldFrames has the master hold a heartbeat until its wait ends, and until its connection ends.
func TestHeldFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	w := r.worker("w", 1, 0)
	start := time.Now()
	w.heartbeat(100 * time.Millisecond)
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("held for %v", took)
	}
	c := dialCalls(t, r.srv.URL, "")
	c.write(frame(1, encodedCall(t, &slotwisev1.HeartbeatRequest{Session: w.session, Seq: 9, WaitMs: 600_000})))
	clustertest.Eventually(t, "the heartbeat is held", func() bool { return r.open() == 1 })
	c.conn.Close()
	clustertest.Eventually(t, "the heartbeat of a broken connection is not held", func() bool { return r.open() == 0 })
}

// TestWaitForRoom has a heartbeat wait for room in the inbox longer than it may be held. It is answered all the same.
func TestWaitForRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	w := r.worker("w", 1, 0)
	c := dialCalls(t, r.srv.URL, "")
	user := secure.Identity{Role: secure.Worker}.Account()
	taken := int64(0)
	for r.m.room.Try(user, 1) {
		taken++
	}
	c.write(frame(1, encodedCall(t, &slotwisev1.HeartbeatRequest{Session: w.session, Seq: 9, WaitMs: 1})))
	time.Sleep(100 * time.Millisecond)
	r.m.room.Give(user, taken)
	_ = c.conn.SetReadDeadline(time.Now().Add(4 * time.Minute))
	c.answer(1)
}

// TestUnreadAnswers has a worker send calls and read no answer. The master stops reading calls, and ends
// the connection with its worker.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	c := dialCalls(t, r.srv.URL, "")
	bad := frame(1, strings.Repeat("\xff", 8)) // its answer is larger
	batch := strings.Repeat(bad, 1000)
	sent := 0
	for ; sent < 1_000_000; sent += 1000 {
		_ = c.conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(c.conn, batch); err != nil {
			break
		}
	}
	if sent == 1_000_000 {
		t.Error("the master reads calls without end")
	}
	c.conn.Close()
}

// TestRevokedWorker revokes the token of a worker whose connection is open, and gives it a token of another
// role. The master closes the connection and refuses the next.
func TestRevokedWorker(t *testing.T) {
	t.Parallel()
	_, d := openDoors(t)
	c := frames.NewClient(secure.Client(nil, d.tokens["w1"]), d.url)
	defer c.Close()
	beat := func() error {
		_, err := c.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: "none"})
		return err
	}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, want connect.Code) {
		t.Helper()
		for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			err := beat()
			if err == nil && want == 0 || err != nil && connect.CodeOf(err) == want {
				return
			}
			if err != nil && connect.CodeOf(err) != connect.CodeUnavailable && want != 0 {
				t.Fatalf("%s: %v", what, err)
			}
		}
		t.Fatalf("%s: %v", what, beat())
	}
	change := func(from, to string) {
		// By a rename, so that the master does not read half a file.
		err := os.WriteFile(d.file+".new", []byte(strings.ReplaceAll(string(all), from, to)), 0o600)
		if err := errors.Join(err, os.Rename(d.file+".new", d.file)); err != nil {
			t.Fatal(err)
		}
	}
	change("worker w1 ", "user w1 ")
	until("with another role", connect.CodePermissionDenied)
	change("", "")
	until("with its role", 0)
	if err := os.WriteFile(d.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until("with a revoked token", connect.CodeUnauthenticated)
}

// TestFramesFollowTheLeader has a worker begin at a follower of three masters, and the leader die. Its calls reach the
// leader each time.
func TestFramesFollowTheLeader(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	list := ""
	for _, s := range seats {
		if s != first {
			list += s.cfg.Self + ","
		}
	}
	base, hosts, err := secure.ParseMasters(list + first.cfg.Self)
	if err != nil {
		t.Fatal(err)
	}
	follower := frames.NewClient(http.DefaultClient, base)
	defer follower.Close()
	if _, err := follower.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{}); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), first.cfg.Self) {
		t.Errorf("a follower answers %v", err)
	}
	c := frames.NewClient(secure.ToLeader(&http.Client{Transport: &http.Transport{}}, base, hosts, true), base)
	defer c.Close()
	if _, err := c.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{}); err != nil {
		t.Fatal(err)
	}
	first.stop()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		resp, err := c.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{})
		cancel()
		if err == nil {
			if !resp.RegisterAgain || resp.Term == 0 {
				t.Errorf("%v", resp)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
