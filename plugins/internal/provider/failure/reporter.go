package failure

import (
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Known holds the known facts about a failed call.
type Known struct {
	Status     int
	RequestID  string
	RetryAfter time.Duration
	// Sent is true if a byte of the request may have left.
	Sent bool
	// Begun is true if a piece of the answer was sent to the caller.
	Begun  bool
	Report Report
}

// Reporter makes the errors of one provider.
type Reporter struct {
	Provider string
	Scrub    *Scrubber
	// RefusalStops ends a node at a refusal instead of trying the next
	// candidate.
	RefusalStops bool
	// NoServer is the hint of errors about a server that cannot be reached or is another one;
	// empty: that of the catalogue.
	NoServer string
}

// Error makes the error of a row. The message is one sentence; the provider's
// message is appended.
func (r *Reporter) Error(is Row, k Known, format string, args ...any) *contract.Error {
	row := rows()[is]
	message := r.Provider + ": " + fmt.Sprintf(format, args...)
	if k.Report.Message != "" {
		message += ": " + k.Report.Message
	}
	e := contract.Errorf(row.typ, "%s", r.Scrub.Clean(message)).WithSource(row.source)
	switch {
	case is == ProviderError && k.Begun, is == Unsayable:
		e = e.WithClass(contract.ClassSwitch)
	case is == Refused && r.RefusalStops:
		e = e.WithClass(contract.ClassStop)
	case (is == Unavailable || is == Foreign) && r.NoServer != "":
		e = e.WithHint(r.NoServer)
	}
	if hint := is.hint(k.Report); hint != "" {
		e = e.WithHint(hint)
	}
	if k.Report.Category != "" {
		e = e.WithDetail("category", r.text(k.Report.Category))
	}
	if k.Report.Output != "" {
		e = e.WithDetail("raw", edn.Text(r.Scrub.Clean(k.Report.Output)))
	}
	e = e.WithDetail("family", edn.K(string(row.family))).WithDetail("sent?", edn.Bool(k.Sent))
	if k.Status != 0 {
		e = e.WithDetail("http/status", edn.Int(int64(k.Status)))
	}
	if k.RequestID != "" {
		e = e.WithDetail("request/id", r.text(k.RequestID))
	}
	if k.RetryAfter > 0 {
		e = e.WithDetail("retry-after-ms", edn.Int(k.RetryAfter.Milliseconds()))
	}
	if in, window := k.Report.sizes(); is == ContextExceeded && in > 0 && window > 0 {
		e = e.WithDetail("tokens-in", edn.Int(in)).WithDetail("context-tokens", edn.Int(window))
	}
	if k.Report.Code != "" {
		e = e.WithDetail("provider/code", r.text(k.Report.Code))
	}
	if k.Report.Param != "" {
		e = e.WithDetail("provider/param", r.text(k.Report.Param))
	}
	return e
}

func (r *Reporter) text(s string) edn.Value { return edn.Text(r.Scrub.Clean(short(s))) }
