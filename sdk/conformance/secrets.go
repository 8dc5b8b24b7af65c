package conformance

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	words "github.com/fermenthq/ferment/sdk/text"
)

// secretsOf returns the texts that a report must not show: those of the
// configuration that the plugin's schema marks, and those given as secrets. The
// marks are known once the plugin has described itself; before that it has
// received no secrets.
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
