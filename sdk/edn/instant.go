package edn

import "time"

// parseInst reads RFC 3339 with seconds, 0 to 9 fraction digits and an offset.
// It is stricter than time.Parse, which accepts a comma and longer fractions.
func parseInst(s string) (Value, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return Value{}, false
	}
	year, ok1 := digitsAt(s, 0, 4)
	month, ok2 := digitsAt(s, 5, 2)
	day, ok3 := digitsAt(s, 8, 2)
	hour, ok4 := digitsAt(s, 11, 2)
	minute, ok5 := digitsAt(s, 14, 2)
	second, ok6 := digitsAt(s, 17, 2)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) ||
		hour > 23 || minute > 59 || second > 59 || month < 1 || month > 12 || day < 1 {
		return Value{}, false
	}
	rest := s[19:]
	nanos := 0
	if rest[0] == '.' {
		n := skipDigits(rest, 1) - 1
		if n < 1 || n > 9 {
			return Value{}, false
		}
		nanos, _ = digitsAt(rest, 1, n)
		for range 9 - n {
			nanos *= 10
		}
		rest = rest[1+n:]
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return Value{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day || year < 1 { // time.Date turns the 30th of February into a day in March
		return Value{}, false
	}
	return instValue(t.Add(-offset))
}

func parseOffset(s string) (time.Duration, bool) {
	if s == "Z" {
		return 0, true
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	hours, ok1 := digitsAt(s, 1, 2)
	minutes, ok2 := digitsAt(s, 4, 2)
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	d := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		d = -d
	}
	return d, true
}

func digitsAt(s string, i, n int) (int, bool) {
	v := 0
	for _, c := range []byte(s[i : i+n]) {
		if c-'0' > 9 {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

// appendInst writes t in UTC with 3, 6 or 9 fraction digits, the fewest that
// are exact.
func appendInst(dst []byte, t time.Time) []byte {
	layout := "2006-01-02T15:04:05.000Z"
	switch ns := t.Nanosecond(); {
	case ns%1_000 != 0:
		layout = "2006-01-02T15:04:05.000000000Z"
	case ns%1_000_000 != 0:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return t.AppendFormat(dst, layout)
}

// parseUUID reads 8-4-4-4-12 hex digits.
func parseUUID(s string) (u [16]byte, ok bool) {
	if len(s) != 36 {
		return u, false
	}
	n := 0
	for i := 0; i < len(s); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return u, false
			}
			i++
			continue
		}
		hi, lo := hexValue(s[i]), hexValue(s[i+1])
		if hi < 0 || lo < 0 {
			return u, false
		}
		u[n] = byte(hi<<4 | lo)
		n++
		i += 2
	}
	return u, true
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func appendUUID(dst []byte, u [16]byte) []byte {
	for i, b := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}
