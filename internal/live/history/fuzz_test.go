package history

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzRead reads any bytes as the file of a job. With parts the two arguments become the
// parts of a file with the right lengths and checksums.
func FuzzRead(f *testing.F) {
	whole, err := encodeOld(ended(1, "ann"))
	if err != nil {
		f.Fatal(err)
	}
	r := bytes.NewReader(whole[len(magic):])
	first, err1 := readPart(r)
	second, err2 := readPart(r)
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	f.Add(whole, []byte{}, false)
	f.Add(whole[:len(whole)-1], []byte{}, false)
	f.Add(first, second, true)
	f.Fuzz(func(t *testing.T, data, packed []byte, parts bool) {
		if parts {
			data = appendPart(appendPart([]byte(magic), data), packed)
		}
		summary, err := readSummary(bytes.NewReader(data))
		if err == nil && summary == nil {
			t.Error("no summary and no error")
		}
		j, err := readJob(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := encodeOld(j)
		if err != nil {
			t.Fatalf("a job that was read cannot be written: %v", err)
		}
		if k, err := readJob(bytes.NewReader(again)); err != nil || !proto.Equal(j, k) {
			t.Errorf("%v became %v: %v", j, k, err)
		}
	})
}
