package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that is believed.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter is how long a provider asks to wait, 0 if it does not say or if it
// cannot be read: retry-after-ms, else seconds or a date in Retry-After.
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
	if err != nil || !(n > 0) { // not a number is not above 0 either
		return 0
	}
	if n > float64(MaxRetryAfter/unit) {
		return MaxRetryAfter
	}
	return time.Duration(n * float64(unit))
}
