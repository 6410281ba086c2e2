package format

import (
	"encoding/json"
	"math"
	"strconv"
)

// The layouts of times, as time.Time.Format takes them: ISO 8601 with as many digits of
// the second as there are.
const (
	UTCTime   = "2006-01-02T15:04:05.999999999Z"
	LocalTime = "2006-01-02T15:04:05.999999999" // without a time zone
	TimeOfDay = "15:04:05.999999999"
)

// JSONFloat returns a number for encoding/json and Line.Any. Numbers that JSON lacks, NaN and the
// infinities, become strings in JSON.
func JSONFloat(f float64, bits int) any {
	// With the size of the column: a float32 of 0.1 would otherwise become 0.10000000149011612.
	s := strconv.FormatFloat(f, 'g', -1, bits)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return beyondJSON(s)
	}
	return json.Number(s)
}

// beyondJSON is the text of a floating-point number that JSON lacks. encoding/json writes it as a string. The type
// tells Line.Any that conditions compare it as a number: a plain string would be compared byte by byte.
type beyondJSON string
