package wire

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
)

// HostInfo describes the host to a plugin.
type HostInfo struct {
	Version string
	// Features are the features of this protocol revision that the host
	// supports.
	Features []string
}

// HostFeatures returns the features that the Client of this package supports.
func HostFeatures() []string { return []string{FeatureMux} }

// Description is the answer to Describe and Configure.
type Description struct {
	// Value is the description as sent. A plugin may leave it nil if there are
	// findings.
	Value edn.Value
	// Findings are the problems of the configuration, each with its path.
	Findings []schema.Finding
	// Encoding is the encoding of the plugin's answer, which is also the
	// encoding for calls to it. Only the host's end sets it.
	Encoding Encoding
}

// Parse reads the description. An ill-typed one returns
// :capability/invalid-metadata with every invalid field.
func (d Description) Parse() (contract.Description, error) {
	return contract.ParseDescription(d.Value)
}

// Setup is the content of Configure.
type Setup struct {
	// Config is the complete configuration with every secret nil.
	Config edn.Value
	// Secrets is a map from the path of a secret in Config (a vector) to its
	// text.
	Secrets edn.Value
	// Root is the private directory of this instance.
	Root string
	Host HostInfo
	// Plugin is the name in the host's configuration, Instance the name in the
	// pool, Generation the number of starts of the instance.
	Plugin     string
	Instance   string
	Generation uint64
	// LogLevel is trace, debug, info, warn or error.
	LogLevel string
	// MaxInFlight is the largest number of calls that the host will have in
	// flight; 0 if not stated.
	MaxInFlight int
}

// HealthState is the state of a plugin or capability.
type HealthState uint8

// The states of a plugin. Only ready and degraded plugins are called.
const (
	HealthUnknown HealthState = iota
	HealthStarting
	HealthReady
	HealthDegraded
	HealthNotReady
	HealthDraining
)

// String returns the keyword of the state without colon.
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

// Callable reports whether a plugin in this state accepts calls.
func (s HealthState) Callable() bool { return s == HealthReady || s == HealthDegraded }

// Health is one health event of a plugin.
type Health struct {
	State HealthState
	// Reason is one sentence for people, Source the party that caused the
	// problem; both are empty if the plugin is ready.
	Reason string
	Source contract.Source
	// Attributes is a map of further data, or nil.
	Attributes edn.Value
	InFlight   int
	// MaxInFlight lowers the limit of calls in flight; 0 if not stated.
	MaxInFlight int
	// Capabilities are those whose health differs from that of the plugin or
	// has more detail. The slice must not be modified afterwards.
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

// encodeFindings returns nil for no findings.
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
		return nil, contract.Errorf("runtime/protocol", "findings: expected a vector, got %s", shown(v.String()))
	}
	var all []schema.Finding
	for f := range v.Elems() {
		message, ok := f.Key("message").AsString()
		if !ok {
			return nil, contract.Errorf("runtime/protocol", "findings: expected maps with a :message, got %s",
				shown(f.String()))
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

// inline encodes a value of the lifecycle, whose messages have no field for
// blobs.
func inline(enc Encoding, v edn.Value) (*pluginv1.Payload, error) {
	body, err := write(enc, v)
	if err != nil {
		return nil, err
	}
	return &pluginv1.Payload{Encoding: string(enc), Body: body}, nil
}

// optional is inline, but returns nil for nil.
func optional(enc Encoding, v edn.Value) (*pluginv1.Payload, error) {
	if v.IsNil() {
		return nil, nil
	}
	return inline(enc, v)
}
