package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Configuration says how a plugin is configured. It is a [Config] of some
// type.
type Configuration interface {
	form() (edn.Value, error)
	decode(form, config edn.Value) (any, []schema.Finding)
	offer(ctx context.Context, cfg any) (Offer, error)
	start(ctx context.Context, cfg any) error
}

// Config says how a plugin with settings of type T is configured. T is a
// struct with edn tags. What the host sends is checked against the schema,
// unknown keys are problems, and every problem is reported with its path, so
// that the operator sees it at the line in question.
type Config[T any] struct {
	// Default is what a setting has if the configuration does not say
	// otherwise. It is part of the derived schema.
	Default T

	// Schema is the advertised schema, a closed :map with the entry properties
	// of plugin configurations. If nil it is derived from T: tags doc, unit
	// (ms, bytes, decimal, path), secret, min, max, enum (separated by commas)
	// and deprecated fill the properties of an entry; a struct field becomes a
	// block, a map of structs a labelled block.
	Schema edn.Value

	// Check reports what the schema cannot say. Use [Problem] to name the
	// setting at fault, and errors.Join for several. It runs in Configure,
	// where secrets are present.
	Check func(cfg T) error

	// Offer gives what follows from the configuration. It must be pure: equal
	// settings, equal offer, reading at most files that the settings name.
	// Secrets are empty when it is called to describe the plugin. The functions
	// of the capabilities are those of the last call.
	Offer func(ctx context.Context, cfg T) (Offer, error)

	// Start is called once, in Configure, after everything was found in order.
	// Its context ends when Configure does; Lifetime gives one that goes on.
	Start func(ctx context.Context, cfg T) error
}

// Offer is what a configuration adds to a plugin.
type Offer struct {
	Capabilities []Capability
	Schemas      map[string]edn.Value
	Needs        []string
	Ports        []uint16 // of the network needs
}

// Problem is an error about the setting at path, such as
// Problem("no such file", edn.K("script")).
func Problem(message string, path ...edn.Value) error {
	return &problem{schema.Finding{Path: path, Message: message}}
}

type problem struct{ finding schema.Finding }

func (p *problem) Error() string {
	return fmt.Sprintf("%s: %s", edn.Vector(p.finding.Path...), p.finding.Message)
}

// problemsOf takes the problems out of err, which may be joined of several.
// What is no problem becomes one without a path.
func problemsOf(err error) []schema.Finding {
	if err == nil {
		return nil
	}
	var undecoded *edn.DecodeError
	if errors.As(err, &undecoded) {
		var all []schema.Finding
		for _, p := range undecoded.Problems {
			all = append(all, schema.Finding{Path: p.Path, Message: p.Message})
		}
		return all
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []schema.Finding
		for _, e := range joined.Unwrap() {
			all = append(all, problemsOf(e)...)
		}
		return all
	}
	var p *problem
	if errors.As(err, &p) {
		return []schema.Finding{p.finding}
	}
	return []schema.Finding{{Message: err.Error()}}
}

func (c Config[T]) form() (edn.Value, error) {
	form := c.Schema
	if form.IsNil() {
		var err error
		if form, err = configForm(c.Default); err != nil {
			return form, err
		}
	}
	_, err := schema.Compile(form)
	return form, err
}

func (c Config[T]) decode(form, config edn.Value) (any, []schema.Finding) {
	shape, err := schema.Compile(lenient(form))
	if err != nil {
		return nil, problemsOf(err)
	}
	if findings := shape.Validate(config); len(findings) > 0 {
		return nil, findings
	}
	cfg := c.Default
	if err := edn.DecodeStrict(withoutNil(form, config), &cfg); err != nil {
		return nil, problemsOf(err)
	}
	return cfg, nil
}

func (c Config[T]) offer(ctx context.Context, cfg any) (Offer, error) {
	if c.Offer == nil {
		return Offer{}, nil
	}
	return c.Offer(ctx, cfg.(T))
}

func (c Config[T]) start(ctx context.Context, cfg any) error {
	if c.Check != nil {
		if err := c.Check(cfg.(T)); err != nil {
			return &refused{problemsOf(err)}
		}
	}
	if c.Start == nil {
		return nil
	}
	return c.Start(ctx, cfg.(T))
}

// refused is a configuration with problems that only Configure sees.
type refused struct{ findings []schema.Finding }

func (r *refused) Error() string { return fmt.Sprintf("%d problems", len(r.findings)) }
