package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/sdk/edn"
)

// secretsOf checks that the secrets of a plugin exist. Their values are not kept.
func (r *Reader) secretsOf(p *Plugin) {
	for _, s := range p.Secrets {
		r.SecretThere(s, "config of plugin "+diag.Quote(p.Name), []string{"plugin", p.Name, "config"})
	}
}

// SecretThere reports a missing secret. subject is the attribute that refers to it.
func (r *Reader) SecretThere(s decode.SecretAt, subject string, path []string) {
	if r.Elsewhere {
		return
	}
	r.exposed(s.Secret, path, s.At)
	text, err := s.Secret.Read(r.Set.Lookup)
	if err == nil {
		r.fingerprint(s.Secret, text)
		return
	}
	d := diag.Diagnostic{Type: "config/secret-missing", Message: subject + ": " + err.Error(), Range: s.At, Path: path}
	if errors.Is(err, expression.ErrNoSecret) {
		if s.Secret.Kind == "env" && len(r.Report.PoisonedLabels(diag.EnvFile)) > 0 {
			return // the reported line may be the one that was to set it
		}
		if s.Secret.Kind == "file" {
			d.Nearest, d.Hint = r.Neighbour(s.Secret.Path)
		} else {
			d.Nearest = diag.Nearest(s.Secret.Name, slices.Sorted(maps.Keys(r.Set.Variables)))
			d.Hint = cmp.Or(diag.DidYouMean(d.Nearest),
				"set the variable in the environment of the host, or in a file .env beside the configuration")
		}
		if !s.Needed {
			d.Severity = diag.SeverityWarning
		}
	}
	r.Report.Add(d)
}

// SecretTexts returns a map from the path of each secret in the configuration, a vector, to its
// text. Missing secrets are omitted; the plugin reports them.
func (p Plugin) SecretTexts() (edn.Value, error) {
	var b edn.MapBuilder
	for _, at := range p.Secrets {
		text, err := at.Secret.Read(p.env)
		if errors.Is(err, expression.ErrNoSecret) {
			continue
		}
		if err != nil {
			return edn.Nil(), fmt.Errorf("configuration of plugin %s: %w", p.Name, err)
		}
		b.Set(edn.Vector(at.Path...), edn.Text(text))
	}
	return b.Map(), nil
}

// exposed warns about a secret from an .env file that other users may read.
func (r *Reader) exposed(s expression.Secret, path []string, at *diag.Range) {
	if s.Kind != "env" {
		return
	}
	if _, ok := r.Options.Env(s.Name); ok {
		return
	}
	if v, ok := r.Set.Variables[s.Name]; ok && v.Open {
		r.Report.Add(diag.Diagnostic{
			Type:     "config/secret-missing",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("secret env:%s comes from a file that other users may read", s.Name),
			Range:    at,
			Path:     path,
			Related:  []diag.Related{{Range: v.At, Message: "sets it"}},
			Hint:     "chmod 600 " + v.At.File,
		})
	}
}
