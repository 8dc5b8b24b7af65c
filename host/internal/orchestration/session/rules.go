package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Rules limit session variables. They are immutable.
type Rules struct {
	// RequireQualified rejects names without a namespace. AllowedNamespaces, unless nil,
	// rejects names in all other namespaces; it does not apply to names without one.
	RequireQualified  bool
	AllowedNamespaces []string

	MaxVars, MaxKeyChars, MaxValueBytes int

	// Classes holds all classes by name. ByNamespace maps namespaces to class names; Default
	// is the class of all other variables.
	Classes     map[string]Class
	Default     string
	ByNamespace map[string]string

	Policy   Policy
	Bindings []Binding
	Window   Window

	// MaxHot is the maximum number of hot sessions. A session that was not used for IdleTTL
	// is frozen; 0: never for being idle.
	MaxHot  int
	IdleTTL time.Duration

	// SummaryChars is the maximum length of a summary, in characters.
	SummaryChars int
}

// Class holds the lifetime of the variables of a class, and whether they may be written
// and deleted while their session is frozen.
type Class struct {
	DefaultTTL, MaxTTL        time.Duration // 0: none
	FrozenWrite, FrozenDelete bool
}

// Policy holds the namespaces that may be used, by operation and by intent. See
// Effective.
type Policy struct {
	Default             Access
	ByOperation, Intent map[string]Access
}

// Access holds the namespaces that may be read, written and deleted. Nil permits all, an
// empty slice none. The namespace of an unqualified name is the empty string.
type Access struct{ Read, Write, Delete []string }

// over returns the access with the parts replaced that are not nil in later.
func (a Access) over(later Access) Access {
	for _, part := range []struct {
		to   *[]string
		from []string
	}{{&a.Read, later.Read}, {&a.Write, later.Write}, {&a.Delete, later.Delete}} {
		if part.from != nil {
			*part.to = part.from
		}
	}
	return a
}

// alike groups the operations that do the same with one, several or all variables.
var alike = [][]string{
	{"session/get-var", "session/get-vars"},
	{"session/put-var", "session/put-vars"},
	{"session/del-var", "session/del-vars", "session/del-all-vars"},
}

// Effective returns the access of an operation on behalf of an intent, either of which
// may be empty (SES-011). The intent overrides the operation, which overrides the
// default. The access of session/get-var applies to session/get-vars too unless that has
// its own, and likewise for writes and deletions, so that one cannot bypass the other.
func (p Policy) Effective(operation, intent string) Access {
	a := p.Default
	for _, group := range alike {
		if slices.Contains(group, operation) {
			for _, other := range group {
				a = a.over(p.ByOperation[other])
			}
		}
	}
	return a.over(p.ByOperation[operation]).over(p.Intent[intent])
}

// Names of the shipped rules.
const (
	ClassDurable   = "durable"
	ClassEphemeral = "ephemeral"
	// OpDefaults is the operation that reads the default bindings of an act.
	OpDefaults = "act/defaults"
)

// Permissive returns the rules of development profiles.
func Permissive() Rules {
	return Rules{
		MaxVars:       256,
		MaxKeyChars:   191,
		MaxValueBytes: 128 << 10,
		Classes:       map[string]Class{ClassDurable: {MaxTTL: 7 * 24 * time.Hour, FrozenWrite: true, FrozenDelete: true}},
		Default:       ClassDurable,
		Bindings:      ShippedBindings(),
		Window:        Window{Turns: 16, Chars: 20_000},
		MaxHot:        32,
		IdleTTL:       15 * time.Minute,
		SummaryChars:  1200,
	}
}

// Restrictive returns the rules of the other profiles (SES-011).
func Restrictive() Rules {
	r := Permissive()
	r.RequireQualified, r.AllowedNamespaces = true, []string{"session", "request", "conversation", "project"}
	r.Classes = map[string]Class{
		ClassDurable:   {MaxTTL: 7 * 24 * time.Hour},
		ClassEphemeral: {DefaultTTL: 15 * time.Minute, MaxTTL: time.Hour, FrozenWrite: true},
	}
	r.ByNamespace = map[string]string{"request": ClassEphemeral}
	r.Policy = Policy{
		ByOperation: map[string]Access{OpDefaults: {Read: []string{"session", "project"}}},
		Intent: map[string]Access{"text/respond": {
			Read:  []string{"session", "project"},
			Write: []string{"session", "conversation"},
		}},
	}
	return r
}

func namespaceOf(key string) string {
	ns, _, ok := strings.Cut(key, "/")
	if !ok {
		return ""
	}
	return ns
}

// class returns the class of a variable.
func (r *Rules) class(key string) (name string, c Class) {
	name, ok := r.ByNamespace[namespaceOf(key)]
	if !ok {
		name = r.Default
	}
	return name, r.Classes[name]
}

// expiry returns the time at which a variable that is written now expires; zero: never. ttl comes
// from the request; 0 selects the default of the class. If that is 0 too, the variable never
// expires, even if the class has a MaxTTL.
func (r *Rules) expiry(key string, ttl time.Duration, now time.Time) time.Time {
	_, c := r.class(key)
	if ttl == 0 {
		ttl = c.DefaultTTL
	}
	if ttl == 0 {
		return time.Time{}
	}
	if c.MaxTTL > 0 {
		ttl = min(ttl, c.MaxTTL)
	}
	return now.Add(ttl)
}

// refusal is the reason why a variable cannot be used. A lower rank is checked earlier.
type refusal struct {
	key, typ string
	rank     int
	class    string // for session-frozen
	// limit is the allowed number, found the actual one; 0 for a check without numbers.
	limit, found int
}

// why returns the text of the reason, with the actual and the allowed value.
func (f refusal) why(r *Rules) string {
	namespace := namespaceOf(f.key)
	switch f.typ {
	case "session.vars/invalid-key":
		return "the name is not NS/NAME, such as session/language"
	case "session.vars/key-too-long":
		return fmt.Sprintf("the name has %d characters, allowed are %d", f.found, f.limit)
	case "session.vars/key-namespace-required":
		return "the name has no namespace, such as session/language has"
	case "session.vars/key-namespace-forbidden":
		return fmt.Sprintf("the namespace %q is not one of %s", namespace, strings.Join(r.AllowedNamespaces, ", "))
	case "session.vars/limit-exceeded":
		return fmt.Sprintf("the session has %d variables, allowed are %d", f.found, f.limit)
	case "session.vars/value-too-large":
		return fmt.Sprintf("the value has %d bytes, allowed are %d", f.found, f.limit)
	case "session.vars/session-frozen":
		return "the session is frozen, and the class " + f.class + " does not permit it"
	}
	return fmt.Sprintf("the policy does not permit the namespace %q", namespace)
}

// The ranks of refusals, in the order of SES-010.
const (
	rankKey = iota
	rankPolicy
	rankFrozen
	rankCount
	rankSize
)

func wellFormed(key string) bool {
	k, err := edn.Keyword(key)
	return err == nil && strings.Count(key, "/") <= 1 && k.Name() != ""
}

// checkKey returns the error type for a name that cannot be written; empty if it can.
func (r *Rules) checkKey(key string) string {
	switch ns := namespaceOf(key); {
	case !wellFormed(key):
		return "session.vars/invalid-key"
	case utf8.RuneCountInString(key) > r.MaxKeyChars:
		return "session.vars/key-too-long"
	case ns == "" && r.RequireQualified:
		return "session.vars/key-namespace-required"
	case ns != "" && r.AllowedNamespaces != nil && !slices.Contains(r.AllowedNamespaces, ns):
		return "session.vars/key-namespace-forbidden"
	}
	return ""
}

func allows(namespaces []string, key string) bool {
	return namespaces == nil || slices.Contains(namespaces, namespaceOf(key))
}

// checkRead returns the refusals of reading variables.
func checkRead(a Access, keys []string) (out []refusal) {
	for _, key := range keys {
		switch {
		case !wellFormed(key):
			out = append(out, refusal{key: key, typ: "session.vars/invalid-key", rank: rankKey})
		case !allows(a.Read, key):
			out = append(out, refusal{key: key, typ: "session.vars/policy-read-forbidden", rank: rankPolicy})
		}
	}
	return out
}

// checkPut returns the refusals of writing variables to a session: for each variable at
// most the first in the order of SES-010.
func (r *Rules) checkPut(st Stored, a Access, vars map[string]edn.Value, now time.Time) (out []refusal) {
	held := 0
	for _, expires := range st.Expires {
		if !expired(expires, now) {
			held++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		expires, exists := st.Expires[key]
		exists = exists && !expired(expires, now)
		name, class := r.class(key)
		typ := r.checkKey(key)
		switch {
		case typ != "":
			f := refusal{key: key, typ: typ, rank: rankKey}
			if typ == "session.vars/key-too-long" {
				f.limit, f.found = r.MaxKeyChars, utf8.RuneCountInString(key)
			}
			out = append(out, f)
		case !allows(a.Write, key):
			out = append(out, refusal{key: key, typ: "session.vars/policy-write-forbidden", rank: rankPolicy})
		case st.Session.Frozen && !class.FrozenWrite:
			out = append(out, refusal{key: key, typ: "session.vars/session-frozen", rank: rankFrozen, class: name})
		case !exists && held >= r.MaxVars:
			out = append(out, refusal{key: key, typ: "session.vars/limit-exceeded", rank: rankCount, limit: r.MaxVars, found: held})
		default:
			if !exists {
				held++
			}
			if n := len(vars[key].Canonical()); n > r.MaxValueBytes {
				out = append(out, refusal{key: key, typ: "session.vars/value-too-large", rank: rankSize, limit: r.MaxValueBytes, found: n})
			}
		}
	}
	return out
}

// checkDelete returns the refusals of deleting variables.
func (r *Rules) checkDelete(st Stored, a Access, keys []string) (out []refusal) {
	for _, key := range keys {
		name, class := r.class(key)
		switch {
		case !wellFormed(key):
			out = append(out, refusal{key: key, typ: "session.vars/invalid-key", rank: rankKey})
		case !allows(a.Delete, key):
			out = append(out, refusal{key: key, typ: "session.vars/policy-delete-forbidden", rank: rankPolicy})
		case st.Session.Frozen && !class.FrozenDelete:
			out = append(out, refusal{key: key, typ: "session.vars/session-frozen", rank: rankFrozen, class: name})
		}
	}
	return out
}

// maxRefusals is the maximum number of variables in the message of an error. Its details
// list all.
const maxRefusals = 5

// refused returns the error for the refusals of an operation on of variables; nil if
// there are none. Its type is that of the earliest check that failed; its detail keys
// lists every refused variable with its reason.
func (r *Rules) refused(doing string, of int, all []refusal) *contract.Error {
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b refusal) int { return a.rank - b.rank })
	listed := make([]edn.Value, len(all))
	for i, f := range all {
		var b edn.MapBuilder
		b.Key("key", keyValue(f.key))
		b.Key("reason", edn.K(f.typ))
		b.OptKeyword("class", f.class)
		if f.limit > 0 {
			b.Key("limit", edn.Int(int64(f.limit)))
			b.Key("found", edn.Int(int64(f.found)))
		}
		listed[i] = b.Map()
	}
	// The message names the variable of its type first.
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b refusal) int { return a.rank - b.rank })
	var said []string
	for _, f := range ordered[:min(len(ordered), maxRefusals)] {
		said = append(said, fmt.Sprintf("%.200q: %s", f.key, f.why(r)))
	}
	if more := len(ordered) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return contract.Errorf(first.typ, "%s: %d of %d session variables are refused: %s", doing, len(all), of, strings.Join(said, "; ")).
		WithDetail("keys", edn.Vector(listed...))
}

// keyValue returns the form of a key in answers: a keyword, or a text if it is
// malformed.
func keyValue(key string) edn.Value {
	if wellFormed(key) {
		return edn.K(key)
	}
	return edn.Text(key)
}
