package format

import (
	"cmp"
	"strings"
	"time"
)

// moment is a point in time or a time of day. A date is the beginning of its day, and a time without a
// zone is in UTC, as Parquet and Avro store local times.
type moment struct {
	clock    bool   // a time of day, which no date is comparable with
	seconds  int64  // since 1970 or since midnight
	fraction string // digits of the second without zeros at the end
}

// maxMoment bounds the text of a moment in bytes. A longer fraction of a second is an error.
const maxMoment = 60

// parseMoment parses YYYY-MM-DD, HH:MM[:SS[.FRACTION]], or both with T or a space between them. A zone, Z
// or ±HH[:MM], may follow a date and a time, whose minutes may be missing. Months, days and hours may have
// one digit, and years at most nine and a sign. ok is false for any other text, also for February 30.
func parseMoment(s string) (m moment, ok bool) {
	if len(s) > maxMoment {
		return m, false
	}
	// A date has its first colon behind a date and a separator, at the tenth byte or later.
	// So the position of the colon alone decides, and no text is tried in two ways.
	if at := strings.IndexByte(s, ':'); at == 1 || at == 2 {
		m.clock = true
		s, ok = m.parseClock(s)
		return m, ok && s == ""
	}
	sign := 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	// Zones and clocks are fixed by their digits; a year may have more than four.
	year, s, ok1 := digits(s, 4, 9, '-')
	month, s, ok2 := digits(s, 1, 2, '-')
	day, s, ok3 := digits(s, 1, 2, 0)
	// Nine digits of a year are about 3e16 seconds, so Unix below does not overflow.
	date := time.Date(sign*year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	// time.Date turns February 30 into March 1, which the user did not write.
	if !ok1 || !ok2 || !ok3 || date.Day() != day || int(date.Month()) != month {
		return m, false
	}
	if s != "" {
		if !strings.ContainsRune(" Tt", rune(s[0])) {
			return m, false
		}
		if s, ok = m.parseClock(s[1:]); ok {
			s, ok = m.parseZone(s)
		}
		if !ok || s != "" {
			return m, false
		}
	}
	m.seconds += date.Unix()
	return m, true
}

// parseClock sets the time of day and returns the rest of the text. An hour without minutes is a time only
// behind a date: else 10 would be a number and a time.
func (m *moment) parseClock(s string) (rest string, ok bool) {
	hour, s, ok := digits(s, 1, 2, 0)
	if !ok || hour > 23 {
		return s, false
	}
	m.seconds = int64(hour) * 3600
	// Minutes and seconds have two digits, because 8:5 is a typing error more often than a time. Second 60 is
	// refused: Parquet and Avro have no leap seconds with which it could be equal.
	for _, unit := range []int64{60, 1} {
		after, more := strings.CutPrefix(s, ":")
		if !more {
			return s, true
		}
		var n int
		if n, s, ok = digits(after, 2, 2, 0); !ok || n > 59 {
			return s, false
		}
		m.seconds += int64(n) * unit
	}
	if after, more := strings.CutPrefix(s, "."); more {
		s = strings.TrimLeft(after, "0123456789")
		m.fraction = strings.TrimRight(after[:len(after)-len(s)], "0")
		// A point needs at least one digit behind it.
		return s, len(s) < len(after)
	}
	return s, true
}

// parseZone subtracts the offset of a zone, if there is one, and returns the rest of the text.
func (m *moment) parseZone(s string) (rest string, ok bool) {
	switch {
	case s == "" || s == "Z" || s == "z":
		return "", true
	case s[0] != '+' && s[0] != '-':
		return s, false
	}
	hours, rest, ok := digits(s[1:], 2, 2, 0)
	minutes := 0
	// Both +02 and +0200 are common: PostgreSQL prints the first, many logs the second.
	if ok && rest != "" {
		minutes, rest, ok = digits(strings.TrimPrefix(rest, ":"), 2, 2, 0)
	}
	offset := int64(hours*3600 + minutes*60)
	if s[0] == '-' {
		offset = -offset
	}
	m.seconds -= offset
	return rest, ok && hours < 24 && minutes < 60
}

// digits parses a number of at least least and at most most digits, and the byte after it unless that
// is 0.
func digits(s string, least, most int, after byte) (n int, rest string, ok bool) {
	at := 0
	for at < len(s) && at < most && s[at] >= '0' && s[at] <= '9' {
		n = n*10 + int(s[at]-'0')
		at++
	}
	if at < least {
		return 0, s, false
	}
	if after == 0 {
		return n, s[at:], true
	}
	if at == len(s) || s[at] != after {
		return 0, s, false
	}
	return n, s[at+1:], true
}

// compare orders two points in time, or two times of day.
func (m *moment) compare(n *moment) int {
	// Fractions are compared as text, which is exact for any number of digits. The zeros at their ends are
	// gone, so equal fractions have equal texts.
	return cmp.Or(cmp.Compare(m.seconds, n.seconds), strings.Compare(m.fraction, n.fraction))
}
