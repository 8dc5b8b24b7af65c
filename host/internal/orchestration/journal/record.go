package journal

import (
	"math/big"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Record is one entry of a run. Seq counts from 1 without gaps; Epoch counts
// the times that the run was started or resumed. Path and Node are set for
// kinds that concern a plan, a node or an attempt: Path is the node path as an
// EDN vector (empty for the run itself), Node the id of the node.
//
// A record is immutable once it was appended.
type Record struct {
	Run   string
	Seq   int
	At    time.Time
	Epoch int
	Path  edn.Value
	Node  string
	Body  Body
}

// Body is the content of one kind of record. Only this package can define
// kinds, so every kind is in the table.
type Body interface {
	// Kind returns the kind of the record.
	Kind() Kind
	// describe returns the description of the kind.
	describe() description
}

// Closes reports whether a record is one of those with which a run ends, also a run that may have no
// others any more.
func Closes(b Body) bool {
	switch b.(type) {
	case *RunFinished, *RunSuspended, *RunResumed, *CancelRequested, *BudgetSettled:
		return true
	}
	return false
}

// Numbered is a Body that needs the number of its record, because later ones
// refer to it. SetSeq is called before the record is appended.
type Numbered interface{ SetSeq(seq int) }

// Value returns the record as a closed EDN map, in the form that is stored, exported and
// described by the schema of its kind.
func (r Record) Value() edn.Value {
	h := heads{
		headVersion: edn.Int(Version),
		headRun:     edn.Text(r.Run),
		headSeq:     edn.Int(int64(r.Seq)),
		headAt:      edn.Inst(r.At),
		headEpoch:   edn.Int(int64(r.Epoch)),
	}
	var b edn.MapBuilder
	if r.Body == nil {
		for i := range h {
			if !h[i].IsNil() {
				b.Set(headKeys[i], h[i])
			}
		}
		return b.Map()
	}
	h[headKind] = Keyword(string(r.Body.Kind()))
	if r.Body.describe().hasPath() {
		if h[headPath] = r.Path; r.Path.IsNil() {
			h[headPath] = edn.Vector()
		}
		if r.Node != "" {
			h[headNode] = edn.Text(r.Node)
		}
	}
	r.Body.describe().fields(r.Body, &h, &b)
	return b.Map()
}

// Check returns a *contract.Error of type runtime/internal for a record with missing or
// invalid keys. It checks the same as the EDN schema and, in addition, keys whose
// presence depends on others. It does not build the EDN value, because it runs at every
// append.
func (r Record) Check() error {
	switch {
	case r.Body == nil:
		return refused("record", "has no kind")
	case r.Run == "":
		return refused(string(r.Body.Kind()), "run is missing")
	case r.Seq < 1:
		return refused(string(r.Body.Kind()), "seq is below 1")
	case r.Epoch < 1:
		return refused(string(r.Body.Kind()), "epoch is below 1")
	case r.At.IsZero():
		return refused(string(r.Body.Kind()), "at is missing")
	}
	if r.Body.describe().hasPath() {
		if k := r.Path.Kind(); k != edn.KindVector && k != edn.KindNil {
			return refused(string(r.Body.Kind()), "path is no vector")
		}
		if r.Path.Len() > 0 && r.Node == "" {
			return refused(string(r.Body.Kind()), "node is missing")
		}
	}
	if bad := r.Body.describe().fault(r.Body); bad != "" {
		return refused(string(r.Body.Kind()), bad+" is missing or ill-typed")
	}
	return nil
}

func refused(kind, why string) error {
	return contract.Errorf("runtime/internal", "journal: append %s: %s", kind, why).WithOp("append", kind)
}

// Ref refers to a value in a record. It holds the value itself, or a Valuer that creates
// it. A reader in this process therefore needs no lookup, and the writer builds and
// hashes the value only when the record is rendered or stored. The zero Ref is unset.
type Ref struct {
	v    edn.Value
	from Valuer
	hash string // of a stored value; empty: from v
	set  bool
}

// Valuer provides a value on demand. Value must return the same value at each call and
// be safe for concurrent use.
type Valuer interface{ Value() edn.Value }

// RefTo returns a reference to v.
func RefTo(v edn.Value) Ref { return Ref{v: v, set: true} }

// RefOf returns a reference whose value is from.Value(), called each time the value is
// needed.
func RefOf(from Valuer) Ref { return Ref{from: from, set: true} }

// stored returns a reference to a value by its hash. load returns the value, nil if it
// is not stored; with a nil load the value is nil.
func stored(hash string, load Valuer) Ref { return Ref{from: load, hash: hash, set: true} }

// Set reports whether the reference was set, also to a nil value.
func (r Ref) Set() bool { return r.set }

// Value returns the value; nil for an unset reference, and for a decoded reference whose
// value is no longer stored.
func (r Ref) Value() edn.Value {
	if r.from != nil {
		return r.from.Value()
	}
	return r.v
}

// Hash returns the canonical hash of the value, "" for an unset reference.
func (r Ref) Hash() string {
	switch {
	case !r.set:
		return ""
	case r.hash != "":
		return r.hash
	}
	return edn.Hash(r.Value())
}

// Score is a score in thousandths. The zero Score is unset.
type Score struct {
	thousandths int32
	set         bool
}

// ScoreOf returns a score in thousandths, 0 to 1000. Record.Check rejects other scores.
func ScoreOf(thousandths int64) Score { return Score{int32(thousandths), true} }

// Set reports whether there is a score.
func (s Score) Set() bool { return s.set }

// Value returns the score as a decimal, nil if unset.
func (s Score) Value() edn.Value {
	if !s.set {
		return edn.Nil()
	}
	v, err := edn.Decimal(big.NewInt(int64(s.thousandths)), -3)
	if err != nil {
		return edn.Nil()
	}
	return v
}

// scoreFrom reads a score with at most three places.
func scoreFrom(v edn.Value) (Score, bool) {
	r, ok := v.AsNumber()
	if !ok {
		return Score{}, false
	}
	r = new(big.Rat).Mul(r, big.NewRat(1000, 1))
	if !r.IsInt() || !r.Num().IsInt64() {
		return Score{}, false
	}
	return ScoreOf(r.Num().Int64()), true
}

func (s Score) bad() bool { return s.thousandths < 0 || s.thousandths > 1000 }

// Instant returns a time as an EDN instant in UTC, truncated to milliseconds.
func Instant(at time.Time) edn.Value { return edn.Inst(at.UTC().Truncate(time.Millisecond)) }

// Keyword returns a name as a keyword. An invalid name becomes a string, which the
// schema of the kind rejects.
func Keyword(name string) edn.Value {
	k, err := edn.Keyword(name)
	if err != nil {
		return edn.Text(name)
	}
	return k
}

// put adds keys to a map and omits those without a value.
type put struct{ b *edn.MapBuilder }

func (p put) kw(key, name string) {
	if name != "" {
		p.b.Key(key, Keyword(name))
	}
}

func (p put) str(key, s string) {
	if s != "" {
		p.b.Key(key, edn.Text(s))
	}
}

func (p put) positive(key string, n int) {
	if n > 0 {
		p.b.Key(key, edn.Int(int64(n)))
	}
}

func (p put) val(key string, v edn.Value) {
	if !v.IsNil() {
		p.b.Key(key, v)
	}
}

func (p put) err(key string, e *contract.Error) {
	if e != nil {
		p.b.Key(key, e.Value())
	}
}

func isMap(v edn.Value) bool       { return v.Kind() == edn.KindMap }
func isMapOrNone(v edn.Value) bool { return v.IsNil() || isMap(v) }
func isHash(h string) bool         { return len(h) == 67 && h[:3] == "b3:" }
func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }
func isVector(v edn.Value) bool    { return v.Kind() == edn.KindVector }
func isAmount(v edn.Value) bool {
	if v.IsNil() {
		return true
	}
	if v.Kind() != edn.KindMap {
		return false
	}
	for k, n := range v.Entries() {
		if k.Kind() != edn.KindKeyword {
			return false
		}
		if !isNumber(n) {
			return false
		}
	}
	return true
}

// isGrade reports whether v is a number of 0 to 1.
func isGrade(v edn.Value) bool {
	r, ok := v.AsNumber()
	return ok && r.Sign() >= 0 && r.Cmp(big.NewRat(1, 1)) <= 0
}

// isDecision reports whether v is a decision of a rule.
func isDecision(v edn.Value) bool {
	return isMap(v) && v.HasKey("what") && v.HasKey("rule") && v.HasKey("reason")
}

// isPath reports whether v is a vector of integers and strings.
func isPath(v edn.Value) bool {
	for e := range v.Elems() {
		if _, isInt := e.AsInt(); !isInt && e.Kind() != edn.KindString {
			return false
		}
	}
	return isVector(v)
}

func isNumber(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindInt, edn.KindFloat, edn.KindDecimal:
		return true
	default:
		return false
	}
}
