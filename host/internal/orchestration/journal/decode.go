package journal

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Decoder reads the stored records of one run, in the order of their Seq. It may start
// at any record. With the zero value all references have nil values. Records for which
// [Decoder.Ordered] is false may be decoded concurrently and in any order; a Decoder is
// otherwise for one goroutine.
type Decoder struct {
	// Values returns a stored value by its hash, nil if it is not stored. It is called by
	// Ref.Value, so it must be safe for concurrent use if the decoded records are used
	// concurrently. Nil: no value is stored.
	Values func(hash string) edn.Value

	reserved map[int]*BudgetReserved
}

// Ordered reports whether a stored record must be decoded in the order of Seq, because
// it is a reservation or refers to one.
func (d *Decoder) Ordered(v edn.Value) bool {
	kind, _ := v.Key("kind").AsKeyword()
	return Kind(kind) == KindBudgetReserved || Kind(kind) == KindBudgetSettled
}

// Decode is the inverse of [Record.Value]. The error is a *contract.Error of type
// journal/damaged, which names a key that is missing, unknown or ill-typed.
func (d *Decoder) Decode(v edn.Value) (Record, error) {
	rec, bad := d.decode(v)
	if bad != "" {
		return Record{}, contract.Errorf("journal/damaged", "journal: record %d of run %q: %s", rec.Seq, rec.Run, bad)
	}
	if reservation, ok := rec.Body.(*BudgetReserved); ok {
		reservation.seq = rec.Seq
		if d.reserved == nil {
			d.reserved = map[int]*BudgetReserved{}
		}
		d.reserved[rec.Seq] = reservation
	}
	return rec, nil
}

func (d *Decoder) decode(v edn.Value) (rec Record, bad string) {
	kind, _ := v.Key("kind").AsKeyword()
	rec.Run, _ = v.Key("run").AsString()
	rec.Seq, _ = asInt(v.Key("seq"))
	rec.At, _ = v.Key("at").AsInst()
	rec.Epoch, _ = asInt(v.Key("epoch"))
	if version, _ := v.Key("v").AsInt(); version != Version {
		return rec, ":v is " + v.Key("v").String() + ", and this build reads " + edn.Int(Version).String()
	}
	description := byKind[Kind(kind)]
	if description == nil {
		return rec, ":kind is " + v.Key("kind").String() + ", and this build does not know it"
	}
	if description.hasPath() {
		if rec.Path = v.Key("path"); !isPath(rec.Path) {
			return rec, ":path is ill-typed"
		}
		rec.Node, _ = v.Key("node").AsString()
	}
	if rec.Body, bad = description.take(v, d); bad != "" {
		return rec, ":" + bad + " is ill-typed"
	}
	if err := rec.Check(); err != nil {
		return rec, contract.AsError(err).Message
	}
	if written := rec.Value(); !written.Equal(v) {
		return rec, difference(v, written) + " is missing, unknown or ill-typed"
	}
	return rec, ""
}

// difference returns a key that only one of two records has, or with different values.
func difference(found, written edn.Value) string {
	for _, pair := range [][2]edn.Value{{found, written}, {written, found}} {
		for key, v := range pair[0].Entries() {
			if other, ok := pair[1].Get(key); !ok || !other.Equal(v) {
				return key.String()
			}
		}
	}
	return "a key"
}

// ref returns a reference to a stored value by its hash.
func (d *Decoder) ref(hash string) Ref { return stored(hash, lookup{d.Values, hash}) }

// reservation returns a decoded reservation, or a placeholder for one before the
// first decoded record.
func (d *Decoder) reservation(seq int) *BudgetReserved {
	if r := d.reserved[seq]; r != nil {
		return r
	}
	return &BudgetReserved{seq: seq}
}

// lookup is a Valuer that looks a stored value up by its hash.
type lookup struct {
	values func(hash string) edn.Value
	hash   string
}

// Value implements Valuer.
func (l lookup) Value() edn.Value {
	if l.values == nil {
		return edn.Nil()
	}
	return l.values(l.hash)
}

// Refs calls yield with each reference to a value that a store must store with the
// record.
func (r Record) Refs(yield func(Ref)) { r.Body.describe().refs(r.Body, yield) }
