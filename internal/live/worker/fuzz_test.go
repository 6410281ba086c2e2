package worker

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// FuzzReceive puts any bytes into the pipe from an attempt, whose code is the user's.
// The worker must finish handling the attempt.
func FuzzReceive(f *testing.F) {
	var b bytes.Buffer
	for _, m := range []*slotwisev1.FromAttempt{
		{What: &slotwisev1.FromAttempt_Progress{Progress: &slotwisev1.Progress{Fraction: 0.5}}},
		{What: &slotwisev1.FromAttempt_Stack{Stack: "goroutine 1"}},
		{What: &slotwisev1.FromAttempt_Done{Done: &slotwisev1.Done{Error: "x"}}},
	} {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x01, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 32<<10 { // more than a pipe holds
			return
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		w.Close()
		c := &child{out: r, reader: bufio.NewReader(r)}
		n := 0
		c.receive(func(m *slotwisev1.FromAttempt) {
			if n++; m == nil || n > len(data) {
				t.Fatalf("message %d of %d bytes: %v", n, len(data), m)
			}
		})
	})
}
