package journal

import "github.com/fermenthq/ferment/sdk/edn"

// apartTag marks the hash of a value that a store keeps apart from the record, so that a purge of the run erases it
// (JRN-061). No value of a plan or a plugin has a tag of the namespace ferment.
const apartTag = "ferment/value"

// erased is in place of a text that was purged, or that this process cannot read.
const erased = "the text was purged"

// Stored returns the record in the form in which a store writes and hashes it: as Value, but erasable values are
// replaced by their hashes. Refs has these values.
func (r Record) Stored() edn.Value {
	v := r.Value()
	r.toStore(func(key, whole edn.Value) { v = v.Assoc(key, hashed(whole)) })
	return v
}

// toStore yields the erasable values of a record that is not stored yet, with their keys.
func (r Record) toStore(yield func(key, whole edn.Value)) {
	r.Body.describe().erasable(r.Body, func(key, whole edn.Value) {
		if holds(whole) {
			yield(key, whole)
		}
	})
}

// holds reports whether a value has anything to erase.
func holds(v edn.Value) bool {
	text, isText := v.AsString()
	return !(isText && text == "" || v.IsNil() || v.Kind() == edn.KindVector && v.Len() == 0)
}

// hashKey is the key of the hash in a map of which a part stays in the record.
var hashKey = edn.K("value")

// kept are the keys of maps that stay in the record: the classification of an error, and the model of an answer.
var (
	errorKeys  = []edn.Value{edn.K("class"), edn.K("retryable?"), edn.K("source"), edn.K("type")}
	otherKeys  = []edn.Value{edn.K("model")}
	messageKey = edn.K("message")
)

func kept(v edn.Value) []edn.Value {
	if v.Key("type").IsKeyword() && v.Key("class").IsKeyword() {
		return errorKeys
	}
	return otherKeys
}

// hashed returns what a stored record has in place of an erasable value: its hash, in a map beside the keys that stay.
func hashed(whole edn.Value) edn.Value {
	hash := edn.MustTagged(apartTag, edn.Text(edn.Hash(whole)))
	if !whole.IsMap() {
		return hash
	}
	out := edn.MustMap(hashKey, hash)
	for _, key := range kept(whole) {
		if v, ok := whole.Get(key); ok {
			out = out.Assoc(key, v)
		}
	}
	return out
}

// apartHash returns the hash in a value of a stored record; empty: the value itself is in the record.
func apartHash(v edn.Value) string {
	if v.IsMap() {
		v, _ = v.Get(hashKey)
	}
	tag, inner, _ := v.AsTagged()
	hash, _ := inner.AsString()
	if tag != apartTag || !isHash(hash) {
		return ""
	}
	return hash
}

// whole returns a stored record with the erasable values in place of their hashes, as Value does, and references to
// these values.
func (d *Decoder) whole(v edn.Value, kind description) (out edn.Value, refs []Ref) {
	out = v
	kind.apart(func(key, blank edn.Value) {
		put, ok := v.Get(key)
		hash := apartHash(put)
		if !ok || hash == "" { // the record is of an older host
			return
		}
		ref := d.ref(hash)
		refs = append(refs, ref)
		value := ref.Value()
		switch {
		case !value.IsNil():
		case put.HasKey("class"):
			value = put.Dissoc(hashKey).Assoc(messageKey, edn.Text(erased))
		case put.IsMap():
			value = put.Dissoc(hashKey)
		default:
			value = blank
		}
		out = out.Assoc(key, value)
	})
	return out, refs
}
