package mapreduce

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/hadoop"
)

// TestHadoopOffsets: keys that are offsets count the stored bytes, as Hadoop's LineRecordReader
// does, whatever ends the lines.
func TestHadoopOffsets(t *testing.T) {
	for _, c := range []struct {
		base        int64
		block, want string
	}{
		{0, "aa\nb\n", "0aa 3b"},
		{0, "aa\r\nb\r\n\r\nc", "0aa 4b 7 9c"},
		{0, "aa\r\nb\rc\n\rd", "0aa 4b 6c 8 9d"},
		{0, "\xef\xbb\xbfaa\r\nb\n", "0aa 7b"},
		{5, "\xef\xbb\xbfa\nb\n", "5\xef\xbb\xbfa 10b"},
		{100, "aa\r\nb\n", "100aa 104b"},
	} {
		h := hadoopBlocks{rules: &hadoop.Rules{}, task: &engine.Task{BlockOffset: c.base}}
		var got []string
		err := h.each([]byte(c.block), func(key, value []byte) error {
			got = append(got, fmt.Sprintf("%s%s", key, value))
			return nil
		})
		if s := strings.Join(got, " "); err != nil || s != c.want {
			t.Errorf("%q at %d gives %q, %v, want %q", c.block, c.base, s, err, c.want)
		}
	}
}

// TestSequenceMark: a record of a SequenceFile may begin with the bytes that a text file has as its byte order mark.
func TestSequenceMark(t *testing.T) {
	h := hadoopBlocks{rules: &hadoop.Rules{KeyValue: '\t'}, task: &engine.Task{}, sequence: true}
	got := ""
	err := h.each([]byte("\xef\xbb\xbfk\ta\\tb\n"), func(key, value []byte) error {
		got += fmt.Sprintf("%q %q", key, value)
		return nil
	})
	if want := fmt.Sprintf("%q %q", "\xef\xbb\xbfk", "a\tb"); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
