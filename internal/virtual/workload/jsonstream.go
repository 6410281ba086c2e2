package workload

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
)

// eachObject reads JSON objects that follow each other without separators, as
// Hadoop's tools write them. It calls do with each object and its line. It
// stops when do returns false, and at the first text that is not JSON, because
// the rest could not be understood. An object whose fields have wrong types is
// an error and is skipped.
func eachObject[T any](im *importer, in io.Reader, do func(line int, v *T) bool) {
	lines := &lineCounter{in: in, most: maxObject}
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
		// The file is of another kind, so its rest would only give more errors.
		if raw[0] != '{' {
			im.fail(line, "should be JSON objects {…} one after another, is %.20q", raw)
			return
		}
		v := new(T)
		if err := json.Unmarshal(raw, v); err != nil {
			at := start
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				// The decoder counts from the start of the object; users look for a line of the
				// file.
				at += max(0, wrong.Offset-1)
				im.fail(lines.line(at), "%s: should be a %s, is a %s", wrong.Field, wrong.Type, wrong.Value)
			} else {
				im.fail(line, "%s", err)
			}
		} else {
			// Before do, which may stop the reading: the last job's fields count, too.
			im.examine(line, raw, reflect.TypeFor[T]())
			if !do(line, v) {
				return
			}
		}
		// The positions of lines before this object are not needed any more, and a trace may have
		// millions.
		lines.forget(start)
	}
}

// maxObject bounds an object in bytes, because the decoder keeps it whole: 20 MB of a compressed
// file could become ten gigabytes. A Rumen job of 200,000 tasks has about 400 MB.
const maxObject = 512 << 20

// badOffset returns the offset of the first byte that is not JSON. If the error
// does not carry one, it returns the end of the text.
func badOffset(err error, end int64) int64 {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset > 0 {
		return syntax.Offset - 1
	}
	return max(0, end-1)
}

// jsonReason explains an error of the decoder. The object begins after the
// offset before.
func jsonReason(err error, before int64, lines *lineCounter) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the file ends within an object, the last one after line " + strconv.Itoa(lines.line(before))
	}
	return err.Error()
}
