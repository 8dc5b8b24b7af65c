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
	// RequireQualified rejects names without namespace; AllowedNamespaces, unless
	// nil, all namespaces that it lacks.
	RequireQualified  bool
	AllowedNamespaces []string

	MaxVars, MaxKeyChars, MaxValueBytes int

	// Classes has every class by name; Default is the class of variables whose
	// namespace is not in ByNamespace.
	Classes     map[string]Class
	Default     string
	ByNamespace map[string]string

	Policy   Policy
	Bindings []Binding
	Window   Window

	// MaxHot limits the hot sessions. One that was not used for IdleTTL, 0 for any
	// time, is frozen.
	MaxHot  int
	IdleTTL time.Duration

	// SummaryChars limits the summary of turns that no longer fit.
	SummaryChars int
}

// Class is the lifetime of variables and what is allowed while their session is
// frozen.
type Class struct {
	DefaultTTL, MaxTTL        time.Duration // 0: none
	FrozenWrite, FrozenDelete bool
}

// Policy are the namespaces that may be used, by operation and by intent.
type Policy struct {
	Default             Access
	ByOperation, Intent map[string]Access
}

// Access are the namespaces that may be used. Nil permits any, an empty slice none.
// The namespace of an unqualified name is empty.
type Access struct{ Read, Write, Delete []string }

// over returns the access with what a later one sets.
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

// alike are the operations that do the same with one variable and with several.
var alike = [][]string{
	{"session/get-var", "session/get-vars"},
	{"session/put-var", "session/put-vars"},
	{"session/del-var", "session/del-vars", "session/del-all-vars"},
}

// Effective returns the access of an operation on behalf of an intent, either of
// which may be empty (SES-011). The access of an operation holds for those that do the
// same, as far as theirs does not set another one: none is a way around another.
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

// expiry returns when a variable that is written now expires; ttl is that of the
// request, 0 for none. Without any lifetime it does not expire, whatever the
// maximum is.
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

// refusal is why a variable cannot be used. A lower rank is checked earlier.
type refusal struct {
	key, typ string
	rank     int
	class    string // for session-frozen
	// limit is what is allowed, and found what there was; 0: the check has no number.
	limit, found int
}

// why says what was found and what is allowed.
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

// checkKey returns why a name cannot be written; empty: it can.
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

// checkPut returns the refusals of writing variables to a session. Each variable
// has the first refusal in the order of SES-010.
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

// maxRefusals limits the variables in the message of an error; its details have all.
const maxRefusals = 5

// refused returns the error for refusals: its type is that of the earliest check
// that failed, and its details list every variable with its reason.
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
