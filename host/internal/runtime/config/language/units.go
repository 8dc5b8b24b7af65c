package language

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

type unit struct {
	name string
	ms   int64
}

// durationUnits are the units of durations, the largest first.
var durationUnits = []unit{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}

// ParseDuration parses numbers with units in any order, such as "1h30m", "250ms" or "1.5s". The
// result is in milliseconds.
func ParseDuration(s string) (int64, error) {
	bad := func() (int64, error) {
		return 0, errors.New("write a duration as numbers with the units ms, s, m, h, d, as in \"1h30m\"")
	}
	rest, total := s, 0.0
	if rest == "" {
		return bad()
	}
	for rest != "" {
		number, after := SplitNumber(rest)
		word := after[:len(after)-len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz"))]
		rest = after[len(word):]
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return bad()
		}
		scale := int64(0)
		for _, u := range durationUnits {
			if u.name == word {
				scale = u.ms
			}
		}
		if scale == 0 {
			return bad()
		}
		total += n * float64(scale)
	}
	ms := math.Round(total)
	if math.Abs(total-ms) > 1e-6 {
		return 0, fmt.Errorf("duration %s is finer than a millisecond", diag.Quote(diag.Short(s)))
	}
	if ms > math.MaxInt64/2 {
		return 0, fmt.Errorf("duration %s is too long", diag.Quote(diag.Short(s)))
	}
	return int64(ms), nil
}

// SplitNumber splits a text after its leading decimal number, which has no sign or exponent.
func SplitNumber(s string) (number, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	return s[:i], s[i:]
}

var byteUnits = []struct {
	name string
	size int64
}{{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// ParseBytes parses a size such as "512KiB" or "1.5GB". The result is in bytes.
func ParseBytes(s string) (int64, error) {
	bad := func() (int64, error) {
		return 0, errors.New("write a size as a number with one of the units B, KB, MB, GB, KiB, MiB, GiB")
	}
	number, word := SplitNumber(s)
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return bad()
	}
	for _, u := range byteUnits {
		if u.name != word {
			continue
		}
		total := n * float64(u.size)
		if total > math.MaxInt64/2 {
			return 0, fmt.Errorf("size %s is too large", diag.Quote(diag.Short(s)))
		}
		if total != math.Trunc(total) {
			return 0, fmt.Errorf("size %s is not a whole number of bytes", diag.Quote(diag.Short(s)))
		}
		return int64(total), nil
	}
	return bad()
}

// ParseRate parses a rate such as "20/s" or "5/min". The result is a number of events and a period
// in milliseconds.
func ParseRate(s string) (events, periodMS int64, err error) {
	number, word, ok := strings.Cut(s, "/")
	n, perr := strconv.ParseInt(number, 10, 64)
	periods := map[string]int64{"s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
	if !ok || perr != nil || n < 0 || periods[word] == 0 {
		return 0, 0, errors.New("write a rate as a whole number and s, min, h or d, as in \"20/s\"")
	}
	return n, periods[word], nil
}
