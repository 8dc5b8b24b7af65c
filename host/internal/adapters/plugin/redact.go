package plugin

import (
	"errors"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// A plugin may put its own secret into what it says: the URL that it called, the
// line that it could not log in with, a setting that it echoes. That text goes to
// callers, records and logs, so it is cleaned where it enters the host, before
// anything of it is cut or quoted (ISO-005): lines by launch.Runner, answers,
// errors and health by wire.Client. What the host makes of them is cleaned here
// once more. A secret that is cut in two by the deltas of a stream passes.

// cleanse hides secrets in an error of the plugin.
func (p *pluginLog) cleanse(err error) error {
	var e *contract.Error
	if !errors.As(err, &e) || !p.hides() {
		return err
	}
	if clean := p.cleanError(e); clean != e {
		return clean
	}
	return err
}

// hides tells whether there is anything to hide.
func (p *pluginLog) hides() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.secret != nil
}

// cleanError gives e itself if it holds no secret.
func (p *pluginLog) cleanError(e *contract.Error) *contract.Error {
	if e == nil || !p.hides() {
		return e
	}
	clean := *e
	clean.Message, clean.Hint, clean.Object = p.redact(e.Message), p.redact(e.Hint), p.redact(e.Object)
	clean.Where, clean.Details = e.Where.MapText(p.redact), e.Details.MapText(p.redact)
	clean.Cause = p.cleanError(e.Cause)
	if clean.Message == e.Message && clean.Hint == e.Hint && clean.Object == e.Object && clean.Cause == e.Cause &&
		edn.Equal(clean.Where, e.Where) && edn.Equal(clean.Details, e.Details) {
		return e
	}
	clean.Err = nil // it has the same text
	return &clean
}
