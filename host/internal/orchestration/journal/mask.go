package journal

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// minSecret is the minimum length in bytes of a secret text that is replaced wherever it
// occurs. A shorter text would match by chance.
const minSecret = 8

// maskStart is the prefix of the text of every replacement, maskLength its length in
// bytes.
var (
	maskStart  = strings.TrimSuffix(schema.SecretHash("").String(), `"`)
	maskLength = len(schema.SecretHash(strings.Repeat("0", 64)).String())
)

// Mask replaces the secrets of a run in its records: the values that a schema marks with
// :secret (JRN-022). An entry of a map is replaced wherever its key and value are those
// of a marked entry; so is a text of at least 8 bytes that is or is in a marked value,
// wherever it occurs. The replacement is #ferment/secret with a keyed hash of the value.
//
// A Mask is safe for concurrent use. A nil Mask has no secrets.
type Mask struct {
	key []byte

	mu     sync.RWMutex
	marked map[string]map[string]edn.Value // replacements, by key and value of the entry
	texts  []string                        // the longest first
	known  map[string]edn.Value            // secrets by their replacement
}

// NewMask returns a mask without secrets. The key has 32 bytes; it determines the hashes.
func NewMask(key []byte) *Mask {
	return &Mask{key: key, marked: map[string]map[string]edn.Value{}, known: map[string]edn.Value{}}
}

// Any reports whether the mask has a secret.
func (m *Mask) Any() bool {
	if m == nil {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.known) > 0
}

// Learn adds the parts of v that the schema s marks as secret. A nil schema marks none.
func (m *Mask) Learn(s *schema.Schema, v edn.Value) {
	if m == nil || s == nil || !s.HidesSecret() {
		return
	}
	s.Replace(v, schema.Secret, func(path []edn.Value, found edn.Value) edn.Value {
		keys := []edn.Value{edn.K("input"), edn.K("out")} // the keys of a whole value
		if len(path) > 0 {
			keys = path[len(path)-1:]
		}
		m.Add(found, keys...)
		return found
	})
}

// Add adds a secret. Map entries with one of the keys and this value are replaced, and
// so are its texts of at least 8 bytes wherever they occur.
func (m *Mask) Add(secret edn.Value, keys ...edn.Value) {
	if m == nil || secret.IsNil() || Masked(secret) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tag := m.replacement(secret)
	for _, key := range keys {
		if key.Kind() == edn.KindInt {
			continue // a place in a vector
		}
		name := key.String()
		if m.marked[name] == nil {
			m.marked[name] = map[string]edn.Value{}
		}
		m.marked[name][string(secret.Canonical())] = tag
	}
	m.addTexts(secret)
}

// replacement returns the tagged hash that replaces a secret, and stores the secret for
// Restore. The caller holds m.mu.
func (m *Mask) replacement(secret edn.Value) edn.Value {
	h := blake3.New(32, m.key)
	_, _ = h.Write(secret.Canonical()) // never fails
	tag := schema.SecretHash(hex.EncodeToString(h.Sum(nil)))
	m.known[tag.String()] = secret
	return tag
}

// addTexts adds the texts in a secret that have at least minSecret bytes. The caller
// holds m.mu.
func (m *Mask) addTexts(secret edn.Value) {
	if text, ok := secret.AsString(); ok {
		if len(text) >= minSecret && !slices.Contains(m.texts, text) {
			m.replacement(secret)
			m.texts = append(m.texts, text)
			slices.SortStableFunc(m.texts, func(a, b string) int { return len(b) - len(a) })
		}
		return
	}
	for key, v := range secret.Entries() {
		m.addTexts(key)
		m.addTexts(v)
	}
	if !secret.IsMap() {
		for v := range secret.Elems() {
			m.addTexts(v)
		}
	}
}

// Value returns v with every secret replaced by its tagged hash.
func (m *Mask) Value(v edn.Value) edn.Value {
	if !m.Any() {
		return v
	}
	m.mu.Lock() // a text may get a replacement
	defer m.mu.Unlock()
	return m.mask(v, true)
}

// mask is Value. If tags is false, a secret text is replaced by text instead of a tagged
// value. The caller holds m.mu.
func (m *Mask) mask(v edn.Value, tags bool) edn.Value {
	if text, ok := v.AsString(); ok {
		if tags && slices.Contains(m.texts, text) {
			return m.replacement(v)
		}
		return edn.Text(m.text(text))
	}
	return mapValues(v, func(key, v edn.Value) edn.Value {
		if tag, ok := m.marked[key.String()][string(v.Canonical())]; ok && !key.IsNil() {
			return tag
		}
		return m.mask(v, tags)
	})
}

// text replaces the secrets in a text. The caller holds m.mu.
func (m *Mask) text(text string) string {
	for _, secret := range m.texts {
		if strings.Contains(text, secret) {
			text = strings.ReplaceAll(text, secret, m.replacement(edn.Text(secret)).String())
		}
	}
	return text
}

// mapValues returns v with f applied to its direct members: to map values with their
// key, to map keys and all other members with a nil key.
func mapValues(v edn.Value, f func(key, v edn.Value) edn.Value) edn.Value {
	switch v.Kind() {
	case edn.KindMap:
		out := v
		for key, val := range v.Entries() {
			newKey, newVal := f(edn.Nil(), key), f(key, val)
			if !edn.Equal(newKey, key) {
				out = out.Dissoc(key)
			}
			if !edn.Equal(newKey, key) || !edn.Equal(newVal, val) {
				out = out.Assoc(newKey, newVal)
			}
		}
		return out
	case edn.KindVector, edn.KindList, edn.KindSet:
		changed, members := false, make([]edn.Value, 0, v.Len())
		for member := range v.Elems() {
			one := f(edn.Nil(), member)
			changed = changed || !edn.Equal(one, member)
			members = append(members, one)
		}
		switch {
		case !changed:
			return v
		case v.Kind() == edn.KindSet:
			return edn.SetOf(members...)
		case v.Kind() == edn.KindList:
			return edn.List(members...)
		}
		return edn.Vector(members...)
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		if one := f(edn.Nil(), inner); !edn.Equal(one, inner) {
			if masked, err := edn.Tagged(tag, one); err == nil {
				return masked
			}
			return one
		}
	}
	return v
}

// Record returns a record with the secrets in its fields and referenced values replaced.
// The error is that of Decoder.Decode.
func (m *Mask) Record(rec Record) (Record, error) {
	if !m.Any() {
		return rec, nil
	}
	whole := rec.Value()
	values, other := map[string]edn.Value{}, map[string]string{}
	rec.Refs(func(ref Ref) {
		hash, v := ref.Hash(), ref.Value()
		masked := m.Value(v)
		if !edn.Equal(masked, v) {
			other[hash] = edn.Hash(masked)
			hash = other[hash]
		}
		values[hash] = masked
	})
	m.mu.Lock()
	out := whole
	for key, v := range whole.Entries() {
		text, _ := v.AsString()
		if hash := other[text]; hash != "" {
			out = out.Assoc(key, edn.Text(hash))
			continue
		}
		// Fields that are text or errors keep their type: a secret in them is replaced by text.
		name, _ := key.AsKeyword()
		if masked := m.mask(v, v.Kind() != edn.KindString && name != "error"); !edn.Equal(masked, v) {
			out = out.Assoc(key, masked)
		}
	}
	m.mu.Unlock()
	if out.Equal(whole) {
		return rec, nil
	}
	d := Decoder{Values: func(hash string) edn.Value { return values[hash] }}
	return d.Decode(out)
}

// Restore returns v with the replacements of secrets that the mask has replaced by the
// secrets. It is the inverse of Value.
func (m *Mask) Restore(v edn.Value) edn.Value {
	if !m.Any() {
		return v
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.restore(v)
}

// restore is Restore; the caller holds m.mu.
func (m *Mask) restore(v edn.Value) edn.Value {
	if secret, ok := m.known[v.String()]; ok && v.Kind() == edn.KindTagged {
		return secret
	}
	if text, ok := v.AsString(); ok {
		return edn.Text(m.restoreText(text))
	}
	return mapValues(v, func(_, v edn.Value) edn.Value { return m.restore(v) })
}

// restoreText is Restore for the replacements in a text; the caller holds m.mu.
func (m *Mask) restoreText(text string) string {
	for at := 0; ; {
		next := strings.Index(text[at:], maskStart)
		if at += next; next < 0 || at+maskLength > len(text) {
			return text
		}
		if secret, known := m.known[text[at:at+maskLength]].AsString(); known {
			text = text[:at] + secret + text[at+maskLength:]
			at += len(secret)
		} else {
			at += len(maskStart)
		}
	}
}

// Masked reports whether v contains the replacement of a secret.
func Masked(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		return strings.Contains(text, maskStart)
	case edn.KindTagged:
		_, inner, _ := v.AsTagged()
		return schema.IsSecretHash(v) || Masked(inner)
	case edn.KindMap:
		for key, val := range v.Entries() {
			if Masked(key) || Masked(val) {
				return true
			}
		}
	case edn.KindVector, edn.KindList, edn.KindSet:
		for member := range v.Elems() {
			if Masked(member) {
				return true
			}
		}
	}
	return false
}
