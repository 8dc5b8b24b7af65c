package wire

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

// HostInfo tells a plugin who calls it.
type HostInfo struct {
	Version string
	// Features are those of this protocol revision that the host understands.
	Features []string
}

// HostFeatures are the features that the Client of this package understands.
func HostFeatures() []string { return []string{FeatureMux} }

// Description is the answer to Describe and Configure.
type Description struct {
	// Value is the description as sent. In a plugin it may be left nil together
	// with findings.
	Value edn.Value
	// Findings are the problems of the configuration, each with its path.
	Findings []schema.Finding
	// Encoding is how the plugin wrote its answer. It is how the plugin wants
	// to be called. Only the host's end sets it.
	Encoding Encoding
}

// Parse reads the description. An ill-typed one is
// :capability/invalid-metadata with every field at fault.
func (d Description) Parse() (contract.Description, error) {
	return contract.ParseDescription(d.Value)
}

// Setup is what Configure hands to a plugin.
type Setup struct {
	// Config is the finished configuration with every secret as nil.
	Config edn.Value
	// Secrets is a map from the path of a secret in Config (a vector) to its
	// text.
	Secrets edn.Value
	// Root is a directory of this instance alone.
	Root string
	Host HostInfo
	// Plugin is the name in the host's configuration, Instance the name in the
	// pool, Generation how often the instance was started.
	Plugin     string
	Instance   string
	Generation uint64
	// LogLevel is trace, debug, info, warn or error.
	LogLevel string
	// MaxInFlight is the most calls that the host will have in flight; 0 for
	// no statement.
	MaxInFlight int
}

// HealthState is what a plugin says about itself.
type HealthState uint8

// The states of a plugin. Only Ready and Degraded may be called.
const (
	HealthUnknown HealthState = iota
	HealthStarting
	HealthReady
	HealthDegraded
	HealthNotReady
	HealthDraining
)

// String gives the keyword of the state without colon.
func (s HealthState) String() string {
	switch s {
	case HealthStarting:
		return "starting"
	case HealthReady:
		return "ready"
	case HealthDegraded:
		return "degraded"
	case HealthNotReady:
		return "not-ready"
	case HealthDraining:
		return "draining"
	}
	return "unknown"
}

// Callable reports whether a plugin in this state takes calls.
func (s HealthState) Callable() bool { return s == HealthReady || s == HealthDegraded }

// Health is one statement of a plugin about itself.
type Health struct {
	State HealthState
	// Reason is one sentence for people, Source whose fault it is; both are
	// empty when all is well.
	Reason string
	Source contract.Source
	// Attributes is a map of anything worth knowing, or nil.
	Attributes edn.Value
	InFlight   int
	// MaxInFlight lowers the limit of calls in flight; 0 for no statement.
	MaxInFlight int
	// Capabilities are those of which there is more to say than of the plugin.
	// The slice is not changed once the statement is made.
	Capabilities []CapabilityHealth
}

func (h Health) proto() (*pluginv1.HealthEvent, error) {
	e := &pluginv1.HealthEvent{
		State:       pluginv1.HealthState(h.State),
		Reason:      h.Reason,
		InFlight:    uint32(max(h.InFlight, 0)),
		MaxInFlight: uint32(max(h.MaxInFlight, 0)),
	}
	if h.Source != 0 {
		e.Source = h.Source.String()
	}
	if !h.Attributes.IsNil() {
		p, _, err := EncodePayload(EDN, h.Attributes)
		if err != nil {
			return nil, err
		}
		e.Attributes = p
	}
	for _, c := range h.Capabilities {
		e.Capabilities = append(e.Capabilities, c.proto())
	}
	return e, nil
}

func healthFrom(hide hider, e *pluginv1.HealthEvent) (Health, error) {
	h := Health{
		State:       knownState(e.GetState()),
		Reason:      hide.text(e.GetReason()),
		InFlight:    int(e.GetInFlight()),
		MaxInFlight: int(e.GetMaxInFlight()),
	}
	if s := e.GetSource(); s != "" {
		h.Source, _ = contract.ParseSource(s)
	}
	if e.GetAttributes() != nil {
		v, err := hide.decode(nil, e.GetAttributes(), nil)
		if err != nil {
			return h, err
		}
		h.Attributes = hide.value(v)
	}
	h.Capabilities = capabilitiesFrom(hide, e.GetCapabilities())
	return h, nil
}

// encodeFindings is nil for no findings.
func encodeFindings(enc Encoding, findings []schema.Finding) (*pluginv1.Payload, error) {
	if len(findings) == 0 {
		return nil, nil
	}
	values := make([]edn.Value, len(findings))
	for i, f := range findings {
		values[i] = f.Value()
	}
	return inline(enc, edn.Vector(values...))
}

func findingsFrom(hide hider, p *pluginv1.Payload, config edn.Value) ([]schema.Finding, error) {
	if p == nil {
		return nil, nil
	}
	v, err := hide.decode(nil, p, nil)
	if err != nil {
		return nil, err
	}
	v = hide.value(v)
	if v.Kind() != edn.KindVector && v.Kind() != edn.KindList {
		return nil, contract.Errorf("runtime/protocol", "findings: want a vector, got %s", shown(v.String()))
	}
	var all []schema.Finding
	for f := range v.Elems() {
		message, ok := f.Key("message").AsString()
		if !ok {
			return nil, contract.Errorf("runtime/protocol", "findings: want maps with a :message, got %s", shown(f.String()))
		}
		finding := schema.Finding{Expected: f.Key("expected"), Got: f.Key("got"), Message: message}
		for step := range f.Key("path").Elems() {
			finding.Path = append(finding.Path, step)
		}
		if Encoding(p.GetEncoding()) == JSON {
			finding.Path = pathIn(config, finding.Path)
		}
		all = append(all, finding)
	}
	return all, nil
}

// inline encodes a value of the lifecycle, whose messages have no room for
// blobs.
func inline(enc Encoding, v edn.Value) (*pluginv1.Payload, error) {
	body, err := write(enc, v)
	if err != nil {
		return nil, err
	}
	return &pluginv1.Payload{Encoding: string(enc), Body: body}, nil
}

// optional is inline, nil for nil.
func optional(enc Encoding, v edn.Value) (*pluginv1.Payload, error) {
	if v.IsNil() {
		return nil, nil
	}
	return inline(enc, v)
}
