package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Configuration declares the configuration of a plugin. [Config] is its only
// implementation.
type Configuration interface {
	form() (edn.Value, error)
	decode(form, config edn.Value) (any, []schema.Finding)
	offer(ctx context.Context, cfg any) (Offer, error)
	start(ctx context.Context, cfg any) error
}

// Config declares a configuration with settings of type T, a struct with edn
// tags. The host's configuration is validated against the schema. An unknown
// key is a problem. Each problem is reported with its path, so that the host
// can show the line in the configuration file.
type Config[T any] struct {
	// Default holds the values of settings that the configuration leaves out, as
	// far as they are not zero. They are part of the derived schema. A setting
	// whose default is zero is required, unless its type is a pointer or its edn
	// tag has omitempty.
	Default T

	// Schema is the advertised schema, a closed :map with the entry properties
	// of plugin configurations. If nil, it is derived from T: the tags doc,
	// unit, secret, min, max, enum (separated by commas) and deprecated set the
	// properties of an entry; a struct field becomes a block, a map of structs a
	// labelled block. A unit is ms, bytes, decimal, path or capability. The last
	// marks an id or a list of ids of capabilities: the host checks that they
	// exist and permits the plugin to request them.
	Schema edn.Value

	// Check reports problems that the schema cannot express. Use [Problem] to
	// name the setting and errors.Join for several. It runs in Configure, with
	// secrets.
	Check func(cfg T) error

	// Offer returns the capabilities, schemas and needs that depend on the
	// configuration. It must be pure: equal settings give an equal offer, and
	// it reads at most files that the settings name. Secrets are empty when it
	// runs for Describe. Calls use the capabilities of its latest result.
	Offer func(ctx context.Context, cfg T) (Offer, error)

	// Start is called once, in Configure, after validation, Offer and Check.
	// Its context ends with Configure; use Lifetime for background work.
	Start func(ctx context.Context, cfg T) error
}

// Offer holds the additions of a configuration to the declaration of a plugin.
type Offer struct {
	Capabilities []Capability
	Schemas      map[string]edn.Value
	Needs        []string
	Ports        []uint16 // of the network needs
}

// Problem returns an error about the setting at path, for Config.Check, such as
// Problem("no such file", edn.K("script")).
func Problem(message string, path ...edn.Value) error {
	return &problem{schema.Finding{Path: path, Message: message}}
}

type problem struct{ finding schema.Finding }

func (p *problem) Error() string {
	return fmt.Sprintf("%s: %s", edn.Vector(p.finding.Path...), p.finding.Message)
}

// problemsOf converts err, which may join several errors, to findings. An error
// that is not a problem becomes a finding without a path.
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

// refused is the error of a configuration with problems that only Check found.
type refused struct{ findings []schema.Finding }

func (r *refused) Error() string {
	return fmt.Sprintf("the configuration has %d problems", len(r.findings))
}
