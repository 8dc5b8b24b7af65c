package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// maxDescription is the maximum length of the description of a capability, in
// code points.
const maxDescription = 500

var capabilityKeys = []string{
	"cap/can-produce", "cap/cost", "cap/description", "cap/deterministic?", "cap/effects", "cap/effects-allowed",
	"cap/family",
	"cap/id", "cap/idempotent?", "cap/intents", "cap/kind", "cap/limits", "cap/model", "cap/recovery-rules",
	"cap/repairs?",
	"cap/role", "cap/stability", "cap/streams?", "cap/tags", "cap/version", "io/in-schema", "io/out-schema",
}

// Effects returns the names of the effects that a capability can declare, such as "fs/read",
// sorted; "none" is one of them. The caller may change the slice.
func Effects() []string { return slices.Clone(effectNames) }

// effectNames are all effects, sorted.
var effectNames = []string{"db/read", "db/write", "fs/read", "fs/write", "net/http", "none", "process/run"}

var setOfKeywords = edn.Vector(edn.K("set"), kKeyword)

// enumOf returns the schema of one of the names.
func enumOf(names []string) edn.Value {
	schema := path(edn.K("enum"))
	for _, name := range names {
		schema = append(schema, edn.K(name))
	}
	return edn.Vector(schema...)
}

// isColl reports whether v is a set, a vector or a list: the kinds accepted for
// a collection of names.
func isColl(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindSet, edn.KindVector, edn.KindList:
		return true
	}
	return false
}

// KeywordSet returns the keywords of a set, vector or list, sorted and without
// duplicates. It returns false if v is something else or has a member that is
// not a keyword.
func KeywordSet(v edn.Value) ([]string, bool) {
	if !isColl(v) {
		return nil, false
	}
	if v.Len() == 0 {
		return nil, true
	}
	names := make([]string, 0, v.Len())
	for member := range v.Elems() {
		name, ok := member.AsKeyword()
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// metadata collects all problems of a plugin's metadata, so that the author
// sees them at once.
type metadata struct {
	missing []edn.Value // keys, or paths if there is a prefix
	invalid []edn.Value // maps of :path :message :expected :got :nearest
	lines   []string    // the same in words
}

// site is one map of the metadata with its path.
type site struct {
	*metadata
	at []edn.Value
	v  edn.Value
}

func (s site) path(key edn.Value) []edn.Value {
	if key.IsNil() {
		return s.at
	}
	return append(slices.Clone(s.at), key)
}

func (s site) miss(name string) {
	key := edn.K(name)
	if len(s.at) > 0 {
		key = edn.Vector(s.path(key)...)
	}
	s.missing = append(s.missing, key)
	s.lines = append(s.lines, key.String()+" is missing")
}

func (s site) wrong(key edn.Value, message string, expected, got edn.Value) {
	s.bad(key, message, expected, got, "")
}

func (s site) bad(key edn.Value, message string, expected, got edn.Value, nearest string) {
	at := edn.Vector(s.path(key)...)
	var b edn.MapBuilder
	b.Set(kPath, at)
	b.Set(kMessage, edn.Text(message))
	line := at.String() + " " + message
	if !expected.IsNil() {
		b.Set(kExpected, expected)
		line += ", expected " + expected.String() // never cut
	}
	b.Set(kGot, cut(got))
	line += ", got " + Excerpt(got)
	if nearest != "" {
		b.Set(kNearest, edn.K(nearest))
		line += "; nearest is :" + nearest
	}
	s.invalid = append(s.invalid, b.Map())
	s.lines = append(s.lines, line)
}

func (m *metadata) err(what string) error {
	if len(m.lines) == 0 {
		return nil
	}
	message := m.lines[0]
	if more := len(m.lines) - 1; more > 0 {
		message = fmt.Sprintf("%s; and %d more", message, more)
	}
	e := Errorf("capability/invalid-metadata", "metadata of %s: %s", what, message)
	var d edn.MapBuilder
	if len(m.missing) > 0 {
		d.Key("missing", edn.Vector(m.missing...))
	}
	if len(m.invalid) > 0 {
		d.Key("invalid-fields", edn.Vector(m.invalid...))
	}
	return e.WithDetails(d.Map())
}

// ParseCapability reads the metadata of one capability. The error is an
// [*Error] of type capability/invalid-metadata that lists every missing and
// every invalid field.
func ParseCapability(v edn.Value) (Capability, error) {
	var m metadata
	c := m.capability(v, nil)
	if err := m.err(nameOf(v, "a capability")); err != nil {
		return Capability{}, err
	}
	return c, nil
}

func nameOf(v edn.Value, otherwise string) string {
	if id := v.Key("cap/id"); id.Kind() == edn.KindKeyword {
		return id.String()
	}
	return otherwise
}

func (m *metadata) capability(v edn.Value, at []edn.Value) Capability {
	s := site{metadata: m, at: at, v: v}
	if v.Kind() != edn.KindMap {
		s.wrong(edn.Value{}, "is not a map", kMap, v)
		return Capability{}
	}
	c := Capability{
		ID:            s.name("cap/id", true),
		Kind:          s.name("cap/kind", true),
		Version:       s.text("cap/version", defaultVersion),
		Intents:       s.names("cap/intents", nil, nil),
		CanProduce:    s.names("cap/can-produce", resultTypes, []string{"value"}),
		Effects:       s.effects(),
		Tags:          s.names("cap/tags", nil, []string{}),
		InSchema:      s.schema("io/in-schema"),
		OutSchema:     s.schema("io/out-schema"),
		Cost:          s.cost(),
		Limits:        s.limits(),
		Deterministic: s.flag("cap/deterministic?"),
		Idempotent:    s.flag("cap/idempotent?"),
		Streams:       s.flag("cap/streams?"),
		Repairs:       s.flag("cap/repairs?"),
		RecoveryRules: s.rules(),
		Role:          s.name("cap/role", false),
		Model:         s.text("cap/model", ""),
		Family:        s.text("cap/family", ""),
		Stability:     s.word("cap/stability", defaultStability, "deprecated", "experimental", "stable"),
		Description:   s.text("cap/description", ""),
	}
	if c.ID != "" && Namespace(c.ID) == "" {
		s.wrong(kCapID, "has no namespace", kKeyword, edn.K(c.ID))
	}
	if utf8.RuneCountInString(c.Description) > maxDescription {
		s.wrong(edn.K("cap/description"), "is too long",
			edn.Vector(kString, edn.MustMap(edn.K("max"), edn.Int(maxDescription))), v.Key("cap/description"))
	}
	c.Extra = s.extra()
	return c
}

// extra returns the entries of namespace x and reports every other unknown key.
func (s site) extra() edn.Value {
	var b edn.MapBuilder
	some := false
	for key, val := range s.v.Entries() {
		name, ok := key.AsKeyword()
		switch {
		case ok && slices.Contains(capabilityKeys, name):
		case ok && Namespace(name) == "x":
			b.Set(key, val)
			some = true
		default:
			s.bad(edn.Value{}, "has an unknown field", edn.Value{}, key, Nearest(name, capabilityKeys))
		}
	}
	if !some {
		return edn.Nil()
	}
	return b.Map()
}

func (s site) name(field string, required bool) string {
	v, found := s.v.Get(edn.K(field))
	if !found {
		if required {
			s.miss(field)
		}
		return ""
	}
	name, ok := v.AsKeyword()
	if !ok {
		s.wrong(edn.K(field), "is not a keyword", kKeyword, v)
	}
	return name
}

// text reads an optional string that must not be blank.
func (s site) text(field, otherwise string) string {
	v, found := s.v.Get(edn.K(field))
	if !found {
		return otherwise
	}
	t, ok := v.AsString()
	if !ok || strings.TrimSpace(t) == "" && field != "cap/description" {
		s.wrong(edn.K(field), "is not a text", kString, v)
	}
	return t
}

func (s site) word(field, otherwise string, words ...string) string {
	v, found := s.v.Get(edn.K(field))
	if !found {
		return otherwise
	}
	name, _ := v.AsKeyword()
	if !slices.Contains(words, name) {
		s.bad(edn.K(field), "is not one of the words", enumOf(words), v, Nearest(name, words))
	}
	return name
}

// names reads a set of keywords. known lists the allowed ones, nil for any;
// without an alternative the field is required.
func (s site) names(field string, known, otherwise []string) []string {
	key := edn.K(field)
	v, found := s.v.Get(key)
	if !found {
		if otherwise == nil {
			s.miss(field)
		}
		return otherwise
	}
	names, ok := KeywordSet(v)
	if !ok {
		s.wrong(key, "is not a set of keywords", setOfKeywords, v)
		return otherwise
	}
	if known != nil {
		for _, n := range names {
			if !slices.Contains(known, n) {
				s.bad(key, "has an unknown word", enumOf(known), edn.K(n), Nearest(n, known))
			}
		}
	}
	if names == nil {
		names = []string{}
	}
	return names
}

// effects reads the effects under either of their two names.
func (s site) effects() []string {
	field := "cap/effects"
	if alias, found := s.v.Get(edn.K("cap/effects-allowed")); found {
		if v, both := s.v.Get(edn.K(field)); both && !edn.Equal(v, alias) {
			s.wrong(edn.K("cap/effects-allowed"), "differs from :cap/effects", v, alias)
		} else if !both {
			field = "cap/effects-allowed"
		}
	}
	effects := s.names(field, effectNames, []string{"none"})
	if len(effects) > 1 {
		// "none" next to other effects has no meaning.
		effects = slices.DeleteFunc(effects, func(e string) bool { return e == "none" })
	}
	return effects
}

func (s site) flag(field string) bool {
	v, found := s.v.Get(edn.K(field))
	b, ok := v.AsBool()
	if found && !ok {
		s.wrong(edn.K(field), "is not a boolean", kBoolean, v)
	}
	return b
}

func (s site) schema(field string) SchemaRef {
	key := edn.K(field)
	v, found := s.v.Get(key)
	if !found {
		s.miss(field)
		return SchemaRef{}
	}
	if name, ok := v.AsKeyword(); ok {
		return SchemaRef{Name: name}
	}
	if v.Kind() != edn.KindMap || v.Len() == 0 {
		s.wrong(key, "is neither a keyword nor a map from intent to keyword", kKeyword, v)
		return SchemaRef{}
	}
	ref := SchemaRef{ByIntent: make(map[string]string, v.Len())}
	for intent, schema := range v.Entries() {
		i, ok := intent.AsKeyword()
		n, ok2 := schema.AsKeyword()
		if !ok || !ok2 {
			s.wrong(key, "has an entry that is not a pair of keywords", edn.MustRead("[:map-of :keyword :keyword]"),
				edn.Vector(intent, schema))
			continue
		}
		ref.ByIntent[i] = n
	}
	return ref
}

// inner returns the map under a field and reports whether there is one.
func (s site) inner(field string) (site, bool) {
	v, found := s.v.Get(edn.K(field))
	if found && v.Kind() != edn.KindMap {
		s.wrong(edn.K(field), "is not a map", kMap, v)
		return s, false
	}
	return site{metadata: s.metadata, at: s.path(edn.K(field)), v: v}, found
}

func (s site) cost() Cost {
	var c Cost
	in, found := s.inner("cap/cost")
	if !found {
		return c
	}
	for key, v := range in.v.Entries() {
		name, _ := key.AsKeyword()
		amount := c.field(name)
		switch {
		case name == "latency-ms":
			ms, ok := in.whole(key, v, 0)
			c.Latency, c.HasLatency = time.Duration(ms)*time.Millisecond, ok
		case amount == nil:
			in.bad(edn.Value{}, "has an unknown field", edn.Value{}, key, Nearest(name, costKeys))
		case v.Kind() != edn.KindInt && v.Kind() != edn.KindDecimal || isNegative(v):
			in.wrong(key, "is not an amount", edn.MustRead("[:or [:decimal {:min 0}] [:int {:min 0}]]"), v)
		default:
			*amount = v
		}
	}
	return c
}

func isNegative(v edn.Value) bool {
	n, ok := v.AsNumber()
	return ok && n.Sign() < 0
}

func (s site) limits() Limits {
	var l Limits
	in, found := s.inner("cap/limits")
	if !found {
		return l
	}
	for key, v := range in.v.Entries() {
		name, _ := key.AsKeyword()
		n := l.field(name)
		switch {
		case name == "timeout-ms":
			ms, _ := in.whole(key, v, 1)
			l.Timeout = time.Duration(ms) * time.Millisecond
		case n == nil:
			in.bad(edn.Value{}, "has an unknown field", edn.Value{}, key, Nearest(name, limitKeys))
		default:
			whole, _ := in.whole(key, v, 1)
			*n = int(whole)
		}
	}
	return l
}

// maxWhole bounds milliseconds so that they fit into a time.Duration.
const maxWhole = 1 << 43

func (s site) whole(key, v edn.Value, low int64) (int64, bool) {
	n, ok := v.AsInt()
	if !ok || v.Kind() != edn.KindInt || n < low || n > maxWhole {
		s.wrong(key, "is not a whole number in range", edn.Vector(kInt, edn.MustMap(edn.K("min"), edn.Int(low))), v)
		return 0, false
	}
	return n, true
}

var ruleForm = edn.MustRead("[:tuple [:vector {:min 1} :any] :any [:enum :idempotent :none :once]]")

func (s site) rules() []RecoveryRule {
	key := edn.K("cap/recovery-rules")
	v, found := s.v.Get(key)
	if !found {
		return nil
	}
	if v.Kind() != edn.KindVector && v.Kind() != edn.KindList {
		s.wrong(key, "is not a vector of rules", edn.Vector(edn.K("vector"), ruleForm), v)
		return nil
	}
	var rules []RecoveryRule
	for i, form := range v.All() {
		where, _ := form.Nth(0)
		value, _ := form.Nth(1)
		word, _ := form.Nth(2)
		name, _ := word.AsKeyword()
		class, ok := ParseRecoveryClass(name)
		if !ok || form.Len() != 3 || where.Kind() != edn.KindVector || where.Len() == 0 {
			site{metadata: s.metadata, at: s.path(key)}.wrong(i, "is not a rule", ruleForm, form)
			continue
		}
		rules = append(rules, RecoveryRule{Path: slices.Collect(where.Elems()), Match: value, Class: class})
	}
	return rules
}
