package mapreduce

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// jsonKey has strings wherever JSON may have them.
type jsonKey struct {
	S      string
	Map    map[string]string
	Any    any
	Quoted string `json:",string"`
	Raw    json.RawMessage
	Bytes  []byte
}

// UTF-8 strings survive encoding and decoding, also if they contain the escape of a bad byte. Other
// strings fail the job: encoding/json would make one key of several.
func TestJSONCodeOfBadText(t *testing.T) {
	code := JSONCode[jsonKey]()
	for _, s := range []string{"", "a\tb", "\ufffd", `\ufffd`, `\\ufffd`, "\u2028<é>", "\U0001F600"} {
		want := jsonKey{S: s, Map: map[string]string{s: s}, Any: s, Quoted: s, Raw: json.RawMessage(`"\ufffd"`), Bytes: []byte("\xff")}
		if got, err := code.Decode(code.Append([]byte("x"), want)[1:]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q comes back as %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"\xff", "Z\xfcrich", "\xc3", "\ufffd\xff", `\ufffd` + "\xfe"} {
		for _, v := range []jsonKey{{S: s}, {Map: map[string]string{s: ""}}, {Map: map[string]string{"": s}}, {Any: []any{s}}, {Quoted: s}} {
			if err := refusal(code, v); !errors.Is(err, retry.ErrPermanent) ||
				!strings.Contains(err.Error(), "a value of type mapreduce.jsonKey has no encoding: a string in it is not UTF-8; use StructCode") {
				t.Errorf("%+v: %v", v, err)
			}
		}
	}
	// A value that cannot be decoded cannot be checked, so its text must not look like a bad byte.
	type output struct{ E error }
	mute := JSONCode[output]()
	if err := refusal(mute, output{quoted("fine")}); err != nil {
		t.Error(err)
	}
	if err := refusal(mute, output{quoted("\xff")}); err == nil || !strings.Contains(err.Error(), "may not be UTF-8") {
		t.Error(err)
	}
}

// quoted is an error that is a string in JSON.
type quoted string

// Error implements error.
func (q quoted) Error() string { return string(q) }

// refusal returns the error with which encoding v panics, or nil.
func refusal[T any](c Codec[T], v T) (err error) {
	defer func() { err, _ = recover().(error) }()
	c.Append(nil, v)
	return nil
}
