package workload

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// unusedFields collects the names of fields that a trace has and its importer does not
// use. Its zero value expects only the fields of the Go type.
type unusedFields struct {
	// redundant are names of fields that a replay does not need, such as the results of
	// the traced run. They cause no warning.
	redundant []string
	// noted says that the importer notes fields itself, because the objects have hundreds
	// of fields for other readers.
	noted    bool
	names    []string
	file     string // of the first unused field
	line     int
	more     bool
	examined int // bytes
}

const (
	// maxUnused bounds the names in a warning.
	maxUnused = 12
	// maxExamined bounds the bytes of a trace that are examined for unused fields.
	maxExamined = 8 << 20
)

// noteUnused records an unused field, once.
func (im *importer) noteUnused(line int, name string) {
	u := &im.unused
	switch {
	case slices.Contains(u.redundant, name) || slices.Contains(u.names, name):
		return
	case len(u.names) == maxUnused || len(name) > 100:
		u.more = true
		return
	case len(u.names) == 0:
		u.file, u.line = im.r.file, line
	}
	u.names = append(u.names, name)
}

// examine records the fields of a JSON object that have a value and no place in a Go type.
func (im *importer) examine(line int, raw json.RawMessage, t reflect.Type) {
	u := &im.unused
	if u.examined += len(raw); !u.noted && u.examined <= maxExamined {
		im.examineObject(line, raw, t)
	}
}

// examineObject examines a JSON value for a Go type, which may be a struct, a pointer or a
// slice.
func (im *importer) examineObject(line int, raw json.RawMessage, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		im.examineObject(line, raw, t.Elem())
	case reflect.Slice:
		// Numbers and texts have no fields, such as Google's list of predecessors.
		if t.Elem().Kind() != reflect.Struct {
			return
		}
		var list []json.RawMessage
		// No error here: the reader has decoded the object already, and what does not fit was its error.
		if json.Unmarshal(raw, &list) == nil {
			for _, item := range list {
				im.examineObject(line, item, t.Elem())
			}
		}
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return
		}
		types := fieldTypes(t)
		// Sorted, or the warning would name other fields in each run once there are more than maxUnused.
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			value := fields[name]
			if known, ok := types[name]; ok {
				im.examineObject(line, value, known)
				// Hadoop's tools write every field they know; one without a value would change no replay.
			} else if !isEmptyJSON(value) {
				im.noteUnused(line, name)
			}
		}
	}
}

// fieldTypes returns the types of a struct's fields by their names in JSON. The fields
// inside a field with the tag unused:"-" are not examined.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := make(map[string]reflect.Type)
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			types[name] = t.Field(i).Type
			if t.Field(i).Tag.Get("unused") == "-" {
				// A text has no fields: jobProperties holds hundreds, of which the reader takes two.
				types[name] = reflect.TypeFor[string]()
			}
		}
	}
	return types
}

// isEmptyJSON reports whether a value says nothing: null, 0, -1 (Hadoop's "unknown"), an
// empty text or an empty list.
func isEmptyJSON(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "null", "0", "-1", "0.0", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// warnUnused adds the warning that names the unused fields.
func (im *importer) warnUnused() {
	u := &im.unused
	if len(u.names) == 0 {
		return
	}
	list := strings.Join(u.names, ", ")
	if u.more {
		list += " and more"
	}
	file := im.r.file
	im.r.file = u.file
	im.warn(u.line, "fields that the importer does not use: %s", list)
	im.r.file = file
}
