package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// column describes one key of the records with body T: its place in the body,
// its schema, and when it is present. Encoding, decoding, check, references and
// documentation follow from it.
type column[T any] struct {
	key    string
	name   edn.Value // of the key
	schema string    // as EDN text
	when   string    // condition of presence, for documentation; empty: always
	// present reports whether a record has the key (nil: always). put returns its value.
	// take reads it and reports whether it has the right type (nil: the key is derived from
	// others and not read). bad reports an invalid value.
	present func(x *T) bool
	put     func(x *T) edn.Value
	take    func(x *T, v edn.Value, d *Decoder) bool
	bad     func(x *T) bool
	strict  bool // bad is called even if the key is absent
	covers  bool // bad is true for an absent key
	// wanted reports whether an optional key must be present. If exactly is set, the key
	// must otherwise be absent.
	wanted  func(x *T) bool
	exactly bool
	ref     func(x *T) *Ref // returns the reference; nil for other columns
}

// The types of the columns, as schemas.
const (
	tHash    = `[:re "^b3:[0-9a-f]{64}$"]`
	tKw      = `:keyword`
	tInt     = `:int`
	tCount   = `[:int {:min 0}]`
	tOrdinal = `[:int {:min 1}]`
	tStr     = `:string`
	tBool    = `:boolean`
	tInst    = `:inst`
	tScore   = `[:number {:min 0 :max 1}]`
	tMap     = `:map`
	tMaps    = `[:vector :map]`
	tPath    = `[:vector [:or :int :string]]`
	tKwSet   = `[:set :keyword]`
	tAmount  = `[:map-of :keyword :number]`
	tScopes  = `[:map-of {:min 1} [:enum :tenant :user :session :run :plan :node] [:map-of :keyword :number]]`
	tWindows = `[:map-of {:min 1} [:enum :tenant :user :session] :inst]`
	tError   = `[:map [:type :keyword] [:message :string] [:class {:optional true} :keyword] [:source {:optional true} :keyword]]`
)

// optional marks a key as optional; when describes the condition for documentation.
func (c column[T]) optional(when string) column[T] {
	c.when = when
	return c
}

// required marks a key as optional unless condition holds, and required then.
func (c column[T]) required(when string, condition func(x *T) bool) column[T] {
	c.when, c.wanted = when, condition
	return c
}

// needed is like required, and the key must be absent if condition does not hold.
func (c column[T]) needed(when string, condition func(x *T) bool) column[T] {
	c = c.required(when, condition)
	c.exactly = true
	return c
}

// only marks a key as optional and writes it only if condition holds.
func (c column[T]) only(when string, condition func(x *T) bool) column[T] {
	c.when, c.present = when, condition
	return c
}

// as replaces the schema.
func (c column[T]) as(schema string) column[T] {
	c.schema = schema
	return c
}

// unless replaces the check of the value. bad is called even if the key is absent.
func (c column[T]) unless(bad func(x *T) bool) column[T] {
	c.bad, c.strict = bad, true
	return c
}

// fault reports whether the value of the key is missing or ill-typed.
func (c *column[T]) fault(x *T) bool {
	has := c.present == nil || c.present(x)
	if c.bad != nil && (has || c.strict) && c.bad(x) {
		return true
	}
	if c.wanted == nil {
		return !has && c.when == ""
	}
	wanted := c.wanted(x)
	return wanted && !has || has && !wanted && c.exactly
}

// always makes a column that is present in every record. bad, which may be nil, reports an invalid
// value.
func always[T any](key, schema string, put func(x *T) edn.Value, bad func(x *T) bool) column[T] {
	return column[T]{key: key, schema: schema, put: put, bad: bad}
}

// field makes a column readable: parse converts an EDN value to the Go field, and
// reports whether the value has the right type.
func field[T, F any](c column[T], at func(x *T) *F, parse func(v edn.Value) (F, bool)) column[T] {
	c.take = func(x *T, v edn.Value, _ *Decoder) bool {
		content, ok := parse(v)
		*at(x) = content
		return ok
	}
	return c
}

// text makes a column for a string; the empty string is absent.
func text[T any](key string, at func(x *T) *string) column[T] {
	return field(column[T]{
		key: key, schema: tStr,
		present: func(x *T) bool { return *at(x) != "" },
		put:     func(x *T) edn.Value { return edn.Text(*at(x)) },
	}, at, edn.Value.AsString)
}

// keyword makes a column for the name of a keyword; the empty name is absent.
func keyword[T any](key string, at func(x *T) *string) column[T] {
	c := field(text(key, at), at, edn.Value.AsKeyword)
	c.schema, c.put = tKw, func(x *T) edn.Value { return Keyword(*at(x)) }
	return c
}

// enum makes a column for a keyword out of a list.
func enum[T any](key string, at func(x *T) *string, names ...string) column[T] {
	c := keyword(key, at)
	c.schema = "[:enum :" + strings.Join(names, " :") + "]"
	c.bad, c.covers = func(x *T) bool { return !slices.Contains(names, *at(x)) }, true
	return c
}

// hash makes a column for a canonical hash.
func hash[T any](key string, at func(x *T) *string) column[T] {
	c := text(key, at)
	c.schema, c.bad, c.covers = tHash, func(x *T) bool { return !isHash(*at(x)) }, true
	return c
}

// reference makes a column for the hash of a value that is stored with the record.
func reference[T any](key string, at func(x *T) *Ref) column[T] {
	c := fingerprint(key, at)
	c.ref = at
	return c
}

// fingerprint makes a column for the hash of a value that is not stored.
func fingerprint[T any](key string, at func(x *T) *Ref) column[T] {
	return column[T]{
		key: key, schema: tHash,
		present: func(x *T) bool { return at(x).set },
		put:     func(x *T) edn.Value { return edn.Text(at(x).Hash()) },
		take: func(x *T, v edn.Value, d *Decoder) bool {
			hash, ok := v.AsString()
			*at(x) = d.ref(hash)
			return ok && isHash(hash)
		},
	}
}

// ordinal makes a column for a number from 1; 0 is absent.
func ordinal[T any](key string, at func(x *T) *int) column[T] {
	return field(column[T]{
		key: key, schema: tOrdinal,
		present: func(x *T) bool { return *at(x) > 0 },
		put:     func(x *T) edn.Value { return edn.Int(int64(*at(x))) },
	}, at, asInt)
}

// number makes a column for any integer.
func number[T any](key string, at func(x *T) *int) column[T] {
	return field(always(key, tInt, func(x *T) edn.Value { return edn.Int(int64(*at(x))) }, nil), at, asInt)
}

func asInt(v edn.Value) (int, bool) {
	n, ok := v.AsInt()
	return int(n), ok
}

// count makes a column for a number from 0.
func count[T any](key string, at func(x *T) *int) column[T] {
	c := number(key, at)
	c.schema, c.bad = tCount, func(x *T) bool { return *at(x) < 0 }
	return c
}

// duration makes a column for a duration in milliseconds; a negative one is written as 0.
func duration[T any](key string, at func(x *T) *time.Duration) column[T] {
	c := always(key, tCount, func(x *T) edn.Value { return edn.Int(max(0, at(x).Milliseconds())) }, nil)
	return field(c, at, func(v edn.Value) (time.Duration, bool) {
		n, ok := v.AsInt()
		return time.Duration(n) * time.Millisecond, ok
	})
}

// spent makes a column for a duration that is absent if it is below a millisecond.
func spent[T any](key, when string, at func(x *T) *time.Duration) column[T] {
	return duration(key, at).only(when, func(x *T) bool { return *at(x) >= time.Millisecond })
}

// flag makes a column for a boolean that is always present.
func flag[T any](key string, at func(x *T) *bool) column[T] {
	return field(always(key, tBool, func(x *T) edn.Value { return edn.Bool(*at(x)) }, nil), at, edn.Value.AsBool)
}

// mark makes a column that is present, with value, only if the Go field is true.
func mark[T any](key, when string, value bool, at func(x *T) *bool) column[T] {
	return field(column[T]{
		key: key, schema: "[:enum " + edn.Bool(value).String() + "]", when: when,
		present: func(x *T) bool { return *at(x) },
		put:     func(*T) edn.Value { return edn.Bool(value) },
	}, at, func(v edn.Value) (bool, bool) {
		b, ok := v.AsBool()
		return true, ok && b == value
	})
}

// amounts makes a column for counts and money by dimension; nil is written as an empty map.
func amounts[T any](key string, at func(x *T) *edn.Value) column[T] {
	return field(always(key, tAmount, func(x *T) edn.Value { return orEmpty(*at(x)) },
		func(x *T) bool { return !isAmount(*at(x)) }), at, anything)
}

// mapping makes a column for a map; nil is written as an empty map.
func mapping[T any](key string, at func(x *T) *edn.Value) column[T] {
	return field(always(key, tMap, func(x *T) edn.Value { return orEmpty(*at(x)) },
		func(x *T) bool { return !isMapOrNone(*at(x)) }), at, anything)
}

func anything(v edn.Value) (edn.Value, bool) { return v, true }

// value makes a column for any value that good accepts; nil is absent.
func value[T any](key, schema string, at func(x *T) *edn.Value, good func(edn.Value) bool) column[T] {
	return field(column[T]{
		key: key, schema: schema,
		present: func(x *T) bool { return !at(x).IsNil() },
		put:     func(x *T) edn.Value { return *at(x) },
		bad:     func(x *T) bool { return !good(*at(x)) },
	}, at, anything)
}

// list makes a column for a vector. good checks its elements; nil accepts all.
func list[T, E any](
	key, schema string, at func(x *T) *[]E, encode func(E) edn.Value, parse func(edn.Value) (E, bool), good func(E) bool,
) column[T] {
	c := always(key, schema, func(x *T) edn.Value {
		all := make([]edn.Value, len(*at(x)))
		for i, e := range *at(x) {
			all[i] = encode(e)
		}
		return edn.Vector(all...)
	}, func(x *T) bool {
		return good != nil && slices.ContainsFunc(*at(x), func(e E) bool { return !good(e) })
	})
	return field(c, at, func(v edn.Value) ([]E, bool) { return elements(v, edn.KindVector, parse) })
}

// elements parses the elements of a vector or set.
func elements[E any](v edn.Value, kind edn.Kind, parse func(edn.Value) (E, bool)) ([]E, bool) {
	if v.Kind() != kind {
		return nil, false
	}
	var all []E
	for e := range v.Elems() {
		parsed, ok := parse(e)
		if !ok {
			return nil, false
		}
		all = append(all, parsed)
	}
	return all, true
}

// some makes a list absent if it is empty.
func some[T, E any](c column[T], when string, at func(x *T) *[]E) column[T] {
	return c.only(when, func(x *T) bool { return len(*at(x)) > 0 })
}

func same(v edn.Value) edn.Value { return v }

func keywords[T any](key string, at func(x *T) *[]string) column[T] {
	c := always(key, tKwSet, func(x *T) edn.Value {
		all := make([]edn.Value, len(*at(x)))
		for i, name := range *at(x) {
			all[i] = Keyword(name)
		}
		return edn.SetOf(all...)
	}, nil)
	return field(c, at, func(v edn.Value) ([]string, bool) { return elements(v, edn.KindSet, edn.Value.AsKeyword) })
}

// decisions makes the column for decisions about operations, each with its rule and reason.
func decisions[T any](at func(x *T) *[]edn.Value) column[T] {
	return list("access", `[:vector [:map [:what :any] [:rule :any] [:reason :any]]]`, at, same, anything, isDecision)
}

func instant[T any](key string, at func(x *T) *time.Time) column[T] {
	return field(column[T]{
		key: key, schema: tInst,
		present: func(x *T) bool { return !at(x).IsZero() },
		put:     func(x *T) edn.Value { return edn.Inst(*at(x)) },
	}, at, edn.Value.AsInst)
}

func score[T any](key string, at func(x *T) *Score) column[T] {
	return field(column[T]{
		key: key, schema: tScore,
		present: func(x *T) bool { return at(x).set },
		put:     func(x *T) edn.Value { return at(x).Value() },
		bad:     func(x *T) bool { return at(x).bad() },
	}, at, scoreFrom)
}

func failure[T any](key string, at func(x *T) **contract.Error) column[T] {
	return field(column[T]{
		key: key, schema: tError,
		present: func(x *T) bool { return *at(x) != nil },
		put:     func(x *T) edn.Value { return (*at(x)).Value() },
		bad:     func(x *T) bool { return (*at(x)).Type == "" },
	}, at, func(v edn.Value) (*contract.Error, bool) {
		return contract.ErrorFromValue(v, contract.SourceHost), v.IsMap() && v.Key("type").IsKeyword()
	})
}

// ofError makes a column that repeats the key name of an error. It is written and not read.
func ofError[T any](key, name string, at func(x *T) **contract.Error) column[T] {
	c := failure(key, at)
	c.schema, c.put, c.take = tKw, func(x *T) edn.Value { return (*at(x)).Value().Key(name) }, nil
	return c
}

func orEmpty(v edn.Value) edn.Value {
	if v.IsNil() {
		return edn.MustMap()
	}
	return v
}

// description is the interface of the tables of all kinds, independent of the body type.
type description interface {
	// fault returns the first key that is missing or ill-typed, or "".
	fault(b Body) string
	// fields adds every present key, and those that all kinds have.
	fields(b Body, h *heads, to *edn.MapBuilder)
	// refs yields every reference that is set.
	refs(b Body, yield func(Ref))
	// take reads a body from a record and returns the first ill-typed key, or "".
	take(rec edn.Value, d *Decoder) (b Body, bad string)
	hasPath() bool
	row() kindRow
}

// table holds the columns of a kind whose bodies are *T.
type table[T any] struct {
	kind    Kind
	pathed  bool // has :path, and :node unless the path is the run itself
	columns []column[T]
	order   []slot // of the keys in a record
	checks  []check[T]
}

// heads are the values of the keys that all kinds have; an absent key is nil.
type heads [headCount]edn.Value

const (
	headVersion = iota
	headRun
	headSeq
	headAt
	headEpoch
	headKind
	headPath
	headNode
	headCount
)

var headKeys = heads{edn.K("v"), edn.K("run"), edn.K("seq"), edn.K("at"), edn.K("epoch"), edn.K("kind"), edn.K("path"), edn.K("node")}

// slot is one key of a record in canonical order. Writing the keys in this order avoids
// sorting each map again.
type slot struct {
	key    edn.Value
	head   int // -1 for a column
	column int
}

// check is one validation that every append makes.
type check[T any] struct {
	key   string
	fault func(x *T) bool
}

func kindOf[T any](kind Kind, pathed bool, columns ...column[T]) *table[T] {
	t := &table[T]{kind: kind, pathed: pathed, columns: columns}
	for i := range columns {
		columns[i].name = edn.K(columns[i].key)
		if fault := columns[i].check(); fault != nil {
			t.checks = append(t.checks, check[T]{columns[i].key, fault})
		}
		t.order = append(t.order, slot{columns[i].name, -1, i})
	}
	for i, key := range headKeys {
		t.order = append(t.order, slot{key, i, -1})
	}
	slices.SortFunc(t.order, func(a, b slot) int { return edn.Compare(a.key, b.key) })
	return t
}

// check returns a function equivalent to fault that tests only what this column needs;
// nil if fault is always false.
func (c *column[T]) check() func(x *T) bool {
	switch free := c.when != "" && c.wanted == nil; {
	case c.bad == nil && (c.present == nil || free):
		return nil
	case c.present == nil && c.wanted == nil, c.when == "" && c.covers:
		return c.bad
	case c.when == "" && c.wanted == nil && c.bad == nil:
		present := c.present
		return func(x *T) bool { return !present(x) }
	case free && !c.strict:
		present, bad := c.present, c.bad
		return func(x *T) bool { return present(x) && bad(x) }
	}
	return c.fault
}

// of returns a body of this kind as its concrete type. It panics for other kinds.
func (*table[T]) of(b Body) *T { return any(b).(*T) }

func (t *table[T]) hasPath() bool { return t.pathed }

func (t *table[T]) fault(b Body) string {
	x := t.of(b)
	for i := range t.checks {
		if t.checks[i].fault(x) {
			return t.checks[i].key
		}
	}
	return ""
}

func (t *table[T]) fields(b Body, h *heads, to *edn.MapBuilder) {
	x := t.of(b)
	for _, at := range t.order {
		if at.head >= 0 {
			if v := h[at.head]; !v.IsNil() {
				to.Set(at.key, v)
			}
			continue
		}
		if c := &t.columns[at.column]; c.present == nil || c.present(x) {
			to.Set(at.key, c.put(x))
		}
	}
}

func (t *table[T]) take(rec edn.Value, d *Decoder) (b Body, bad string) {
	x := new(T)
	for i := range t.columns {
		c := &t.columns[i]
		if v, has := rec.Get(c.name); has && c.take != nil && !c.take(x, v, d) {
			return nil, c.key
		}
	}
	return any(x).(Body), ""
}

func (t *table[T]) refs(b Body, yield func(Ref)) {
	x := t.of(b)
	for i := range t.columns {
		if c := &t.columns[i]; c.ref != nil && c.ref(x).set {
			yield(*c.ref(x))
		}
	}
}

func (t *table[T]) row() kindRow {
	r := kindRow{kind: t.kind, pathed: t.pathed}
	for _, c := range t.columns {
		r.columns = append(r.columns, docColumn{c.key, c.schema, c.when})
	}
	return r
}
