package httpapi

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Backend is the daemon as this package uses it. Its methods are safe for concurrent use.
type Backend interface {
	// Health and Ready may be called at any time, even during the start.
	Health() Health
	Ready() Ready
	// Phase returns "starting", "ready" or "draining".
	Phase() string
	// Settings returns the current settings of the http block; nil until the
	// configuration is loaded.
	Settings() *Settings
	// Take returns a hold on the configuration for an act. The error is runtime/starting,
	// runtime/draining, or policy/blocked if the daemon does not accept acts. The caller must call
	// Release on the Turn.
	Take() (Turn, *contract.Error)
	// Control returns the executor of admin actions; nil during the start.
	Control() Control
	// Sessions returns the service of sessions; nil during the start.
	Sessions() *session.Service
	// Identity returns the service that identifies callers; nil during the start.
	Identity() *identity.Service
	// Telemetry returns the counters of the daemon; nil during the start.
	Telemetry() Telemetry
	// Denied, Identified and Permitted write audit records: of a denied request, of a login or
	// logout, and of a request that reached objects of other callers. They return when the record
	// is durable, when it cannot be written, or after a time limit.
	Denied(Denial)
	Identified(Identified)
	Permitted(Permission)
	// Traced counts the outcome of the trace context of a request.
	Traced(outcome string)
	// Rejected logs and counts an act that was rejected before it became a run, and writes an audit
	// record if Kept is set (RUN-002).
	Rejected(Rejection)
}

// Rejection describes an act that was rejected before it was accepted. Intent and Trace are empty
// and nil if the body was not read.
type Rejection struct {
	Principal, Address string // Principal is empty for an unidentified caller
	PrincipalType      string
	Roles              []string
	Intent             string
	Trace              edn.Value
	Err                *contract.Error
	Took               time.Duration
	// Kept is set if the request was within the rate limits. Other rejections are not recorded in
	// the audit trail, because a flood of them would displace its content.
	Kept bool
}

// Turn is a hold of one act on a configuration generation: the act uses this generation even if the
// configuration is reloaded in the meantime.
type Turn interface {
	Registry() *registry.Registry
	// Do runs the act and returns the response envelope; the error is the one in the envelope.
	// Canceling ctx cancels the run.
	Do(ctx context.Context, a act.Act) (edn.Value, *contract.Error)
	// Submit accepts an act whose response is sent before it runs, and returns its job. If an
	// earlier act has the same idempotency key, it returns the job of that act. An error is
	// returned with the response envelope.
	Submit(a act.Act) (edn.Value, *contract.Error)
	// Watch is Do for a caller that follows the run. show is called with the events in order, from
	// acceptance to the end; events that became durable together are passed together. A slow show
	// exerts back pressure on plugins. If show fails or ctx ends, the run is canceled or continues
	// without a reader.
	Watch(ctx context.Context, a act.Act, show func([]journal.Event) error) (edn.Value, *contract.Error)
	// Release ends the hold. It must be called exactly once.
	Release()
}

// Settings holds the settings of this package.
type Settings struct {
	AllowedHosts []string
	// Origins are the web origins whose pages may call the API, but not with a cookie.
	Origins []string
	// TLS applies to new connections; nil disables TLS. The admin socket never
	// uses it.
	TLS       *tls.Config
	Limits    config.HTTPLimits
	Heartbeat time.Duration // interval of heartbeats on idle streams
	// Identity configures the identification of callers, Access their permitted operations. Neither
	// is nil.
	Identity *identity.Settings
	Access   *policy.Access
	// Open reports that listeners may be reached from other machines (AUTH-030).
	Open bool
	// Proxies are the networks whose header X-Forwarded-For is trusted.
	Proxies []netip.Prefix
	// Keys reports that the host stores idempotency keys.
	Keys bool
}

// Health is the state of the process, independent of its plugins.
type Health struct {
	OK        bool
	Version   string
	Isolation edn.Value
	Quality   edn.Value // vector of the capabilities with degraded quality; nil: unknown
	Judges    edn.Value // vector of the judges with reduced weight; nil: unknown
}

// Ready is the readiness for acts, with all conditions.
type Ready struct {
	Phase      string // "starting", "ready" or "draining"
	Profile    string // empty if unknown
	Boot       string
	Weaker     []edn.Value // settings weaker than profile prod; nil: unknown
	Conditions []Condition
}

// Condition is one condition of readiness.
type Condition struct {
	Name  string
	OK    bool
	Since time.Time // since when it fails; not used if OK
	Why   string    // why it fails; not used if OK
}

// OK reports whether all conditions hold.
func (r Ready) OK() bool { return len(r.Failed()) == 0 }

// Failed returns the conditions that do not hold.
func (r Ready) Failed() []Condition {
	var failed []Condition
	for _, c := range r.Conditions {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

// Value returns the body of GET /ready. It has each failed condition with the time since which it
// fails.
func (r Ready) Value() edn.Value {
	failed := []edn.Value{}
	for _, c := range r.Failed() {
		failed = append(failed, edn.MustMap(
			edn.K("condition"), edn.K(c.Name),
			edn.K("since"), journal.Instant(c.Since),
			edn.K("why"), edn.Text(c.Why)))
	}
	var b edn.MapBuilder
	b.Key("ok?", edn.Bool(len(failed) == 0))
	b.Key("phase", edn.K(r.Phase))
	b.OptKeyword("profile", r.Profile)
	b.Key("boot", edn.Text(r.Boot))
	b.Key("failed", edn.Vector(failed...))
	if r.Weaker != nil {
		b.Key("weaker-than-prod", edn.Vector(r.Weaker...))
	}
	return b.Map()
}
