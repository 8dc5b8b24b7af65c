package request

import "github.com/fermenthq/ferment/sdk/edn"

// maxFields is larger than any map of the contract.
const maxFields = 32

// fields collects the entries of one map without heap allocation. Keys are
// distinct; adding them in canonical order avoids sorting.
type fields struct {
	kv [2 * maxFields]edn.Value
	n  int
}

func (f *fields) set(key, v edn.Value) {
	f.kv[f.n], f.kv[f.n+1] = key, v
	f.n += 2
}

// keyword adds a name as a keyword, unless it is empty.
func (f *fields) keyword(key edn.Value, name string) {
	if name != "" {
		f.set(key, edn.K(name))
	}
}

// text adds a string, unless it is empty.
func (f *fields) text(key edn.Value, s string) {
	if s != "" {
		f.set(key, edn.Text(s))
	}
}

// nonEmpty adds a collection, unless it is empty.
func (f *fields) nonEmpty(key, v edn.Value) {
	if v.Len() > 0 {
		f.set(key, v)
	}
}

// flag adds a boolean, unless it is false.
func (f *fields) flag(key edn.Value, b bool) {
	if b {
		f.set(key, edn.Bool(true))
	}
}

func (f *fields) value() edn.Value { return edn.MustMap(f.kv[:f.n]...) }
