package plugin

import (
	"errors"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// A plugin that fails may put its own secret into what it says of the failure:
// the URL that it called, the line that it could not log in with. That text goes
// to callers, records and logs, so it is cleaned where it enters the host
// (ISO-005). Answers are the plugin's work and pass as they are.

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
	clean.Where, clean.Details = p.redactValue(e.Where), p.redactValue(e.Details)
	clean.Cause = p.cleanError(e.Cause)
	if clean.Message == e.Message && clean.Hint == e.Hint && clean.Object == e.Object && clean.Cause == e.Cause &&
		edn.Equal(clean.Where, e.Where) && edn.Equal(clean.Details, e.Details) {
		return e
	}
	clean.Err = nil // it has the same text
	return &clean
}

func (p *pluginLog) redactValue(v edn.Value) edn.Value {
	out, err := v.Walk(nil, func(v edn.Value) edn.Value {
		s, ok := v.AsString()
		if !ok {
			return v
		}
		if clean := p.redact(s); clean != s {
			return edn.Text(clean)
		}
		return v
	})
	if err != nil {
		return edn.Text("[not shown: it cannot be searched for secrets]")
	}
	return out
}

// cleanHealth hides secrets in what a plugin says of its health.
func (p *pluginLog) cleanHealth(h wire.Health) wire.Health {
	if p.hides() {
		h.Reason, h.Attributes = p.redact(h.Reason), p.redactValue(h.Attributes)
		h.Capabilities = slices.Clone(h.Capabilities)
		for i := range h.Capabilities {
			h.Capabilities[i].Reason = p.redact(h.Capabilities[i].Reason)
		}
	}
	return h
}
