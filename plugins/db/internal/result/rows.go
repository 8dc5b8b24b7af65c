package result

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Bounds limit the rows of an answer.
type Bounds struct {
	Rows  int64
	Bytes int64 // of the canonical text of all rows
	// Whole returns an error instead of cutting off rows that exceed the bounds,
	// because rows of a statement that changed data must not be lost.
	Whole bool
}

// Column is a column of an answer.
type Column struct {
	Name string
	Type string // the name in the database; empty if unknown
}

// Rows are the rows of one statement.
type Rows struct {
	// Affected is the number of rows that the statement inserted, changed or
	// deleted.
	Affected int64

	bounds    *Bounds // the remaining bounds, shared by the statements of a call
	types     map[string]string
	columns   []Column
	keys      []edn.Value
	rows      []edn.Value
	buffer    []byte
	truncated bool
}

// NewRows returns an empty Rows that subtracts its rows from bounds; several
// Rows may share bounds. types maps a column to the type as which its values
// are converted.
func NewRows(bounds *Bounds, types map[string]string) *Rows {
	return &Rows{bounds: bounds, types: types}
}

// Begin sets the columns. It must be called once, before the first row is added. The fault is
// Invalid if two columns have the same name, or if :types names a column that is missing (only
// without Whole).
func (r *Rows) Begin(columns []Column) *Fault {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
		r.keys = append(r.keys, key(c.Name))
	}
	r.columns = columns
	for name := range r.types {
		if !r.bounds.Whole && !slices.Contains(names, name) {
			return Faultf(Invalid, "the answer does not have the column %q of :types", name)
		}
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i-1] == names[i] {
			return Faultf(Invalid, "the answer has two columns %q: rename one of them with AS", names[i])
		}
	}
	return nil
}

// key returns the key of a column in a row: a keyword if the name can be one, as
// in the JSON view of values.
func key(name string) edn.Value {
	if k, err := edn.Keyword(name); err == nil {
		return k
	}
	return edn.Text(name)
}

// Add adds a row with the values in the order of the columns. more is false if no further row can
// be added; the row itself is then not added. The fault is Invalid for a value that cannot be
// converted, and TooLarge if the row exceeds the bounds and cannot be omitted.
func (r *Rows) Add(values []edn.Value) (more bool, _ *Fault) {
	if r.bounds.Rows == 0 {
		return r.full("more rows than the scope allows")
	}
	list := make([]edn.Value, 0, 2*len(values))
	for i, v := range values {
		v, err := convert(v, r.types[r.columns[i].Name])
		if err != nil {
			return false, Faultf(Invalid, "column %q: %s", r.columns[i].Name, err)
		}
		list = append(list, r.keys[i], v)
	}
	row := edn.MustMap(list...)
	r.buffer = row.AppendCanonical(r.buffer[:0])
	if size := int64(len(r.buffer)); size > r.bounds.Bytes {
		return r.Overflow(size)
	}
	r.bounds.Rows--
	r.bounds.Bytes -= int64(len(r.buffer))
	r.rows = append(r.rows, row)
	return true, nil
}

// Room returns the maximum size of a further row, in bytes.
func (r *Rows) Room() int64 { return r.bounds.Bytes }

// Overflow records a row of size bytes that is larger than Room, without its
// values. Its results are those of Add.
func (r *Rows) Overflow(size int64) (more bool, _ *Fault) {
	if len(r.rows) == 0 && !r.bounds.Whole {
		return false, Faultf(TooLarge, "the first row has %d bytes or more, the limit is %d", size, r.bounds.Bytes)
	}
	return r.full("more bytes than the scope allows")
}

func (r *Rows) full(why string) (bool, *Fault) {
	if r.bounds.Whole {
		return false, Faultf(TooLarge, "the answer has %s; nothing was changed", why)
	}
	r.truncated = true
	return false, nil
}

// Columned reports whether the statement returned columns.
func (r *Rows) Columned() bool { return len(r.columns) > 0 }

// Value returns the columns, the rows, and whether rows were omitted, as entries of the answer.
func (r *Rows) Value() edn.Value {
	columns := make([]edn.Value, len(r.columns))
	for i, c := range r.columns {
		var m edn.MapBuilder
		m.Key("name", edn.Text(c.Name))
		if c.Type != "" {
			m.Key("type", edn.Text(c.Type))
		}
		columns[i] = m.Map()
	}
	return edn.MustMap(edn.K("columns"), edn.Vector(columns...), edn.K("rows"), edn.Vector(r.rows...),
		edn.K("truncated?"), edn.Bool(r.truncated))
}
