package httpapi

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Backend is the daemon as its surface sees it.
type Backend interface {
	// Health and Ready answer at any time, also while the daemon comes up.
	Health() Health
	Ready() Ready
	// Phase is starting, ready or draining.
	Phase() string
	// Settings are those of the http block, as of now; nil as long as the
	// configuration is not loaded.
	Settings() *Settings
	// Take gives what an act runs under. The error is why none is taken now:
	// runtime/starting, runtime/draining or runtime/overloaded. Who gets a Turn
	// gives it back with Release.
	Take() (Turn, *contract.Error)
	// Control carries out admin actions; nil while the daemon comes up.
	Control() Control
	// Rejected writes an audit record of an act that was refused before it became
	// a run (RUN-002).
	Rejected(Rejection)
}

// Rejection is an act that was refused before it was accepted. It has nothing of
// the request but the id of its trace, which is nil if no body was read.
type Rejection struct {
	Principal, Address string // Principal is empty if the caller was not identified
	Trace              edn.Value
	Err                *contract.Error
}

// Turn is one act's hold on a generation of the configuration: it stays in
// force for the act whatever is reloaded meanwhile.
type Turn interface {
	Registry() *registry.Registry
	// Do runs the act to its end and gives the response envelope; the error is
	// the one in it. The end of ctx cancels the run.
	Do(ctx context.Context, a act.Act) (edn.Value, *contract.Error)
	// Watch is Do for a caller who follows the run: show gets its events in
	// order, on the goroutine of Watch, from the acceptance to the end. What is
	// not read holds plugins back; an error of show cancels the run.
	Watch(ctx context.Context, a act.Act, show func(journal.Event) error) (edn.Value, *contract.Error)
	// Release ends the hold. It is called once.
	Release()
}

// Settings are what the surface reads from the configuration.
type Settings struct {
	AllowedHosts []string
	// TLS is what connections from now on speak; nil: none of it. The admin
	// socket never does.
	TLS       *tls.Config
	Limits    config.HTTPLimits
	Heartbeat time.Duration // of streams
	// Anonymous lets callers of loopback listeners act without identifying
	// themselves (AUTH-031).
	Anonymous bool
}

// Health tells whether the process works, whatever its plugins do.
type Health struct {
	OK        bool
	Version   string
	Isolation edn.Value
	Quality   edn.Value // capabilities that do not answer as they should, a vector; nil: not known
	Judges    edn.Value // judges that are not believed, a vector; nil: not known
}

// Ready tells whether acts are served, and if not, why.
type Ready struct {
	Phase      string // starting, ready or draining
	Profile    string // empty as long as it is not known
	Boot       string
	Weaker     []edn.Value // what is weaker than profile prod; nil: not known
	Conditions []Condition
}

// Condition is one thing that has to hold.
type Condition struct {
	Name  string
	OK    bool
	Since time.Time
	Why   string // if it does not hold
}

// OK is true if all conditions hold.
func (r Ready) OK() bool { return len(r.Failed()) == 0 }

// Failed is the conditions that do not hold.
func (r Ready) Failed() []Condition {
	var failed []Condition
	for _, c := range r.Conditions {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

// Value is the body of GET /ready: every condition that fails, with since when.
func (r Ready) Value() edn.Value {
	failed := []edn.Value{}
	for _, c := range r.Failed() {
		failed = append(failed, edn.MustMap(
			edn.K("condition"), edn.K(c.Name),
			edn.K("since"), edn.Inst(c.Since.UTC().Truncate(time.Millisecond)),
			edn.K("why"), edn.Text(c.Why)))
	}
	var b edn.MapBuilder
	b.Key("ok?", edn.Bool(len(failed) == 0))
	b.Key("phase", edn.K(r.Phase))
	if r.Profile != "" {
		b.Key("profile", edn.K(r.Profile))
	}
	b.Key("boot", edn.Text(r.Boot))
	b.Key("failed", edn.Vector(failed...))
	if r.Weaker != nil {
		b.Key("weaker-than-prod", edn.Vector(r.Weaker...))
	}
	return b.Map()
}

// anonymous is the name and the type of callers without an identity.
const anonymous = "anonymous"

// Principal is who makes a request.
type Principal struct {
	Name  string // as records have it
	Type  string // anonymous or local
	Admin bool   // may do everything
}

// roles are those of the principal as long as there are no users: the operator
// on the admin socket is role/admin, and whoever comes without an identity,
// which only profiles for development allow, is role/user (AUTH-031).
func (p Principal) roles() []string {
	if p.Admin {
		return []string{policy.RoleAdmin}
	}
	return []string{policy.RoleUser}
}
