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

// JSONFloat returns a number for encoding/json. Numbers that JSON lacks, such as NaN,
// become strings.
func JSONFloat(f float64, bits int) any {
	s := strconv.FormatFloat(f, 'g', -1, bits)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return s
	}
	return json.Number(s)
}
