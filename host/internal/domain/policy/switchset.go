package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SwitchSet selects the failures after which the evaluator continues with
// another candidate. An empty set fails fast. A SwitchSet is immutable.
type SwitchSet struct {
	classes uint8           // bits of Class
	names   map[string]bool // types
	spaces  map[string]bool // namespaces, from ns/*
}

// switchable are the classes that a set can contain.
var switchable = [...]contract.Class{contract.ClassRetry, contract.ClassSwitch, contract.ClassRepair}

// ParseSwitchSet reads the members of a set, each with or without a leading
// colon: a type, an alias, "ns/*", "class/retry", "class/switch" or
// "class/repair". The error lists every invalid member; types in namespaces of
// plugins cannot be checked and are accepted.
func ParseSwitchSet(members []string) (SwitchSet, error) {
	s := SwitchSet{}
	var wrong []error
	for _, member := range members {
		if err := s.add(strings.TrimPrefix(member, ":")); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return SwitchSet{}, fmt.Errorf("switch-on: %w", errors.Join(wrong...))
	}
	return s, nil
}

func (s *SwitchSet) add(member string) error {
	if ns, ok := strings.CutSuffix(member, "/*"); ok {
		if _, err := edn.Keyword(ns); err != nil || ns == "" || strings.Contains(ns, "/") {
			return fmt.Errorf(":%s is not a namespace", member)
		}
		if s.spaces == nil {
			s.spaces = make(map[string]bool)
		}
		s.spaces[ns] = true
		return nil
	}
	if name, ok := strings.CutPrefix(member, "class/"); ok {
		class, known := contract.ParseClass(name)
		if !known || !slices.Contains(switchable[:], class) {
			return fmt.Errorf(":%s is not a class of a switch-on set: use :class/retry, :class/switch or :class/repair", member)
		}
		s.classes |= 1 << class
		return nil
	}
	typ := contract.ResolveAlias(member)
	if _, known := contract.Lookup(typ); !known {
		if _, err := edn.Keyword(typ); err != nil {
			return fmt.Errorf("%q is not the name of an error type", member)
		}
		if contract.Reserved(contract.Namespace(typ)) {
			message := fmt.Sprintf("there is no error type :%s", typ)
			if nearest := contract.NearestType(typ); nearest != "" {
				message += "; nearest is :" + nearest
			}
			return errors.New(message)
		}
	}
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	s.names[typ] = true
	return nil
}

// FullSwitchSet returns the default set: all failures of class retry, switch
// and repair.
func FullSwitchSet() SwitchSet {
	s := SwitchSet{}
	for _, class := range switchable {
		s.classes |= 1 << class
	}
	return s
}

// Matches reports whether the evaluator continues after e: the set contains the type,
// namespace or class of e or of its direct cause. A failure of class stop matches only by
// its own type, one of class stop! never.
func (s SwitchSet) Matches(e *contract.Error) bool {
	switch {
	case e == nil, e.Class == contract.ClassFinal:
		return false
	case s.names[e.Type]:
		return true
	case e.Class == contract.ClassStop, e.Class == contract.ClassNone:
		return false
	}
	return s.fits(e) || e.Cause != nil && e.Cause.Class != contract.ClassFinal &&
		(s.names[e.Cause.Type] || e.Cause.Class != contract.ClassStop && s.fits(e.Cause))
}

func (s SwitchSet) fits(e *contract.Error) bool {
	return s.classes&(1<<e.Class) != 0 || len(s.spaces) > 0 && s.spaces[contract.Namespace(e.Type)]
}

// Members returns the names of the members, without colons and with aliases
// resolved.
func (s SwitchSet) Members() []string {
	members := make([]string, 0, len(s.names)+len(s.spaces)+len(switchable))
	for name := range s.names {
		members = append(members, name)
	}
	for ns := range s.spaces {
		members = append(members, ns+"/*")
	}
	for _, class := range switchable {
		if s.classes&(1<<class) != 0 {
			members = append(members, "class/"+class.String())
		}
	}
	slices.Sort(members)
	return members
}

// Idle returns the members that can never match: types of class stop!, and reserved
// namespaces in which no type has class retry, switch or repair. The host warns about them.
func (s SwitchSet) Idle() []string {
	var idle []string
	for _, member := range s.Members() {
		if ns, ok := strings.CutSuffix(member, "/*"); ok && contract.Reserved(ns) && !namespaceSwitches(ns) {
			idle = append(idle, member)
		}
		if r, known := contract.Lookup(member); known && r.Class == contract.ClassFinal {
			idle = append(idle, member)
		}
	}
	return idle
}

func namespaceSwitches(ns string) bool {
	return slices.ContainsFunc(contract.Rows(), func(r contract.Row) bool {
		return contract.Namespace(r.Type) == ns && (slices.Contains(switchable[:], r.Class) ||
			slices.Contains(switchable[:], r.For(contract.SourcePlugin).Class))
	})
}

// Value returns the members as a set of keywords.
func (s SwitchSet) Value() edn.Value { return edn.Keywords(s.Members()...) }
