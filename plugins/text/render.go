package main

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/plugins/text/internal/mustache"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// renderIn is the input of :text/render.
type renderIn struct {
	Template string            `edn:"template"`
	Data     edn.Value         `edn:"data,omitempty"`
	Partials map[string]string `edn:"partials,omitempty"`
	Escape   edn.Value         `edn:"escape,omitempty"`
	Missing  edn.Value         `edn:"missing,omitempty"`
}

type renderOut struct {
	Text string `edn:"text"`
}

func render(_ context.Context, in renderIn) (renderOut, error) {
	html, err := option("escape", in.Escape, "html")
	if err != nil {
		return renderOut{}, err
	}
	allow, err := option("missing", in.Missing, "empty")
	if err != nil {
		return renderOut{}, err
	}
	if !in.Data.IsNil() && !in.Data.IsMap() {
		return renderOut{}, refused("a map", in.Data, "data")
	}
	out, err := mustache.Render(in.Template, in.Data, mustache.Options{HTML: html, AllowMissing: allow,
		Partials: in.Partials})
	if err != nil {
		return renderOut{}, renderFault(err)
	}
	return renderOut{Text: out}, nil
}

func renderFault(err error) error {
	var syntax *mustache.SyntaxError
	var missing *mustache.MissingError
	var large *mustache.TooLargeError
	switch {
	case errors.As(err, &syntax):
		return place(contract.Errorf("render/syntax", "%s", err), syntax.Template, syntax.Line)
	case errors.As(err, &missing):
		return place(contract.Errorf("render/missing", "%s", err), missing.Template, missing.Line).
			WithDetail("name", edn.Text(missing.Path))
	case errors.As(err, &large):
		return place(contract.Errorf("render/too-large", "%s", err), large.Template, large.Line)
	}
	return err
}

// place returns e with the field of the input and the position of the error in it.
func place(e *contract.Error, partial string, line int) *contract.Error {
	path := edn.Vector(edn.K("template"))
	if partial != "" {
		path = edn.Vector(edn.K("partials"), edn.Text(partial))
	}
	return e.WithDetail("path", path).WithDetail("line", edn.Int(int64(line)))
}
