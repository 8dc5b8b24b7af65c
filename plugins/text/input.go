package main

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// languageOf returns the code of a language written as :en, "en" or "en-GB"; ""
// if there is none.
func languageOf(v edn.Value, path ...any) (string, error) {
	if v.IsNil() {
		return "", nil
	}
	name, ok := v.AsKeyword()
	if !ok {
		name, ok = v.AsString()
	}
	code, _, _ := strings.Cut(strings.ToLower(name), "-")
	if !ok || len(code) < 2 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", refused("a language such as :en", v, path...)
	}
	return code, nil
}

// option parses a field that must be absent or have the value on, and reports whether it is
// present.
func option(field string, v edn.Value, on string) (bool, error) {
	if v.IsNil() {
		return false, nil
	}
	name, ok := v.AsKeyword()
	if !ok {
		name, ok = v.AsString()
	}
	if !ok || name != on {
		return false, refused(":"+on+" or nothing", v, field)
	}
	return true, nil
}

// refused returns the error for an invalid field of the input.
func refused(expected string, got edn.Value, path ...any) *contract.Error {
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = fmt.Sprint(p)
	}
	return contract.Errorf("input/invalid", "%s: expected %s, got %s", strings.Join(names, " "), expected,
		clip(got.String())).
		WithDetail("path", pathOf(path...)).
		WithDetail("expected", edn.Text(expected))
}

// pathOf returns a path in the input from keys and indices.
func pathOf(path ...any) edn.Value {
	at := make([]edn.Value, len(path))
	for i, p := range path {
		switch p := p.(type) {
		case string:
			at[i] = edn.K(p)
		case int:
			at[i] = edn.Int(int64(p))
		}
	}
	return edn.Vector(at...)
}

// clip returns s shortened for a message.
func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
