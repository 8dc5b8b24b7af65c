package contract

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// RecoveryClass determines what may happen to a call with an unknown outcome.
// Greater classes are stricter.
type RecoveryClass uint8

// The recovery classes.
const (
	// RecoveryNone: the call changes nothing; any candidate may repeat it.
	RecoveryNone RecoveryClass = iota
	// RecoveryIdempotent: the same capability may repeat the call with the same
	// effect key.
	RecoveryIdempotent
	// RecoveryOnce: the call must not be repeated without a decision by a
	// person.
	RecoveryOnce
)

var recoveryNames = [...]string{"none", "idempotent", "once"}

// String returns the name of the class in data, without a colon.
func (c RecoveryClass) String() string {
	if int(c) < len(recoveryNames) {
		return recoveryNames[c]
	}
	return "invalid"
}

// ParseRecoveryClass reads the name of a recovery class, without a colon. For
// an unknown name it returns RecoveryNone and false.
func ParseRecoveryClass(name string) (RecoveryClass, bool) {
	i := slices.Index(recoveryNames[:], name)
	return RecoveryClass(max(i, 0)), i >= 0
}

// RecoveryRule gives the class of calls whose input has the value Match at
// Path. A nil Match matches an input without a value there.
type RecoveryRule struct {
	Path  []edn.Value
	Match edn.Value
	Class RecoveryClass
}

func (r RecoveryRule) fits(input edn.Value) bool {
	found, _ := input.GetIn(r.Path...)
	return edn.Equal(found, r.Match)
}

// Value returns the rule as [path value class].
func (r RecoveryRule) Value() edn.Value {
	return edn.Vector(edn.Vector(r.Path...), r.Match, edn.K(r.Class.String()))
}

// Recovery returns the recovery class of a call with this filled input: that of
// the first matching rule, otherwise the class that follows from the effects
// and the idempotence flag.
func (c *Capability) Recovery(input edn.Value) RecoveryClass {
	for _, rule := range c.RecoveryRules {
		if rule.fits(input) {
			return rule.Class
		}
	}
	return c.recoveryByEffects()
}

// StrictestRecovery returns the strictest class of any input, for checks before
// the input is known.
func (c *Capability) StrictestRecovery() RecoveryClass {
	strictest := c.recoveryByEffects()
	for _, rule := range c.RecoveryRules {
		strictest = max(strictest, rule.Class)
	}
	return strictest
}

func (c *Capability) recoveryByEffects() RecoveryClass {
	switch {
	case OnlyReads(c.Effects):
		return RecoveryNone
	case c.Idempotent:
		return RecoveryIdempotent
	}
	return RecoveryOnce
}

// OnlyReads reports whether no effect in effects changes anything, so that a call
// with only these effects can be repeated.
func OnlyReads(effects []string) bool {
	return !slices.ContainsFunc(effects, func(e string) bool {
		return e != "none" && e != "fs/read" && e != "db/read"
	})
}
