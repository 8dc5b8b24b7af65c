package web

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	words "github.com/fermenthq/ferment/sdk/text"
)

// Secret is a value that may be sent only to certain hosts.
type Secret struct {
	Value  string
	Hosts  []string
	Header string // the only header that may contain it; empty: any
}

// SecretFrom parses a secret from a map of :value, :hosts and :header.
func SecretFrom(v edn.Value) Secret {
	var s Secret
	s.Value, _ = v.Key("value").AsString()
	s.Header, _ = v.Key("header").AsString()
	for h := range v.Key("hosts").Elems() {
		host, _ := h.AsString()
		s.Hosts = append(s.Hosts, strings.ToLower(host))
	}
	return s
}

// secretTag marks a secret in an input.
const secretTag = "ferment/secret"

// notTheirs are headers that only the client itself sets.
var notTheirs = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer",
	"Proxy-Authorization", "Proxy-Connection", "Keep-Alive"}

// credentials are words in the names of headers that are dropped when the host
// changes: there is no complete list of headers that hold credentials.
var credentials = []string{"auth", "cookie", "credential", "csrf", "key", "password", "secret", "session", "signature", "token"}

// credential reports whether a header may hold credentials.
func credential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(credentials, func(word string) bool { return strings.Contains(name, word) })
}

// header returns the headers of a request to a host. home is true if scheme, host and port are
// those of the original call; otherwise credentials are omitted.
func (c *Client) header(input edn.Value, host string, home bool) (http.Header, *contract.Error) {
	out := http.Header{"User-Agent": {"ferment"}}
	v := input.Key("headers")
	if !v.IsNil() && v.Kind() != edn.KindMap {
		return nil, effects.InvalidInput("schema", c.Tool, "expected a map in :headers, found a %s", v.Kind())
	}
	for key, val := range v.Entries() {
		name := http.CanonicalHeaderKey(word(key))
		if !fieldName(name) || slices.Contains(notTheirs, name) {
			return nil, effects.InvalidInput("header/invalid", c.Tool, "%q is not a header that a call may set", name)
		}
		text, secret, err := c.value(name, host, home, val)
		if err != nil {
			return nil, err
		}
		if !home && (secret || credential(name)) {
			continue
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, effects.InvalidInput("header/invalid", c.Tool,
				"the value of the header %q contains a control character", name)
		}
		out.Set(name, text)
	}
	if name := c.Scope.IdempotencyHeader.V; name != "" && c.Key != "" {
		out.Set(name, c.Key)
	}
	return out, nil
}

// fieldName reports whether a text is an HTTP token.
func fieldName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return s
}

// parts returns the parts of a header's value: the elements of a vector, or the value itself.
func parts(v edn.Value) []edn.Value {
	if v.Kind() == edn.KindVector || v.Kind() == edn.KindList {
		return slices.Collect(v.Elems())
	}
	return []edn.Value{v}
}

// value returns the text of a header from a text, a secret, or a vector of
// both.
func (c *Client) value(header, host string, home bool, v edn.Value) (text string, secret bool, err *contract.Error) {
	var b strings.Builder
	for _, p := range parts(v) {
		if s, ok := p.AsString(); ok {
			b.WriteString(s)
			continue
		}
		tag, name, ok := p.AsTagged()
		if !ok || tag != secretTag {
			return "", false, effects.InvalidInput("schema", c.Tool,
				"the value of the header %q is neither a string nor a secret", header)
		}
		secret = true
		value, err := c.secret(word(name), header, host, home)
		if err != nil {
			return "", false, err
		}
		b.WriteString(value)
	}
	return b.String(), secret, nil
}

// secret returns the value of a secret for a host that it is bound to.
func (c *Client) secret(name, header, host string, home bool) (string, *contract.Error) {
	s, ok := c.Secrets[name]
	switch {
	case !ok || s.Value == "":
		return "", effects.InvalidInput("secret/unknown", c.Tool, "the configuration has no secret %q", name).
			WithHint("declare it in the effects block of ferment.hcl, or correct its name")
	case s.Header != "" && !strings.EqualFold(s.Header, header):
		return "", effects.Denied("secret-not-allowed", c.Tool, "the secret %q is not allowed in the header %q", name,
			header)
	case home && !slices.ContainsFunc(s.Hosts, func(h string) bool { return effects.Covers(effects.KindHosts, h, host) }):
		return "", effects.Denied("secret-not-allowed", c.Tool, "the secret %q is not allowed for the host %q", name,
			host)
	}
	return s.Value, nil
}

// hide replaces the secrets of the request in text of the server by their names: a server that
// repeats them must not bring them into records (FX-011).
func (c *Client) hide(text string) string {
	if c.hidden == nil {
		instead := map[string]string{}
		for name, s := range c.Secrets {
			instead[s.Value] = "[secret " + name + "]"
		}
		c.hidden = words.NewSecrets(instead)
	}
	return c.hidden.Replace(text)
}

func (c *Client) body(input edn.Value) (*string, *contract.Error) {
	v := input.Key("body")
	if v.IsNil() {
		return nil, nil
	}
	text, ok := v.AsString()
	if !ok {
		return nil, effects.InvalidInput("schema", c.Tool, "expected a string in :body, found a %s", v.Kind())
	}
	if word(input.Key("encoding")) == "base64" {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, effects.InvalidInput("content/invalid", c.Tool, "decode the :body as base64: %w", err)
		}
		text = string(data)
	}
	return &text, nil
}

// Named returns the names of the secrets to which the headers of an input
// refer.
func Named(input edn.Value) []string {
	var out []string
	for _, val := range input.Key("headers").Entries() {
		for _, p := range parts(val) {
			if tag, name, ok := p.AsTagged(); ok && tag == secretTag {
				out = append(out, word(name))
			}
		}
	}
	return out
}
