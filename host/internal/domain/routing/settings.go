package routing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// DecideIntent is the intent of routers. It is never routed itself.
const DecideIntent = "route/decide"

// The consequences for an act without a usable decision.
const (
	FailOpen   = "fail-open"   // it continues as if no router had been called
	FailClosed = "fail-closed" // it fails
)

// The shipped profiles.
const (
	ProfileDefault    = "default"
	ProfileLowLatency = "low-latency"
	ProfileStrict     = "strict-meta"
)

// DefaultShare is the part of the tokens and of the time of an act that a router
// may use.
const DefaultShare = 0.2

// Settings are the settings of the router block. The zero value calls a router only if a
// request demands it.
type Settings struct {
	Router Profile
	// Profiles override the shipped profiles and Router.
	Profiles map[string]Profile
	// Default is the profile of requests that name none; empty: ProfileDefault.
	Default string
	// MetaIntents are the routed intents; nil: text/respond.
	MetaIntents []string
	Share       float64 // 0: DefaultShare
}

// Profile is a set of router settings. A nil or empty field is unset.
type Profile struct {
	Meta       *bool // a router is called
	Strict     *bool // a failure of the router fails the act, unless OnError is set
	Force      *bool // see Choice.Force
	OnError    string
	Intent     string // of the router
	Capability string // the first candidate of the router
}

// over returns the settings of p, with unset fields taken from weak.
func (p Profile) over(weak Profile) Profile {
	return Profile{
		Meta:       cmp.Or(p.Meta, weak.Meta),
		Strict:     cmp.Or(p.Strict, weak.Strict),
		Force:      cmp.Or(p.Force, weak.Force),
		OnError:    cmp.Or(p.OnError, weak.OnError),
		Intent:     cmp.Or(p.Intent, weak.Intent),
		Capability: cmp.Or(p.Capability, weak.Capability),
	}
}

func is(b *bool) bool { return b != nil && *b }

// Names returns the names of all profiles, sorted.
func (s *Settings) Names() []string {
	names := []string{ProfileDefault, ProfileLowLatency, ProfileStrict}
	names = slices.AppendSeq(names, maps.Keys(s.Profiles))
	slices.Sort(names)
	return slices.Compact(names)
}

// Usual returns the name of the profile for requests that name none.
func (s *Settings) Usual() string { return cmp.Or(s.Default, ProfileDefault) }

// profile returns the settings under a profile: the router block, overridden by the shipped
// profile of that name, overridden by the profile block (RTE-007). The shipped profile
// default sets nothing.
func (s *Settings) profile(name string) Profile {
	yes, no := true, false
	p := s.Router
	switch name {
	case ProfileLowLatency:
		p = Profile{Meta: &no}.over(p)
	case ProfileStrict:
		p = Profile{Meta: &yes, Strict: &yes, Force: &yes, OnError: FailClosed}.over(p)
	}
	return s.Profiles[name].over(p)
}

// Intents returns the intents of all routers, sorted.
func (s *Settings) Intents() []string {
	all := []string{DecideIntent}
	for _, name := range s.Names() {
		if p := s.profile(name); p.Intent != "" {
			all = append(all, p.Intent)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Routes reports whether acts of an intent may be routed, which MetaIntents decides.
func (s *Settings) Routes(intent string) bool {
	if s.MetaIntents == nil {
		return intent == "text/respond"
	}
	return slices.Contains(s.MetaIntents, intent)
}

// Choice is the decision how one act is routed.
type Choice struct {
	Profile string
	Ask     bool // a router is called
	Closed  bool // without a usable decision the act fails
	// Force permits a decision to replace gates by weaker ones. Only the
	// configuration sets it.
	Force bool
	// Unpin permits a decision to replace the capability that the request pins.
	Unpin      bool
	Intent     string // of the router
	Capability string // the first candidate of the router; empty: that of its intent
	Share      float64
}

// Choose returns how an act of an intent is routed, given the :routing of its request. The
// request overrides the profile, which overrides the router block (RTE-004, RTE-007). The
// error is invalid-request for an unknown profile, and for a router intent that the
// configuration does not have.
func (s *Settings) Choose(intent string, asked edn.Value) (Choice, *contract.Error) {
	c := Choice{Profile: s.Usual(), Share: s.share()}
	if name, ok := asked.Key("profile").AsKeyword(); ok {
		if names := s.Names(); !slices.Contains(names, name) {
			return c, unknown("profile", name, names)
		}
		c.Profile = name
	}
	p := s.profile(c.Profile)
	c.Intent, c.Capability = p.Intent, p.Capability
	if c.Intent == "" {
		c.Intent = DecideIntent
	}
	if name, ok := asked.Key("intent").AsKeyword(); ok {
		if names := s.Intents(); !slices.Contains(names, name) {
			return c, unknown("intent", name, names)
		}
		c.Intent = name
	}
	if id, ok := asked.Key("cap/id").AsKeyword(); ok {
		c.Capability = id
	}
	c.Ask = is(p.Meta)
	if meta, ok := asked.Key("meta?").AsBool(); ok {
		c.Ask = meta
	}
	c.Ask = c.Ask && s.Routes(intent) && !slices.Contains(s.Intents(), intent)
	// The force of a shipped profile counts for gates only where the operator has
	// chosen the profile: a caller cannot turn it on.
	own := s.Profiles[c.Profile].over(s.Router)
	c.Force, c.Unpin = is(p.Force) && (is(own.Force) || c.Profile == s.Usual()), is(p.Force)
	if force, ok := asked.Key("force?").AsBool(); ok {
		c.Force, c.Unpin = c.Force && force, force
	}
	c.Closed = closed(&p, asked)
	return c, nil
}

// closed reports whether an act without a usable decision fails. It applies the order of
// RTE-007: :on-error of the request, its :strict?, OnError of the configuration, its
// Strict; the default is fail-open.
func closed(p *Profile, asked edn.Value) bool {
	if mode, ok := asked.Key("on-error").AsKeyword(); ok {
		return mode == FailClosed
	}
	if strict, ok := asked.Key("strict?").AsBool(); ok {
		return strict
	}
	if p.OnError != "" {
		return p.OnError == FailClosed
	}
	return is(p.Strict)
}

func unknown(key, name string, known []string) *contract.Error {
	return contract.Errorf("invalid-request", "the :routing of the request has the %s :%s, which no router of the configuration has", key, name).
		WithDetail("reason", edn.K("routing/unknown-"+key)).
		WithDetail("path", edn.Vector(edn.K("routing"), edn.K(key))).
		WithDetail("expected", edn.Keywords(known...)).
		DidYouMean(nearest(name, known))
}

func nearest(name string, known []string) string {
	if near := contract.Nearest(name, known); near != "" {
		return ":" + near
	}
	return ""
}

// The sources of the setting that decides whether a router is called, strongest first.
const (
	RuleProfile = "profile" // a profile block
	RuleShipped = "shipped profile"
	RuleRouter  = "router" // the router block
	RuleBuiltin = "built-in"
)

// Explained is the choice for acts of an intent under a profile. Rule is the source of the
// setting that decides whether a router is called.
type Explained struct {
	Choice
	Rule string
}

// Explain returns how acts of an intent are routed under each profile, sorted by profile;
// nil if they are never routed.
func (s *Settings) Explain(intent string) []Explained {
	if !s.Routes(intent) || slices.Contains(s.Intents(), intent) {
		return nil
	}
	var all []Explained
	for _, name := range s.Names() {
		c, _ := s.Choose(intent, edn.MustMap(edn.K("profile"), edn.K(name))) // the profile exists
		rule := RuleBuiltin
		switch {
		case s.Profiles[name].Meta != nil:
			rule = RuleProfile
		case name == ProfileLowLatency || name == ProfileStrict:
			rule = RuleShipped
		case s.Router.Meta != nil:
			rule = RuleRouter
		}
		all = append(all, Explained{c, rule})
	}
	return all
}

// OnError returns FailClosed or FailOpen, the consequence if there is no usable decision.
func (c *Choice) OnError() string {
	if c.Closed {
		return FailClosed
	}
	return FailOpen
}

// Value returns the settings of all profiles as a map with the keys :meta-intents,
// :meta-share, :profile and :profiles.
func (s *Settings) Value() edn.Value {
	intents := s.MetaIntents
	if intents == nil {
		intents = []string{"text/respond"}
	}
	var profiles edn.MapBuilder
	for _, name := range s.Names() {
		p := s.profile(name)
		var b edn.MapBuilder
		for key, on := range map[string]*bool{"meta?": p.Meta, "strict?": p.Strict, "force?": p.Force} {
			if on != nil {
				b.Key(key, edn.Bool(*on))
			}
		}
		b.OptKeyword("on-error", p.OnError)
		b.OptKeyword("intent", p.Intent)
		b.OptKeyword("cap/id", p.Capability)
		profiles.Key(name, b.Map())
	}
	return edn.MustMap(
		edn.K("meta-intents"), edn.Keywords(intents...),
		edn.K("meta-share"), edn.MustFloat(s.share()),
		edn.K("profile"), edn.K(s.Usual()),
		edn.K("profiles"), profiles.Map(),
	)
}

func (s *Settings) share() float64 {
	if s.Share == 0 {
		return DefaultShare
	}
	return s.Share
}
