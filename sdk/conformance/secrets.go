package conformance

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	words "github.com/fermenthq/ferment/sdk/text"
)

// secretsOf returns the texts that a report must not show: those given as secrets, and those inside
// other values of the configuration that the plugin's schema marks.
func secretsOf(described edn.Value, opts Options) *words.Secrets {
	hidden := map[string]string{}
	hide := func(_ []edn.Value, v edn.Value) edn.Value {
		return v.MapText(func(text string) string {
			hidden[text] = "[secret]"
			return text
		})
	}
	for _, v := range opts.Secrets.Entries() {
		hide(nil, v)
	}
	if form := described.Key("config/schema"); !form.IsNil() && !opts.Config.IsNil() {
		if s, err := schema.Compile(form); err == nil {
			s.Replace(opts.Config, schema.Secret, hide)
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	return words.NewSecrets(hidden)
}

// withSecretsApart returns the options with each text of the configuration that the plugin's schema
// marks as a secret in Secrets, and nil in its place, as a host sends them.
func (o Options) withSecretsApart(s *schema.Schema) Options {
	o.Config = s.Replace(o.Config, schema.Secret, func(path []edn.Value, v edn.Value) edn.Value {
		if !v.IsString() {
			return v
		}
		if o.Secrets.IsNil() {
			o.Secrets = edn.MustMap()
		}
		o.Secrets = o.Secrets.Assoc(edn.Vector(slices.Clone(path)...), v)
		return edn.Nil()
	})
	return o
}

// without returns the result with all secrets redacted.
func (r Result) without(secrets *words.Secrets) Result {
	r.Observed, r.Expected = secrets.Replace(r.Observed), secrets.Replace(r.Expected)
	r.Evidence = replaced(secrets, r.Evidence)
	return r
}

func (c CommandLine) without(secrets *words.Secrets) CommandLine {
	c.Flags, c.Program = replaced(secrets, c.Flags), replaced(secrets, c.Program)
	return c
}

func replaced(secrets *words.Secrets, texts []string) []string {
	texts = slices.Clone(texts)
	for i, text := range texts {
		texts[i] = secrets.Replace(text)
	}
	return texts
}
