package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sources returns the map from which placeholders are filled: the request envelope, and under :call
// the position of the call.
func sources(ctx context.Context, request edn.Value) edn.Value {
	c := sdk.CallFrom(ctx)
	call := edn.MustMap(
		edn.K("run"), edn.Text(c.Run),
		edn.K("node"), edn.Text(c.Node),
		edn.K("attempt"), edn.Int(int64(c.Attempt)),
		edn.K("effect-key"), edn.Text(c.EffectKey),
	)
	if request.Kind() != edn.KindMap {
		request = edn.MustMap()
	}
	return request.AssocKey("call", call)
}

// fill replaces {{path.to.value}} in every string of v except map keys. A string is inserted
// unchanged, any other value as canonical text. The error is render/syntax for an unclosed
// placeholder and render/missing for a path without a value.
func fill(v, from edn.Value) (edn.Value, error) {
	var failed error
	filled, err := v.Walk(nil, func(v edn.Value) edn.Value {
		text, ok := v.AsString()
		if !ok || failed != nil {
			return v
		}
		var whole string
		if whole, failed = fillText(text, from); failed != nil {
			return v
		}
		return edn.Text(whole)
	})
	if failed != nil {
		return edn.Nil(), failed
	}
	return filled, err
}

func fillText(text string, from edn.Value) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		path, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return "", contract.Errorf("render/syntax", "fill template: a {{ has no closing }} in %q", text).
				WithHint("close the placeholder with }}")
		}
		v, ok := reach(from, strings.TrimSpace(path))
		if !ok {
			return "", contract.Errorf("render/missing", "fill template: the request has nothing at %s", strings.TrimSpace(path))
		}
		if s, isText := v.AsString(); isText {
			out.WriteString(s)
		} else {
			out.WriteString(v.String())
		}
		text = after
	}
}

// reach returns the value at a path of names separated by dots: map keys as keywords, else as
// strings, and indices of vectors and lists.
func reach(v edn.Value, path string) (edn.Value, bool) {
	for name := range strings.SplitSeq(path, ".") {
		var found bool
		if i, err := strconv.Atoi(name); err == nil && (v.Kind() == edn.KindVector || v.Kind() == edn.KindList) {
			v, found = v.Nth(i)
		} else if key, err := edn.Keyword(name); err == nil && v.HasKey(name) {
			v, found = v.Get(key)
		} else {
			v, found = v.Get(edn.Text(name))
		}
		if !found {
			return edn.Nil(), false
		}
	}
	return v, true
}
