package answer

import (
	"net/http"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// respond returns a response: value or error, usage and metadata.
func respond(out edn.Value, err *contract.Error, usage, meta edn.Value) edn.Value {
	var result edn.MapBuilder
	if err != nil {
		result.Key("type", edn.K("error"))
		result.Key("error", err.Value())
	} else {
		result.Key("type", edn.K("value"))
		result.Key("out", out)
	}
	result.Opt("usage", usage)
	return edn.MustMap(edn.K("result"), result.Map(), edn.K("invoke/meta"), meta)
}

// usage returns the usage of a call.
func (m *Model) usage(mode string, took time.Duration, tokens pricing.Tokens) edn.Value {
	var u edn.MapBuilder
	u.Key("mode", edn.K(mode))
	u.Key("latency-ms", edn.Int(took.Milliseconds()))
	u.Key("tokens-in", edn.Int(tokens.In))
	u.Key("tokens-out", edn.Int(tokens.Out))
	u.Key("tokens-mark", edn.K(string(tokens.Mark)))
	cost, mark := m.Price.Cost(tokens)
	u.Opt("cost-usd", cost)
	u.Key("cost-mark", edn.K(string(mark)))
	return u.Map()
}

// meta returns the metadata of a response without an answer of the model.
func (m *Model) meta() edn.Value {
	return edn.MustMap(edn.K("model"), edn.Text(m.Name), edn.K("finish"), edn.K(string(chat.Stop)))
}

// envelope returns the response: value or error, and usage.
func (c *call) envelope(value edn.Value, err *contract.Error) edn.Value {
	return respond(value, err, c.usage(err), c.meta())
}

// usage returns the usage of the call, nil if it is unknown: the host then charges its reservation.
// A declined request has used no tokens, so that the next candidate has the whole budget; if a
// server failed with a 5xx status or a timeout, the figures are a lower bound.
func (c *call) usage(err *contract.Error) edn.Value {
	switch {
	case err != nil && c.declined():
		tokens := pricing.Tokens{Mark: pricing.Exact}
		if c.head.Status >= 500 || c.head.Status == http.StatusRequestTimeout {
			tokens.Mark = pricing.AtLeast
		}
		return c.model.usage("live", c.exchange.Elapsed(), tokens)
	case err != nil && !c.known:
		return edn.Nil()
	}
	return c.account(c.spent, c.exchange.Elapsed())
}

// account writes tokens and their price into a usage.
func (c *call) account(tokens pricing.Tokens, took time.Duration) edn.Value {
	u := c.model.usage("live", took, tokens).
		AssocKey("tokens-cached", edn.Int(tokens.Cached)).
		AssocKey("tokens-reasoning", edn.Int(tokens.Reasoning))
	if c.begun {
		u = u.AssocKey("first-token-ms", edn.Int(c.firstToken.Milliseconds()))
	}
	if tokens.Written > 0 {
		u = u.AssocKey("tokens-cache-written", edn.Int(tokens.Written))
	}
	return u
}

// declined reports whether the server rejected the request with a status.
func (c *call) declined() bool {
	return c.head.Status != 0 && (c.head.Status < 200 || c.head.Status > 299)
}

// meta returns the metadata of the answer.
func (c *call) meta() edn.Value {
	clean := c.provider.Report.Scrub.Clean
	var provider, m edn.MapBuilder
	provider.Key("name", edn.Text(c.provider.Name))
	provider.Key("type", edn.K(c.provider.Name))
	provider.Key("model", edn.Text(c.model.Name))
	if c.answer.Model != "" {
		provider.Key("model/served", edn.Text(clean(c.answer.Model)))
	}
	if id := c.requestID(); id != "" {
		provider.Key("request/id", edn.Text(clean(id)))
	}
	m.Key("provider", provider.Map())
	m.Key("model", edn.Text(c.model.Name))
	m.Key("prompt/hash", edn.Text(c.question.Hash))
	m.Opt("agent/id", c.question.Agent)
	if f := c.answer.Finish; f != chat.Unfinished && f != chat.Failed {
		m.Key("finish", edn.K(string(f)))
	}
	m.OptTrue("finish/assumed?", c.answer.Assumed)
	if c.skipped > 0 {
		m.Key("stream/skipped", edn.Int(int64(c.skipped)))
	}
	why := c.losses()
	if c.doubted {
		why = append(why, doubtedPrompt)
	}
	if len(why) > 0 {
		m.Key("quality", edn.MustMap(edn.K("degraded?"), edn.Bool(true), edn.K("why"), edn.Keywords(why...)))
	}
	if len(c.dropped) > 0 {
		m.Key("options/dropped", edn.Keywords(c.dropped...))
	}
	if c.headroom > 0 {
		m.Key("tokens/headroom", edn.Int(c.headroom))
	}
	if c.form != chat.Plain {
		m.Key("format/mode", edn.K(string(c.form)))
	}
	m.OptKeyword("format/found", c.how)
	if how := c.by.value(); how.Len() > 0 {
		m.Key(countedBy, how)
	}
	m.Opt("price", c.model.Price.Value())
	return m.Map()
}
