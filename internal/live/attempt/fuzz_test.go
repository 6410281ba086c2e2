package attempt

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// FuzzPipe puts any bytes into the pipe from the worker. The attempt must read an order
// and further messages, or an error, and must consume the bytes to their end.
func FuzzPipe(f *testing.F) {
	var b bytes.Buffer
	for _, m := range []*slotwisev1.ToAttempt{
		{What: &slotwisev1.ToAttempt_Order{Order: &slotwisev1.Order{}}},
		{What: &slotwisev1.ToAttempt_Stop{Stop: "why"}},
	} {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x01, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		// A length that the bytes do not reach only costs memory, which the pipe's
		// other end, the worker, may use.
		if len(data) > 4 && data[3] >= 0x80 {
			return
		}
		p := newPipe(bytes.NewReader(data), io.Discard)
		if o, err := p.order(); err == nil && o == nil {
			t.Error("no order and no error")
		}
		for range data {
			if _, err := p.receive(); err != nil {
				return
			}
		}
	})
}
