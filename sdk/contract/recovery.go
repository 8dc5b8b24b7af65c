package contract

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// RecoveryClass says what may happen to a call after which nobody knows whether
// it was done. The classes are ordered from free to strict.
type RecoveryClass uint8

// The recovery classes.
const (
	// RecoveryNone is for calls that change nothing: they may be repeated, by
	// any candidate.
	RecoveryNone RecoveryClass = iota
	// RecoveryIdempotent is for calls that the same capability may be asked
	// again with the same effect key.
	RecoveryIdempotent
	// RecoveryOnce is for calls that must not be repeated without a decision.
	RecoveryOnce
)

var recoveryNames = [...]string{"none", "idempotent", "once"}

// String returns the name of the class as it stands in data, without a colon.
func (c RecoveryClass) String() string {
	if int(c) < len(recoveryNames) {
		return recoveryNames[c]
	}
	return "invalid"
}

// ParseRecoveryClass reads the name of a recovery class, without a colon.
func ParseRecoveryClass(name string) (RecoveryClass, bool) {
	i := slices.Index(recoveryNames[:], name)
	return RecoveryClass(max(i, 0)), i >= 0
}

// RecoveryRule gives the class of the calls whose input has Match at the
// path. The value nil stands for an input that has nothing there.
type RecoveryRule struct {
	Path  []edn.Value
	Match edn.Value
	Class RecoveryClass
}

func (r RecoveryRule) fits(input edn.Value) bool {
	found, _ := input.GetIn(r.Path...)
	return edn.Equal(found, r.Match)
}

// Value returns the rule as data: [path value class].
func (r RecoveryRule) Value() edn.Value {
	return edn.Vector(edn.Vector(r.Path...), r.Match, edn.K(r.Class.String()))
}

// Recovery returns the recovery class of a call with this filled input: that of
// the first rule that fits, else what the effects and the promise of
// idempotence say.
func (c *Capability) Recovery(input edn.Value) RecoveryClass {
	for _, rule := range c.RecoveryRules {
		if rule.fits(input) {
			return rule.Class
		}
	}
	return c.recoveryByEffects()
}

// StrictestRecovery returns the strictest class that any input could have. It
// is for checks that run before the input is known.
func (c *Capability) StrictestRecovery() RecoveryClass {
	strictest := c.recoveryByEffects()
	for _, rule := range c.RecoveryRules {
		strictest = max(strictest, rule.Class)
	}
	return strictest
}

func (c *Capability) recoveryByEffects() RecoveryClass {
	harmless := !slices.ContainsFunc(c.Effects, func(e string) bool {
		return e != "none" && e != "fs/read" && e != "db/read"
	})
	switch {
	case harmless:
		return RecoveryNone
	case c.Idempotent:
		return RecoveryIdempotent
	}
	return RecoveryOnce
}
