package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Telemetry holds the settings of log, metrics and traces.
type Telemetry struct {
	Level     string            // one of language.LogLevels
	Levels    map[string]string // level by module
	Content   string            // "off", "hash" or "full"
	MaxSeries int
	OTel      *OTel // nil: nothing is exported
}

// OTel holds the settings of the export to an OpenTelemetry collector.
type OTel struct {
	Endpoint string
	Protocol string // one of language.OTLPProtocols
	Sample   float64
	Headers  map[string]expression.Secret
	Queue    int
}

func (l *loader) telemetry() {
	s := l.Root.Block("telemetry")
	l.config.Telemetry = Telemetry{
		Level:     s.Text("level"),
		Levels:    s.Mapping("levels"),
		Content:   s.Text("content"),
		MaxSeries: s.Integer("max_series"),
		OTel:      l.otel(s.Block("otel")),
	}
}

func (l *loader) otel(s *decode.Section) *OTel {
	if !s.Flag("enabled") {
		return nil
	}
	o := &OTel{
		Endpoint: s.Text("endpoint"),
		Protocol: s.Text("protocol"),
		Sample:   s.Number("sample"),
		Headers:  map[string]expression.Secret{},
		Queue:    s.Integer("queue"),
	}
	headers := s.Attrs["headers"]
	for i, name := range headers.Keys {
		if secret := headers.Items[i].Secret; secret != nil {
			o.Headers[name] = *secret
		}
		if !headerName.MatchString(name) {
			l.report.Add(diag.Diagnostic{
				Type:     "config/type",
				Message:  "telemetry.otel.headers has a name that no header can have",
				Range:    headers.Items[i].At,
				Path:     append(s.PathOf("headers"), name),
				Expected: edn.Text("the name of a header, such as authorization"),
				Found:    edn.Text(diag.Short(name)),
				Hint:     "write it without blanks and colons",
			})
		}
	}
	at := s.Attrs["endpoint"].At
	if at == nil {
		at = s.At()
	}
	if !isCollector(o.Endpoint) {
		l.report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  "telemetry.otel.endpoint is not the URL of a collector",
			Range:    at,
			Path:     s.PathOf("endpoint"),
			Expected: edn.Text("a URL with http or https, a host and perhaps a path"),
			Found:    edn.Text(diag.Short(o.Endpoint)),
			Hint:     "write its URL without user and query, such as http://127.0.0.1:4317; a token goes into headers",
		})
	}
	return o
}

// headerName matches the name of a header (RFC 9110, section 5.6.2).
var headerName = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+$`)

// isCollector reports whether text is a valid URL of a collector.
func isCollector(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == ""
}

// otelSecrets reports headers of the export whose secrets do not exist.
func (l *loader) otelSecrets(r *plugins.Reader) {
	if l.config.Telemetry.OTel == nil {
		return
	}
	s := l.Root.Block("telemetry").Block("otel")
	headers := s.Attrs["headers"]
	for i, name := range headers.Keys {
		if v := headers.Items[i]; v.Secret != nil {
			r.SecretThere(decode.SecretAt{Secret: *v.Secret, At: v.At, Needed: true}, "telemetry.otel.headers."+name,
				append(s.PathOf("headers"), name))
		}
	}
}

// OTelHeaders reads the headers of the export, which may be secrets. Telemetry.OTel must not be
// nil. The error means that a secret cannot be read.
func (c *Config) OTelHeaders() (map[string]string, error) {
	out := map[string]string{}
	for name, secret := range c.Telemetry.OTel.Headers {
		text, err := secret.Read(c.lookup)
		if err != nil {
			return nil, fmt.Errorf("telemetry.otel.headers.%s: %w", name, err)
		}
		if strings.ContainsAny(text, "\r\n\x00") {
			return nil, fmt.Errorf("telemetry.otel.headers.%s: the secret has a line break, which no header can have", name)
		}
		out[name] = text
	}
	return out, nil
}
