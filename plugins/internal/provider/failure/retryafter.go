package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter caps the wait that a provider may request.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns the wait that a provider requests, 0 if there is none or
// it is invalid: retry-after-ms, else seconds or a date in Retry-After.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d := amount(h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if d := amount(value, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), MaxRetryAfter)
	}
	return 0
}

func amount(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(n > 0) { // also rejects NaN
		return 0
	}
	if n > float64(MaxRetryAfter/unit) {
		return MaxRetryAfter
	}
	return time.Duration(n * float64(unit))
}
