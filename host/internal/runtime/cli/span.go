package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// span is the value of a flag with a duration in the syntax of the configuration.
type span time.Duration

// spanFlag adds a flag with a duration without a sign.
func spanFlag(flags *pflag.FlagSet, to *time.Duration, name string, def time.Duration, usage string) {
	*to = def
	flags.Var((*span)(to), name, usage)
}

var errSpan = errors.New("expected a time such as 90s, 15m, 1h30m or 7d")

// parseSpan parses a duration on the command line.
func parseSpan(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	ms, err := language.ParseDuration(text)
	if err != nil || ms > int64(longestSpan/time.Millisecond) {
		return 0, errSpan
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// longestSpan is below the maximum of time.Duration, which is 292 years.
const longestSpan = 100 * 365 * 24 * time.Hour

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }

// String implements pflag.Value. It returns an empty text for zero, so that no default is shown.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}
