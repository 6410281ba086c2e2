package workload

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// eachObject reads JSON objects that follow each other without separators, as
// Hadoop's tools write them, and hands on each with its line. It stops when do
// returns false, or at the first text that is no JSON: what comes after it means
// nothing. An object whose fields have wrong types is an error, and is skipped.
func eachObject[T any](im *importer, in io.Reader, do func(line int, v *T) bool) {
	lines := &lineCounter{in: in}
	dec := json.NewDecoder(lines)
	for {
		var raw json.RawMessage
		before := dec.InputOffset()
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			im.fail(lines.line(badOffset(err, lines.read)), "%s", jsonReason(err, before, lines))
			return
		}
		start := dec.InputOffset() - int64(len(raw))
		line := lines.line(start)
		if raw[0] != '{' {
			im.fail(line, "should be JSON objects {…} one after another, is %.20q", raw)
			return
		}
		v := new(T)
		if err := json.Unmarshal(raw, v); err != nil {
			at := start
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				at += max(0, wrong.Offset-1)
				im.fail(lines.line(at), "%s: should be a %s, is a %s", wrong.Field, wrong.Type, wrong.Value)
			} else {
				im.fail(line, "%s", err)
			}
		} else if !do(line, v) {
			return
		}
		lines.forget(start)
	}
}

// badOffset is where the JSON ends to be such, as far as is known.
func badOffset(err error, end int64) int64 {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset > 0 {
		return syntax.Offset - 1
	}
	return max(0, end-1)
}

// jsonReason explains an error of the decoder for an object that begins after
// an offset.
func jsonReason(err error, before int64, lines *lineCounter) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the file ends within an object, the last one after line " + strconv.Itoa(lines.line(before))
	}
	return err.Error()
}
