package settings

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

const maxStop = 16

// readable is the problem of a key that would be sent unencrypted.
const readable = "uses http to another machine, which would send the key unencrypted: " +
	"use https, or set allow_plaintext = true"

// Check returns an error that joins every mistake which the schema of the
// settings does not find. It accesses no keys, servers or network.
func (s Settings) Check() error {
	var all []error
	add := func(message string, path ...edn.Value) { all = append(all, sdk.Problem(message, path...)) }

	if s.Preset != "" && !slices.Contains(presetsOf(s.Provider), s.Preset) {
		names := strings.Join(presetsOf(s.Provider), ", ")
		add(fmt.Sprintf("provider %s has no preset %s: expected one of %s", s.Provider, s.Preset, names),
			edn.K("preset"))
	}
	if s.base() == "" {
		add("is missing: preset "+s.PresetOf().Name+" has no default address", edn.K("base-url"))
	}
	if s.APIVersion != "" && s.PresetOf().Version == "" {
		add("has no effect: requests of preset "+s.PresetOf().Name+" do not contain a version", edn.K("api-version"))
	}
	if u, err := parseURL(s.base()); err != nil && s.base() != "" {
		add(err.Error(), edn.K("base-url"))
	} else if err == nil && s.PresetOf().Keyed && s.bare(u) {
		add(readable, edn.K("base-url"))
	}
	if s.Proxy != "" {
		if _, err := parseURL(s.Proxy); err != nil {
			add(err.Error(), edn.K("proxy"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if message := headerProblem(name, s.Headers[name]); message != "" {
			add(message, edn.K("headers"), edn.Text(name))
		}
	}
	if len(s.Models) == 0 {
		add("expected at least one model block", edn.K("model"))
	}
	return errors.Join(append(all, s.CheckModels("model")...)...)
}

// CheckModels returns the mistakes in the models; block is the name of their
// blocks in the configuration.
func (s Settings) CheckModels(block string) []error {
	var all []error
	for _, label := range slices.Sorted(maps.Keys(s.Models)) {
		all = append(all, s.Models[label].check(s, label, block)...)
	}
	return all
}

// CheckSecrets returns the mistakes that can be found only with the key and the
// files of the settings.
func (s Settings) CheckSecrets() error {
	var unread error
	if s.CAFile != "" {
		if _, err := roots(s.CAFile); err != nil {
			unread = sdk.Problem(err.Error(), edn.K("ca-file"))
		}
	}
	return errors.Join(s.checkKey(), unread)
}

func (s Settings) checkKey() error {
	u, err := parseURL(s.base())
	if err == nil && s.APIKey != "" && s.bare(u) {
		return sdk.Problem(readable, edn.K("base-url"))
	}
	if strings.ContainsFunc(s.APIKey, func(r rune) bool { return r <= ' ' || r == 0x7f || r > 0xff }) {
		return sdk.Problem("contains a blank, a line break or another character that is not allowed in a header",
			edn.K("api-key"))
	}
	return nil
}

// presetsOf returns the presets that a provider may have: those with its
// dialect.
func presetsOf(provider string) []string {
	own, ok := dialect.PresetNamed(provider)
	if !ok {
		own, _ = dialect.PresetNamed("generic")
	}
	var names []string
	for _, p := range dialect.Presets() {
		if own.Dialect.Speaks(p.Dialect) {
			names = append(names, p.Name)
		}
	}
	return names
}

func (s Settings) base() string {
	if s.BaseURL != "" {
		return s.BaseURL
	}
	if p, ok := dialect.PresetNamed(s.Provider); ok {
		return p.Base
	}
	return s.PresetOf().Base
}

// bare reports whether a key would be sent unencrypted.
func (s Settings) bare(u *url.URL) bool {
	return u.Scheme == "http" && !loopback(u.Hostname()) && !s.AllowPlaintext
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// parseURL parses an absolute address. The scheme is never guessed: https would
// break local servers, http would expose keys.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("should begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("contains a user name or a password: put the key into api_key")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("has a query or a fragment: remove everything after the path")
	}
	if _, err := port(u); err != nil {
		return nil, err
	}
	return u, nil
}

func port(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return 0, errors.New("has a port outside 1..65535")
		}
		return uint16(n), nil
	case u.Scheme == "http":
		return 80, nil
	}
	return 443, nil
}

func headerProblem(name, value string) string {
	switch {
	case name == "" || strings.ContainsAny(name, "()<>@,;:\\\"/[]?={}") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "is not a header name"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "has a value with a control character"
	}
	switch strings.ToLower(name) {
	case "authorization", "x-api-key", "api-key", "cookie", "proxy-authorization":
		return "is a header for keys, and this value is not a secret: use api_key"
	case "host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "te", "trailer", "upgrade":
		return "is set by the request itself"
	}
	return ""
}

func (m Model) check(s Settings, label, block string) []error {
	var all []error
	at := []edn.Value{edn.K(block), edn.Text(label)}
	add := func(message string, path ...string) {
		where := slices.Clone(at)
		for _, name := range path {
			where = append(where, edn.K(name))
		}
		all = append(all, sdk.Problem(message, where...))
	}
	k, err := edn.Keyword(s.Provider + "/" + label)
	if err != nil || strings.Contains(label, "/") || k.Namespace() == "" {
		add("is not a label: use letters, digits and -")
	}
	if m.Name == "" {
		add("is missing: name the model here, or all models of the account by model_name", "name")
	}
	for _, intent := range m.Intents {
		if k, err := edn.Keyword(intent); err != nil || k.Namespace() == "" {
			add(fmt.Sprintf("%q is not an intent such as text/respond", intent), "intents")
		}
	}
	switch p := s.PresetOf(); {
	case m.Count == CountEndpoint && p.CountPath == "":
		names := strings.Join(counters(), ", ")
		add(fmt.Sprintf("preset %s has no endpoint that counts tokens: leave count out, or use %s", p.Name, names), "count")
	case m.Count == CountLocal && p.Counts && p.CountField == "": // this endpoint counts whole requests only
		add("the tables are those of OpenAI's models: leave count out, and the provider counts", "count")
	}
	if m.Options.TopP != nil && *m.Options.TopP == 0 {
		add("should be above 0", "options", "top-p")
	}
	if len(m.Options.Stop) > maxStop {
		add(fmt.Sprintf("has %d entries, at most %d are allowed", len(m.Options.Stop), maxStop), "options", "stop")
	}
	if slices.Contains(m.Options.Stop, "") {
		add("has an empty entry", "options", "stop")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options.Extra)) {
		if slices.Contains(dialect.OwnFields(s.PresetOf(), m.Options.ReasoningEffort), name) {
			where := append(slices.Clone(at), edn.K("options"), edn.K("extra"), edn.Text(name))
			all = append(all, sdk.Problem("replaces a field that the plugin sets itself: remove it", where...))
		}
	}
	return append(all, m.Price.check(at)...)
}

// counters returns the presets with a counting endpoint.
func counters() []string {
	var names []string
	for _, p := range dialect.Presets() {
		if p.CountPath != "" {
			names = append(names, "preset "+p.Name)
		}
	}
	return names
}

func (p Price) check(at []edn.Value) []error {
	var all []error
	amounts := []struct {
		name string
		v    edn.Value
	}{{"input", p.Input}, {"cached-input", p.CachedInput}, {"cache-write", p.CacheWrite}, {"output", p.Output}}
	written := 0
	for _, a := range amounts {
		if a.v.IsNil() {
			continue
		}
		written++
		where := append(slices.Clone(at), edn.K("price"), edn.K(a.name))
		if r, ok := amount(a.v).AsNumber(); !ok || r.Sign() < 0 {
			all = append(all, sdk.Problem("should be an amount of money such as \"0.15\"", where...))
		}
	}
	where := append(slices.Clone(at), edn.K("price"))
	switch {
	case p.Free && (written > 0 || p.Listed != ""):
		all = append(all, sdk.Problem("has free = true and also amounts: keep one of the two", where...))
	case written > 0 && (p.Input.IsNil() || p.Output.IsNil()):
		all = append(all, sdk.Problem("should have both input and output: with one of them no cost is known", where...))
	}
	return all
}

// amount parses an amount written as a number or as a text. Floats are
// rejected: their digits may differ from those typed.
func amount(v edn.Value) edn.Value {
	if s, ok := v.AsString(); ok {
		d, err := edn.ParseDecimal(s)
		if err != nil {
			return edn.Nil()
		}
		return d
	}
	if v.IsFloat() {
		return edn.Nil()
	}
	return v
}
