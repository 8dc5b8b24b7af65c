package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	words "github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/wire"
)

// settingChecks test values of a configuration by the schema that the plugin
// publishes. They pass for a plugin without a schema.
func settingChecks() []Check {
	return []Check{
		{ID: "core/describe/wrong-type", Requirements: []string{"DESCRIBE-004"},
			Text: "Describe reports a setting of a wrong type with its path, and the plugin keeps running",
			run:  describeWrongType},
		{ID: "core/configure/wrong-type", Requirements: []string{"CONFIGURE-002"},
			Text: "Configure reports a setting of a wrong type with its path, and the plugin keeps running",
			run:  configureWrongType},
		{ID: "core/configure/secrets", Requirements: []string{"SECRET-001"},
			Text: fmt.Sprintf("no part of %d characters of a secret from Configure appears in a log line, error, answer, "+
				"state or finding", secretPart),
			run: secretsHidden},
	}
}

// published starts the plugin and returns the schema of its configuration.
func (b *bench) published(ctx context.Context) (Instance, *schema.Schema, error) {
	in, err := b.start(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.settings(ctx, in)
	return in, s, err
}

// settings returns the schema of the configuration that the plugin publishes.
func (b *bench) settings(ctx context.Context, in Instance) (*schema.Schema, error) {
	raw, err := in.Client().Describe(ctx, edn.Nil(), b.hostInfo())
	if err != nil {
		return nil, want("Describe answers", "%v", err)
	}
	form := raw.Value.Key("config").Key("config/schema")
	if form.IsNil() {
		form = edn.Vector(edn.K("map"))
	}
	s, err := schema.Compile(form)
	if err != nil {
		return nil, want("a configuration schema that can be read", "%v", err)
	}
	return s, nil
}

// mostOthers bounds the configurations with other settings.
const mostOthers = 3

// otherSettings returns setups in which each setting that can has another valid value.
func otherSettings(s *schema.Schema, setup wire.Setup) []wire.Setup {
	var all []wire.Setup
	for round := range mostOthers {
		other := setup
		for _, e := range s.Entries() {
			if e.Props.Secret {
				if e.Schema.Valid(edn.Text(markedSecret)) {
					secrets := other.Secrets
					if secrets.IsNil() {
						secrets = edn.MustMap()
					}
					other.Secrets = secrets.Assoc(edn.Vector(e.Key), edn.Text(markedSecret))
					other.Config = other.Config.Assoc(e.Key, edn.Nil())
				}
				continue
			}
			if values := otherValues(e, setup.Config); len(values) > 0 {
				other.Config = other.Config.Assoc(e.Key, values[round%len(values)])
			}
		}
		if !edn.Equal(other.Config, setup.Config) {
			all = append(all, other)
		}
	}
	return all
}

// otherValues returns valid values of a setting besides its value in a configuration.
func otherValues(e schema.Entry, config edn.Value) []edn.Value {
	now, given := config.Get(e.Key)
	if !given {
		now = e.Props.Default
	}
	values := []edn.Value{edn.Int(0), edn.Int(1), edn.Text("other"), edn.Text("x"), edn.Bool(false), edn.Bool(true),
		edn.MustFloat(0.25), edn.Vector(), edn.Vector(edn.Text("x")), edn.MustMap()}
	if head, _ := e.Schema.Spec().Nth(0); edn.Equal(head, edn.K("enum")) {
		values = append(values, arguments(e.Schema.Spec())...)
	}
	values = append(values, edges(now)...)
	return slices.DeleteFunc(values, func(v edn.Value) bool { return edn.Equal(v, now) || !e.Schema.Valid(v) })
}

// wrongSetting is a setting with a value that its schema does not allow.
type wrongSetting struct{ key, value edn.Value }

// mostWrong bounds the settings that a check tries.
const mostWrong = 8

// wrongSettings returns a wrong value for each setting that has one. A value
// that becomes valid when it is read from JSON is not wrong.
func wrongSettings(s *schema.Schema) []wrongSetting {
	values := []edn.Value{edn.Int(7), edn.Text("no such value"), edn.Bool(true), edn.Vector(edn.MustMap())}
	var all []wrongSetting
	for _, e := range s.Entries() {
		if e.Props.Secret {
			continue // the configuration contains nil instead
		}
		for _, v := range values {
			if !e.Schema.Valid(v) && !e.Schema.Valid(e.Schema.CoerceJSON(v)) && len(all) < mostWrong {
				all = append(all, wrongSetting{e.Key, v})
				break
			}
		}
	}
	return all
}

// reported checks the answer to a configuration with a wrong setting: a finding
// must have the path of the setting.
func (w wrongSetting) reported(d wire.Description, err error) error {
	expected := fmt.Sprintf("a finding with the path [%s] for the value %s", w.key, w.value)
	if err != nil {
		return want(expected, "the error %v", err)
	}
	for _, f := range d.Findings {
		if len(f.Path) > 0 && wordOf(f.Path[0]) == wordOf(w.key) {
			return nil
		}
	}
	if len(d.Findings) == 0 {
		return want(expected, "no finding")
	}
	return want(expected, "%s", cut(findings(d)))
}

func describeWrongType(ctx context.Context, b *bench) error {
	in, s, err := b.published(ctx)
	if err != nil {
		return err
	}
	for _, w := range wrongSettings(s) {
		d, err := in.Client().Describe(ctx, b.config().Assoc(w.key, w.value), b.hostInfo())
		if err := w.reported(d, err); err != nil {
			return err
		}
	}
	return b.alive(ctx, in, "settings of a wrong type")
}

// configureWrongType asks one instance as long as it reports findings; one that
// accepts only a single Configure is started again.
func configureWrongType(ctx context.Context, b *bench) error {
	in, s, err := b.published(ctx)
	if err != nil {
		return err
	}
	for i, w := range wrongSettings(s) {
		setup := b.setup("")
		setup.Config = setup.Config.Assoc(w.key, w.value)
		d, err := in.Client().Configure(ctx, setup, nil)
		if err != nil && i > 0 {
			if in, _, err = b.published(ctx); err != nil {
				return err
			}
			d, err = in.Client().Configure(ctx, setup, nil)
		}
		if err := w.reported(d, err); err != nil {
			return err
		}
	}
	return b.alive(ctx, in, "settings of a wrong type")
}

// markedSecret is the text of a secret that the run does not set.
const markedSecret = "7f3a9c51e08d4b26a1c5f0937d82e6b4"

// secretPart is the length in bytes of the parts of a secret that the plugin must not
// reveal, as a mask with too few characters does. secretParts bounds their number.
const (
	secretPart  = 8
	secretParts = 64
)

// partsOf returns the parts of a secret to search for: each window of secretPart bytes, of
// a long secret one in several. A part without a digit or without a letter may be a word or
// a number that occurs elsewhere too.
func partsOf(secret string) []string {
	var all []string
	for at := 0; at+secretPart <= len(secret); at += 1 + len(secret)/secretParts {
		part := secret[at : at+secretPart]
		letter := func(r rune) bool { return r < unicode.MaxASCII && unicode.IsLetter(r) }
		digit := func(r rune) bool { return '0' <= r && r <= '9' }
		if strings.ContainsFunc(part, letter) && strings.ContainsFunc(part, digit) {
			all = append(all, part)
		}
	}
	return all
}

// withSecrets adds a marked text for each secret that the run does not set, and returns
// the Secrets that find all secrets and their parts in a text; nil if the plugin has no
// secrets. A part that the configuration contains too is not searched for.
func (b *bench) withSecrets(setup wire.Setup, s *schema.Schema) (wire.Setup, *words.Secrets) {
	hidden := map[string]string{}
	hide := func(secret string) {
		hidden[secret] = "[secret]"
		for _, part := range partsOf(secret) {
			hidden[part] = "[part of a secret]"
		}
	}
	given := setup.Secrets
	if given.IsNil() {
		given = edn.MustMap()
	}
	for _, v := range given.Entries() {
		if text, ok := v.AsString(); ok {
			hide(text)
		}
	}
	for _, e := range s.Entries() {
		path := edn.Vector(e.Key)
		if _, ok := given.Get(path); ok || !e.Props.Secret || !e.Schema.Valid(edn.Text(markedSecret)) {
			continue
		}
		given = given.Assoc(path, edn.Text(markedSecret))
		setup.Config = setup.Config.Assoc(e.Key, edn.Nil())
		hide(markedSecret)
	}
	if len(hidden) == 0 {
		return setup, nil
	}
	setup.Secrets = given
	public := setup.Config.String()
	maps.DeleteFunc(hidden, func(text, as string) bool { return as != "[secret]" && strings.Contains(public, text) })
	return setup, words.NewSecrets(hidden)
}

// overheard records where a plugin first revealed a secret.
type overheard struct {
	secrets *words.Secrets
	where   string
}

// look searches a text for a secret.
func (o *overheard) look(where, text string) {
	if o.where == "" && o.secrets.Replace(text) != text {
		o.where = where + ": " + cut(o.secrets.Replace(text))
	}
}

// failure searches an error with its details and causes.
func (o *overheard) failure(where string, err error) {
	if err != nil {
		o.look(where, err.Error())
		o.look(where, contract.AsError(err).Value().String())
	}
}

// secretsHidden gives a plugin secrets and searches for them in all its output:
// during configuration, calls, refusals, probes and the exit.
func secretsHidden(ctx context.Context, b *bench) error {
	in, s, err := b.published(ctx)
	if err != nil {
		return err
	}
	root, err := b.root()
	if err != nil {
		return err
	}
	setup, secrets := b.withSecrets(b.setup(root), s)
	if secrets == nil {
		return nil // it has no secrets
	}
	o := &overheard{secrets: secrets}
	d, err := in.Client().Configure(ctx, setup, b.host())
	o.failure("the error of Configure", err)
	o.look("a finding", findings(d))
	o.look("the description", d.Value.String())
	if err == nil && len(d.Findings) == 0 {
		b.overhearCalls(ctx, in, o)
	}
	in.Stop() // reads what is left of the log
	for _, line := range in.Log() {
		o.look("a line of the log", line)
	}
	if o.where != "" {
		return want("no secret of the configuration in what the plugin says", "%s", o.where)
	}
	return ctx.Err()
}

func (b *bench) overhearCalls(ctx context.Context, in Instance, o *overheard) {
	_ = b.awaitReady(ctx, in) // it may report that it rejects the marked secret
	_, d, err := b.describe(ctx, in, b.config())
	if err != nil {
		return
	}
	patient, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	b.everyInput(d, 2*wire.MaxLine, b.call, func(q question) {
		response, err := in.Client().Invoke(patient, b.context(q), q.request(), func(e wire.Event) {
			o.look("an event of "+q.String(), e.Value.String())
		})
		o.failure("the error of "+q.String(), err)
		o.look("the answer of "+q.String(), response.String())
	})
	if h, err := b.probe(ctx, in); err == nil {
		var said strings.Builder
		fmt.Fprintln(&said, h.Reason, h.Attributes)
		for _, c := range h.Capabilities {
			fmt.Fprintln(&said, c.Reason)
		}
		o.look("the state", said.String())
	}
	_, _ = b.drain(ctx, in, b.soon)
}
