package plugin

import (
	"errors"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// A plugin may write its own secret to its output: the URL that it called, the line with which its
// login failed, a setting that it prints. The output goes to callers, records and logs, so it is
// redacted where it enters the host, before any part of it is cut or quoted (ISO-005): lines by
// launch.Runner; answers, errors and health by wire.Client. Errors that the host derives from the
// output are redacted here. A secret that is split between two deltas of a stream is not redacted.

// cleanse returns an error of the plugin with secrets redacted.
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

// hides reports whether there are secrets to redact.
func (p *pluginLog) hides() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.secret != nil
}

// cleanError redacts secrets in e. It returns e itself if there are none.
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
	clean.Err = nil // Err has the same text
	return &clean
}
