package avro

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/format"
)

// kind is a random type. write appends the encoding of a random value, by the specification, and
// returns the JSON that must become of the value. It shares no code with the library.
type kind struct {
	schema any
	branch string // no two branches of a union have the same
	write  func(t *rapid.T, b *[]byte, depth int) any
}

// kinds draws types. A schema defines each named type once, and may refer to it afterwards.
type kinds struct {
	n     int
	named []*named
}

// named is a named type with its full name.
type named struct {
	space, name string
	kind        *kind
}

// digits and text return JSON.
func digits(s string) any { return json.RawMessage(s) }
func text(s string) any   { return json.RawMessage(strconv.Quote(s)) }

// long appends an integer of Avro, which is encoding/binary's.
func long(b *[]byte, n int64) { *b = binary.AppendVarint(*b, n) }

// block appends bytes behind their length.
func block(b *[]byte, data []byte) { *b = append(binary.AppendVarint(*b, int64(len(data))), data...) }

// moment draws a time as its text to the second, its seconds since 1970 and a fraction of
// 10^-places.
func moment(t *rapid.T, places int) (date, clock string, seconds, fraction int64) {
	year, day := rapid.IntRange(1, 9999).Draw(t, "year"), rapid.IntRange(0, 364).Draw(t, "day")
	if places == 9 {
		year = rapid.IntRange(1680, 2260).Draw(t, "year of nanoseconds") // 64 bits hold no others
	}
	midnight := time.Date(year, 1, 1+day, 0, 0, 0, 0, time.UTC)
	h, m, s := rapid.IntRange(0, 23).Draw(t, "h"), rapid.IntRange(0, 59).Draw(t, "m"), rapid.IntRange(0, 59).Draw(t, "s")
	date = fmt.Sprintf("%04d-%02d-%02d", midnight.Year(), midnight.Month(), midnight.Day())
	clock = fmt.Sprintf("%02d:%02d:%02d", h, m, s)
	limit := int64(math.Pow10(places)) - 1
	if fraction = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, limit)).Draw(t, "fraction"); fraction > 0 {
		clock += strings.TrimRight(fmt.Sprintf(".%0*d", places, fraction), "0")
	}
	return date, clock, midnight.Unix() + int64(h*3600+m*60+s), fraction
}

// decimalOf draws an integer as its big-endian two's complement, and its text with a scale.
func decimalOf(t *rapid.T, scale int) (complement []byte, shown string) {
	all := rapid.StringMatching(`[1-9][0-9]{0,17}|0`).Draw(t, "digits")
	n, _ := new(big.Int).SetString(all, 10)
	if all = strings.Repeat("0", max(0, scale+1-len(all))) + all; scale > 0 {
		all = all[:len(all)-scale] + "." + all[len(all)-scale:]
	}
	if n.Sign() > 0 && rapid.Bool().Draw(t, "negative") {
		all = "-" + all
		n.Neg(n)
	}
	return binary.BigEndian.AppendUint64(nil, uint64(n.Int64())), all
}

// primitive draws a type without parts.
func (k *kinds) primitive(t *rapid.T) *kind {
	return rapid.SampledFrom(append(plainKinds, logicalKinds()...)).Draw(t, "primitive")
}

// plainKinds have no logical type.
var plainKinds = []*kind{
	{"null", "null", func(*rapid.T, *[]byte, int) any { return nil }},
	{"boolean", "boolean", func(t *rapid.T, b *[]byte, _ int) any {
		yes := rapid.IntRange(0, 1).Draw(t, "boolean")
		*b = append(*b, byte(yes))
		return yes == 1
	}},
	{"int", "int", drawInt(math.MinInt32, math.MaxInt32)},
	{"long", "long", drawInt(math.MinInt64, math.MaxInt64)},
	{"float", "float", func(t *rapid.T, b *[]byte, _ int) any {
		f := rapid.Float32().Draw(t, "float")
		*b = binary.LittleEndian.AppendUint32(*b, math.Float32bits(f))
		return digits(strconv.FormatFloat(float64(f), 'g', -1, 32))
	}},
	{"double", "double", func(t *rapid.T, b *[]byte, _ int) any {
		f := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN())).Draw(t, "double")
		*b = binary.LittleEndian.AppendUint64(*b, math.Float64bits(f))
		if math.IsNaN(f) {
			return "NaN"
		}
		return digits(strconv.FormatFloat(f, 'g', -1, 64))
	}},
	{"bytes", "bytes", drawBytes},
	{"string", "string", drawString},
	// A logical type has no meaning on a type for which Avro does not define it.
	{map[string]any{"type": "int", "logicalType": "timestamp-millis"}, "int", drawInt(math.MinInt32, math.MaxInt32)},
	{map[string]any{"type": "long", "logicalType": "date"}, "long", drawInt(math.MinInt64, math.MaxInt64)},
	{map[string]any{"type": "long", "logicalType": "time-millis"}, "long", drawInt(math.MinInt64, math.MaxInt64)},
	{map[string]any{"type": "string", "logicalType": "decimal", "precision": 4, "scale": 2}, "string", drawString},
	{map[string]any{"type": "bytes", "logicalType": "uuid"}, "bytes", drawBytes},
	{map[string]any{"type": "bytes", "logicalType": "our-own"}, "bytes", drawBytes},
}

func drawInt(low, high int64) func(*rapid.T, *[]byte, int) any {
	return func(t *rapid.T, b *[]byte, _ int) any {
		n := rapid.Int64Range(low, high).Draw(t, "integer")
		long(b, n)
		return n
	}
}

func drawBytes(t *rapid.T, b *[]byte, _ int) any {
	raw := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
	block(b, raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func drawString(t *rapid.T, b *[]byte, _ int) any {
	s := rapid.StringMatching(`[a-zäß<>&0-9 ]{0,6}`).Draw(t, "string")
	block(b, []byte(s))
	return s
}

// logicalKinds have a logical type that gives the value another meaning.
func logicalKinds() []*kind {
	all := []*kind{
		{map[string]any{"type": "int", "logicalType": "date"}, "int", func(t *rapid.T, b *[]byte, _ int) any {
			date, _, seconds, _ := moment(t, 0)
			long(b, (seconds-(seconds%86400+86400)%86400)/86400)
			return text(date)
		}},
		{map[string]any{"type": "string", "logicalType": "uuid"}, "string", func(t *rapid.T, b *[]byte, _ int) any {
			s := "00112233-4455-6677-8899-aabbccddeeff"
			block(b, []byte(s))
			return text(s)
		}},
		{map[string]any{"type": "bytes", "logicalType": "big-decimal"}, "bytes", func(t *rapid.T, b *[]byte, _ int) any {
			scale := rapid.IntRange(0, 30).Draw(t, "scale")
			raw, shown := decimalOf(t, scale)
			var inner []byte
			block(&inner, raw)
			long(&inner, int64(scale))
			block(b, inner)
			return digits(shown)
		}},
	}
	for scale := range 6 {
		s := map[string]any{"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": scale}
		all = append(all, &kind{s, "bytes", func(t *rapid.T, b *[]byte, _ int) any {
			raw, shown := decimalOf(t, scale)
			block(b, raw)
			return digits(shown)
		}})
	}
	for places, unit := range map[int]string{3: "millis", 6: "micros", 9: "nanos"} {
		perSecond := int64(math.Pow10(places))
		for _, zone := range []string{"Z", ""} {
			name := map[string]string{"Z": "timestamp-", "": "local-timestamp-"}[zone] + unit
			all = append(all, &kind{map[string]any{"type": "long", "logicalType": name}, "long", func(t *rapid.T, b *[]byte, _ int) any {
				date, clock, seconds, fraction := moment(t, places)
				long(b, seconds*perSecond+fraction)
				return text(date + "T" + clock + zone)
			}})
		}
		if places < 9 {
			base := map[int]string{3: "int", 6: "long"}[places]
			all = append(all, &kind{map[string]any{"type": base, "logicalType": "time-" + unit}, base, func(t *rapid.T, b *[]byte, _ int) any {
				_, clock, seconds, fraction := moment(t, places)
				long(b, (seconds%86400+86400)%86400*perSecond+fraction)
				return text(clock)
			}})
		}
	}
	// The order of a map would make a failure hard to repeat.
	slices.SortStableFunc(all, func(a, b *kind) int { return strings.Compare(fmt.Sprint(a.schema), fmt.Sprint(b.schema)) })
	return all
}

// draw draws a type within a namespace.
func (k *kinds) draw(t *rapid.T, space string, depth int, union bool) *kind {
	pick := rapid.IntRange(0, 9).Draw(t, "pick")
	switch {
	case depth > 3 || pick < 2:
		return k.primitive(t)
	case pick == 2:
		items := k.draw(t, space, depth+1, true)
		return &kind{map[string]any{"type": "array", "items": items.schema}, "array", func(t *rapid.T, b *[]byte, depth int) any {
			list := []any{}
			for range drawLength(t, depth) {
				long(b, 1)
				list = append(list, items.write(t, b, depth+1))
			}
			long(b, 0)
			return list
		}}
	case pick == 3:
		values := k.draw(t, space, depth+1, true)
		return &kind{map[string]any{"type": "map", "values": values.schema}, "map", func(t *rapid.T, b *[]byte, depth int) any {
			all := map[string]any{}
			for i := range drawLength(t, depth) {
				long(b, 1)
				name := fmt.Sprintf("k%d", i)
				block(b, []byte(name))
				all[name] = values.write(t, b, depth+1)
			}
			long(b, 0)
			return all
		}}
	case pick <= 5 && union:
		return k.union(t, space, depth)
	case pick <= 7:
		if known := k.reference(t, space); known != nil {
			return known
		}
	}
	return k.define(t, space, depth)
}

// drawLength draws the length of a list or map, and ends recursion.
func drawLength(t *rapid.T, depth int) int {
	if depth > 6 {
		return 0
	}
	return rapid.IntRange(0, 3).Draw(t, "length")
}

// union draws a union of types that it may have side by side.
func (k *kinds) union(t *rapid.T, space string, depth int) *kind {
	branches, schemas := []*kind{plainKinds[0]}, []any{"null"}
	for range rapid.IntRange(1, 4).Draw(t, "branches") {
		one := k.draw(t, space, depth+1, false)
		if !slices.ContainsFunc(branches, func(x *kind) bool { return x.branch == one.branch }) {
			branches, schemas = append(branches, one), append(schemas, one.schema)
		} else if _, isText := one.schema.(string); !isText {
			// The definition of a named type that is left out here must not be referred to later.
			k.named = slices.DeleteFunc(k.named, func(x *named) bool { return strings.Contains(fmt.Sprint(one.schema), x.name) })
		}
	}
	return &kind{schemas, "union", func(t *rapid.T, b *[]byte, depth int) any {
		i := 0
		if depth <= 6 {
			i = rapid.IntRange(0, len(branches)-1).Draw(t, "branch")
		}
		long(b, int64(i))
		return branches[i].write(t, b, depth+1)
	}}
}

// reference draws a name that is defined already and can be spelled within the namespace.
func (k *kinds) reference(t *rapid.T, space string) *kind {
	var all []*kind
	for _, n := range k.named {
		if n.space != "" {
			all = append(all, &kind{n.space + "." + n.name, n.kind.branch, n.kind.write})
		}
		if n.space == space {
			all = append(all, &kind{n.name, n.kind.branch, n.kind.write})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "reference")
}

// define draws a new named type.
func (k *kinds) define(t *rapid.T, space string, depth int) *kind {
	k.n++
	n := &named{space: space, name: fmt.Sprintf("N%d_", k.n)}
	schema := map[string]any{"name": n.name}
	switch rapid.IntRange(0, 2).Draw(t, "namespace") {
	case 1:
		n.space = rapid.SampledFrom([]string{"a", "b.c"}).Draw(t, "space")
		schema["namespace"] = n.space
	case 2:
		n.space = "d"
		schema["name"] = "d." + n.name
	}
	n.kind = &kind{schema: schema, branch: n.space + "." + n.name}
	switch rapid.IntRange(0, 4).Draw(t, "named") {
	case 0:
		schema["type"], schema["symbols"] = "enum", []string{"A", "B"}
		n.kind.write = func(t *rapid.T, b *[]byte, _ int) any {
			i := rapid.IntRange(0, 1).Draw(t, "symbol")
			long(b, int64(i))
			return text("AB"[i : i+1])
		}
	case 1:
		k.fixed(t, schema, n.kind)
	default:
		k.record(t, schema, n, depth)
		return n.kind // record has named it already, for recursion
	}
	k.named = append(k.named, n)
	return n.kind
}

// fixed makes a named type of a fixed size.
func (k *kinds) fixed(t *rapid.T, schema map[string]any, out *kind) {
	schema["type"] = "fixed"
	switch rapid.IntRange(0, 2).Draw(t, "fixed") {
	case 0:
		scale := rapid.IntRange(0, 5).Draw(t, "scale")
		schema["size"], schema["logicalType"], schema["precision"], schema["scale"] = 8, "decimal", 18, scale
		out.write = func(t *rapid.T, b *[]byte, _ int) any {
			raw, shown := decimalOf(t, scale)
			*b = append(*b, raw...)
			return digits(shown)
		}
	case 1:
		schema["size"], schema["logicalType"] = 16, "uuid"
		out.write = func(t *rapid.T, b *[]byte, _ int) any {
			raw := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")
			*b = append(*b, raw...)
			s := hex.EncodeToString(raw)
			return text(strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-"))
		}
	default:
		schema["size"] = 3
		out.write = func(t *rapid.T, b *[]byte, _ int) any {
			raw := rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "fixed")
			*b = append(*b, raw...)
			return base64.StdEncoding.EncodeToString(raw)
		}
	}
}

// record makes a record. Within a list, a map or a union it may contain itself.
func (k *kinds) record(t *rapid.T, schema map[string]any, n *named, depth int) {
	var fields []*kind
	schemas := []any{} // no null without fields
	add := func(one *kind) {
		schemas = append(schemas, map[string]any{"name": fmt.Sprintf("x%d", len(fields)), "type": one.schema})
		fields = append(fields, one)
	}
	n.kind.write = func(t *rapid.T, b *[]byte, depth int) any {
		all := map[string]any{}
		for i, f := range fields {
			all[fmt.Sprintf("x%d", i)] = f.write(t, b, depth+1)
		}
		return all
	}
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		add(k.draw(t, n.space, depth+1, true))
	}
	// The record's own name is known from here on, so that no field contains it without an end.
	k.named = append(k.named, n)
	if rapid.Bool().Draw(t, "recursive") {
		add(&kind{[]any{"null", n.name}, "union", func(t *rapid.T, b *[]byte, depth int) any {
			if depth > 6 || rapid.Bool().Draw(t, "end") {
				long(b, 0)
				return nil
			}
			long(b, 1)
			return n.kind.write(t, b, depth+1)
		}})
		// A type of logical values behind the recursion, which a reader may take for another's.
		add(k.primitive(t))
	}
	schema["type"], schema["fields"] = "record", schemas
}

// TestMeaning reads random values of random schemas as JSON: named types used again, unions of
// logical types, recursion, namespaces, lists and maps.
func TestMeaning(t *testing.T) {
	format.Enable(Format())
	rapid.Check(t, func(t *rapid.T) {
		var k kinds
		root := k.draw(t, "", 0, true)
		columns := []*kind{root}
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			columns = append(columns, k.draw(t, "", 0, true))
		}
		var fields []any
		for i, c := range columns {
			fields = append(fields, map[string]any{"name": fmt.Sprintf("c%d", i), "type": c.schema})
		}
		schema := marshal(t, map[string]any{"type": "record", "name": "Top", "fields": fields})

		// No end of the marker is a beginning of it, so bytes of a record in front of a marker cannot
		// shift the place where a reader finds it. A file's writer draws its marker at random.
		sync := []byte("\xa5 sync of a test")
		file := []byte(magic)
		long(&file, 1)
		block(&file, []byte("avro.schema"))
		block(&file, schema)
		long(&file, 0)
		file = append(file, sync...)
		var want strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			var record []byte
			want.WriteString("{")
			for i, c := range columns {
				if i > 0 {
					want.WriteString(",")
				}
				fmt.Fprintf(&want, `"c%d":%s`, i, marshal(t, c.write(t, &record, 0)))
			}
			want.WriteString("}\n")
			long(&file, 1)
			block(&file, record)
			file = append(file, sync...)
		}
		at := rapid.Int64Range(1, int64(len(file))).Draw(t, "at")
		if got := readParts(t, file, "avro,as=json", at); got != want.String() {
			t.Fatalf("%s:\ngot  %s\nwant %s", schema, got, want.String())
		}
	})
}

// marshal returns a value as JSON.
func marshal(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// readParts returns the lines of a file that is divided at an offset.
func readParts(t *rapid.T, file []byte, spec string, at int64) string {
	s, err := format.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, part := range [][2]int64{{0, at}, {at, int64(len(file))}} {
		r, err := format.Open(&format.Source{File: bytes.NewReader(file), Size: int64(len(file)), From: part[0], To: part[1]}, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&got, r); err != nil {
			t.Fatal(err)
		}
	}
	return got.String()
}

// TestMeaningless checks values that have no meaning in their logical type: an error, and no
// neighbouring value.
func TestMeaningless(t *testing.T) {
	big := &avro.SchemaNode{Type: "bytes", LogicalType: "big-decimal"}
	for _, c := range []struct {
		v    any
		node *avro.SchemaNode
		want string
	}{
		{int32(86_400_000), &avro.SchemaNode{Type: "int", LogicalType: "time-millis"}, "time of day"},
		{int64(-1), &avro.SchemaNode{Type: "long", LogicalType: "time-micros"}, "time of day"},
		{[]byte{}, big, "damaged"},
		{[]byte{4, 1}, big, "damaged"},       // an integer of two bytes in one
		{[]byte{2, 1}, big, "damaged"},       // no scale
		{[]byte{2, 1, 2, 2}, big, "damaged"}, // bytes behind the scale
		{[]byte{1, 1}, big, "damaged"},       // a negative length
		{[]byte{1}, &avro.SchemaNode{Type: "bytes", LogicalType: "decimal", Scale: 60_000}, "scale"},
	} {
		if got, err := render(c.v, c.node); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %s: %v, %v; want an error with %q", c.v, c.node.LogicalType, got, err, c.want)
		}
	}
}

// TestTypesOfLogical checks that a logical type names a column's type only on the types on which
// its values are rendered by it.
func TestTypesOfLogical(t *testing.T) {
	for _, c := range []struct{ typ, logical, want string }{
		{"int", "date", "date"}, {"string", "date", "string"},
		{"long", "time-micros", "time"}, {"int", "time-micros", "int"},
		{"long", "local-timestamp-millis", "timestamp"}, {"int", "timestamp-millis", "int"},
		{"string", "uuid", "uuid"}, {"fixed", "uuid", "uuid"}, {"bytes", "uuid", "bytes"},
		{"bytes", "big-decimal", "decimal"}, {"string", "big-decimal", "string"},
		{"bytes", "decimal", "decimal(0,0)"}, {"fixed", "decimal", "decimal(0,0)"}, {"long", "decimal", "int"},
	} {
		if got := typeOf(&avro.SchemaNode{Type: c.typ, LogicalType: c.logical}); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.logical, c.typ, got, c.want)
		}
	}
}
