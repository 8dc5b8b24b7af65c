package settings

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/counting"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// agent is the User-Agent of requests.
const agent = "ferment"

// Tables returns the token table of a model.
type Tables func(model string) pricing.Table

// Build returns the provider and its models, by label. s must have passed
// Check. If tables is nil, tokens are not counted by tables. The error names
// the setting that causes it.
func (s Settings) Build(clock transport.Clock, tables Tables) (*answer.Provider, map[string]*answer.Model, error) {
	base, err := parseURL(s.base())
	if err != nil {
		return nil, nil, sdk.Problem(err.Error(), edn.K("base-url"))
	}
	set := transport.Settings{
		Base: base, Header: s.header(), Timeouts: s.Timeouts.timeouts(), Conns: s.MaxInFlight, Clock: clock,
	}
	if s.Proxy != "" {
		if set.Proxy, err = parseURL(s.Proxy); err != nil {
			return nil, nil, sdk.Problem(err.Error(), edn.K("proxy"))
		}
	}
	if s.CAFile != "" {
		if set.Roots, err = roots(s.CAFile); err != nil {
			return nil, nil, sdk.Problem(err.Error(), edn.K("ca-file"))
		}
	}
	p := &answer.Provider{
		Name: s.Provider, Client: transport.NewClient(set), Gate: transport.NewGate(s.MaxInFlight, s.Queue),
		Report: &failure.Reporter{
			Provider: s.Provider, Scrub: failure.NewScrubber(s.APIKey), RefusalStops: s.OnRefusal == "stop",
		},
		Tolerant: s.Tolerant,
	}
	if s.APIKey == "" && s.PresetOf().Keyed {
		p.Missing = "no key is configured: api_key is not set, or its secret is missing or empty"
	}
	models := map[string]*answer.Model{}
	for label, m := range s.Models {
		models[label] = m.model(s.PresetOf().At(m.Name, s.APIVersion), tables)
	}
	return p, models, nil
}

func (m Model) model(p dialect.Preset, tables Tables) *answer.Model {
	structured := m.Structured
	if structured == "" {
		structured = "auto"
	}
	return &answer.Model{
		Name: m.Name, Preset: p.With(m.Quirks), Options: m.Options.options(), StrictOptions: m.StrictOptions,
		Structured: structured, Context: m.Context, Price: m.Price.Amounts(), Counting: m.counting(p, tables),
		Traits: dialect.TraitsOf(m.Name), Headroom: m.headroom(), Asked: m.asked(), Learned: &answer.Learned{},
	}
}

// headroom returns the tokens that requests leave for reasoning: as configured,
// else those of a known reasoning model.
func (m Model) headroom() int64 {
	switch {
	case m.Options.Headroom != nil:
		return *m.Options.Headroom
	case m.Options.ReasoningEffort == "none":
		return 0
	}
	return dialect.TraitsOf(m.Name).Headroom
}

// asked returns the tokens that a request leaves for reasoning if it asks for it: as configured, else as
// many as for a known reasoning model.
func (m Model) asked() int64 {
	if m.Options.Headroom != nil {
		return *m.Options.Headroom
	}
	return dialect.Headroom
}

// reserves returns the tokens that the host reserves for reasoning.
func (m Model) reserves() int64 {
	if effort := m.Options.ReasoningEffort; effort != "" && effort != "none" {
		return max(m.headroom(), m.asked())
	}
	return m.headroom()
}

// counting returns the configured counting method, else the best that the
// preset supports, each with the remaining ones as fallbacks.
func (m Model) counting(p dialect.Preset, tables Tables) *counting.Counting {
	how := cmp.Or(m.Count, CountAuto)
	k := &counting.Counting{Endpoint: how == CountEndpoint || how == CountAuto && p.Counts}
	if tables != nil && (how == CountLocal || how != CountEstimate && p.Tables) {
		k.Table = tables(m.Name)
	}
	return k
}

// Amounts returns the prices of a model, nil if unknown.
func (p Price) Amounts() pricing.Price {
	if p.Free {
		return pricing.Free()
	}
	return pricing.Price{
		Input: amount(p.Input), CachedInput: amount(p.CachedInput),
		CacheWrite: amount(p.CacheWrite), Output: amount(p.Output),
		UpTo: p.UpTo, Listed: p.Listed, Source: p.Source, Date: p.Date,
	}
}

func (t Timeouts) timeouts() transport.Timeouts {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return transport.Timeouts{
		Connect: ms(t.Connect), First: ms(t.First), Silence: ms(t.Silence), Stall: ms(t.Stall), Total: ms(t.Total),
	}
}

func (s Settings) header() http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", agent)
	h.Set("Accept-Encoding", "identity") // without the header a server may choose any coding
	p := s.PresetOf()
	h.Set("Accept", p.Dialect.Accept())
	for name, value := range s.Headers {
		h.Set(name, value)
	}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
	if s.APIKey != "" {
		h.Set(p.Auth, p.Scheme+s.APIKey)
	}
	return h
}

// Network returns the network permission that a connection to the server or proxy needs,
// "net/loopback" or "net/connect", and the port. ok is false if the URL is invalid.
func (s Settings) Network() (need string, at uint16, ok bool) {
	target := s.base()
	if s.Proxy != "" {
		target = s.Proxy
	}
	u, err := parseURL(target)
	if err != nil {
		return "", 0, false
	}
	at, err = port(u)
	return networkOf(u), at, err == nil
}

func networkOf(u *url.URL) string {
	if loopback(u.Hostname()) {
		return "net/loopback"
	}
	return "net/connect"
}

func roots(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("contains no certificate in PEM form")
	}
	return pool, nil
}
