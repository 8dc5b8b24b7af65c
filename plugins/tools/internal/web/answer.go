package web

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// answer reads the body of a response up to the limit of the scope, closes it, and returns the
// output of the tool, without secrets. way are the redirects before it.
func (c *Client) answer(
	ctx context.Context, target effects.Target, response *http.Response, way []edn.Value,
) (edn.Value, *contract.Error) {
	defer func() { _ = response.Body.Close() }()
	limit := c.Scope.MaxBytes.Or(effects.DefaultHTTPBytes)
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return edn.Nil(), c.failed(ctx, target, err)
	}
	truncated := int64(len(data)) > limit
	if truncated {
		data = data[:limit]
	}
	var m edn.MapBuilder
	m.Key("tool/id", edn.K(c.Tool.ID))
	m.Key("effect", edn.K(c.Tool.Effect))
	m.Key("method", edn.Text(target.Method))
	m.Key("url", edn.Text(c.hide(target.URL.String())))
	m.Key("status", edn.Int(int64(response.StatusCode)))
	m.Key("headers", c.headers(response.Header))
	m.Key("bytes", edn.Int(int64(len(data))))
	m.Key("truncated?", edn.Bool(truncated))
	if len(way) > 0 {
		m.Key("redirects", edn.Vector(way...))
	}
	if truncated {
		data = wholeRunes(data)
	}
	data = []byte(c.hide(string(data)))
	if utf8.Valid(data) {
		m.Key("body", edn.Text(string(data)))
	} else {
		m.Key("encoding", edn.K("base64"))
		m.Key("body", edn.Text(base64.StdEncoding.EncodeToString(data)))
	}
	return m.Map(), nil
}

// wholeRunes returns data without an incomplete UTF-8 character at its end.
func wholeRunes(data []byte) []byte {
	for cut := 0; cut < utf8.UTFMax && cut < len(data); cut++ {
		if r, size := utf8.DecodeLastRune(data[:len(data)-cut]); r != utf8.RuneError || size > 1 {
			return data[:len(data)-cut]
		}
	}
	return data
}

func (c *Client) headers(h http.Header) edn.Value {
	var m edn.MapBuilder
	for name, values := range h {
		key, err1 := edn.String(strings.ToLower(name))
		text, err2 := edn.String(strings.ToValidUTF8(c.hide(strings.Join(values, ", ")), "?"))
		if err1 == nil && err2 == nil {
			m.Set(key, text)
		}
	}
	return m.Map()
}

// shown returns a URL without its query, which may hold secrets.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
