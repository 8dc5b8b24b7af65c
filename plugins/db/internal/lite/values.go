package lite

import (
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/edn"
)

// bind sets the parameters of a statement. ? and ?1 are numbered as in SQLite, $1 and :1 by their
// number; a parameter with another name is a fault, and so is a value that the statement does not
// use.
func (db *DB) bind(statement uintptr, values []edn.Value) *result.Fault {
	n := sqlite3.Xsqlite3_bind_parameter_count(db.tls, statement)
	used := make([]bool, len(values))
	for i := int32(1); i <= n; i++ {
		at := int(i)
		if name := sqlite3.Xsqlite3_bind_parameter_name(db.tls, statement, i); name != 0 {
			number, err := strconv.Atoi(libc.GoString(name)[1:])
			if err != nil || number < 1 {
				return result.Faultf(result.Invalid, "the parameter %s has no number: write $1, $2 and so on",
					libc.GoString(name))
			}
			at = number
		}
		if at > len(values) {
			return result.Faultf(result.Invalid, "the statement has a parameter %d, but the input has %d :parameters",
				at,
				len(values))
		}
		used[at-1] = true
		if fault := db.bindOne(statement, i, at, values[at-1]); fault != nil {
			return fault
		}
	}
	for i, is := range used {
		if !is {
			return result.Faultf(result.Invalid, "the statement does not use parameter %d of the :parameters", i+1)
		}
	}
	return nil
}

func (db *DB) bindOne(statement uintptr, i int32, number int, v edn.Value) *result.Fault {
	var rc int32
	switch v.Kind() {
	case edn.KindNil:
		rc = sqlite3.Xsqlite3_bind_null(db.tls, statement, i)
	case edn.KindBool:
		is, _ := v.AsBool()
		rc = sqlite3.Xsqlite3_bind_int64(db.tls, statement, i, libc.Int64FromInt32(libc.Bool32(is)))
	case edn.KindFloat:
		x, _ := v.AsFloat()
		rc = sqlite3.Xsqlite3_bind_double(db.tls, statement, i, x)
	default:
		if x, ok := v.AsInt(); ok {
			rc = sqlite3.Xsqlite3_bind_int64(db.tls, statement, i, x)
			break
		}
		if b, ok := result.AsBytes(v); ok {
			rc = db.bindBlob(statement, i, b)
			break
		}
		text, fault := textOf(v, number)
		if fault != nil {
			return fault
		}
		rc = db.bindText(statement, i, text)
	}
	if rc != sqlite3.SQLITE_OK {
		return db.fault(rc)
	}
	return nil
}

// textOf returns a value of a kind for which SQLite has no type, as text. number is that of the
// parameter, for the fault.
func textOf(v edn.Value, number int) (string, *result.Fault) {
	if s, ok := v.AsString(); ok {
		return s, nil
	}
	if v.IsDecimal() {
		text := v.String()
		return text[:len(text)-1], nil // without M
	}
	if t, ok := v.AsInst(); ok {
		return result.Instant(t), nil
	}
	if u, ok := v.AsUUID(); ok {
		return result.UUIDText(u), nil
	}
	text, ok, err := result.JSON(v)
	switch {
	case err != nil:
		return "", result.Faultf(result.Invalid, "parameter %d: %s", number, err)
	case !ok:
		return "", result.Faultf(result.Invalid, "parameter %d: SQLite has no value for a %s", number, v.Kind())
	}
	return text, nil
}

func (db *DB) bindBlob(statement uintptr, i int32, b []byte) int32 {
	if len(b) == 0 {
		return sqlite3.Xsqlite3_bind_zeroblob(db.tls, statement, i, 0)
	}
	p := db.alloc(len(b))
	defer db.free(p)
	copy(unsafe.Slice(at[byte](p), len(b)), b)
	return sqlite3.Xsqlite3_bind_blob(db.tls, statement, i, p, int32(len(b)), sqlite3.SQLITE_TRANSIENT)
}

// collect steps through the rows of a statement. If into takes no further row, a read ends early; a
// statement that changes something is executed to its end or fails.
func (db *DB) collect(statement uintptr, into *result.Rows) *result.Fault {
	n := sqlite3.Xsqlite3_column_count(db.tls, statement)
	columns := make([]result.Column, n)
	for i := range n {
		columns[i] = result.Column{
			Name: libc.GoString(sqlite3.Xsqlite3_column_name(db.tls, statement, i)),
			Type: libc.GoString(sqlite3.Xsqlite3_column_decltype(db.tls, statement, i)),
		}
	}
	if fault := into.Begin(columns); fault != nil {
		return fault
	}
	row := make([]edn.Value, n)
	for {
		switch rc := sqlite3.Xsqlite3_step(db.tls, statement); rc {
		case sqlite3.SQLITE_DONE:
			return nil
		case sqlite3.SQLITE_ROW:
		default:
			return db.fault(rc)
		}
		if size := db.size(statement, n); size > into.Room() {
			_, fault := into.Overflow(size)
			return fault
		}
		for i := range n {
			v, fault := db.column(statement, i)
			if fault != nil {
				return fault
			}
			row[i] = v
		}
		if more, fault := into.Add(row); fault != nil || !more {
			return fault
		}
	}
}

// size returns the total size of the texts and byte strings of the current row, in bytes.
func (db *DB) size(statement uintptr, columns int32) (size int64) {
	for i := range columns {
		switch sqlite3.Xsqlite3_column_type(db.tls, statement, i) {
		case sqlite3.SQLITE_TEXT, sqlite3.SQLITE_BLOB:
			size += int64(sqlite3.Xsqlite3_column_bytes(db.tls, statement, i))
		}
	}
	return size
}

func (db *DB) column(statement uintptr, i int32) (edn.Value, *result.Fault) {
	switch sqlite3.Xsqlite3_column_type(db.tls, statement, i) {
	case sqlite3.SQLITE_INTEGER:
		return edn.Int(sqlite3.Xsqlite3_column_int64(db.tls, statement, i)), nil
	case sqlite3.SQLITE_FLOAT:
		x := sqlite3.Xsqlite3_column_double(db.tls, statement, i)
		if math.IsInf(x, 0) {
			return edn.Nil(), result.Faultf(result.Invalid, "column %d contains an infinity: read it with CAST AS TEXT",
				i+1)
		}
		v, err := edn.Float(x)
		if err != nil {
			return edn.Nil(), result.Faultf(result.Invalid, "column %d: %s", i+1, err)
		}
		return v, nil
	case sqlite3.SQLITE_TEXT:
		text := db.columnText(statement, i)
		if !utf8.ValidString(text) {
			return edn.Nil(), result.Faultf(result.Invalid,
				"column %d contains text that is not UTF-8: read it with CAST AS BLOB", i+1)
		}
		return edn.Text(text), nil
	case sqlite3.SQLITE_BLOB:
		p := sqlite3.Xsqlite3_column_blob(db.tls, statement, i)
		if p == 0 {
			return result.Bytes(nil), nil
		}
		return result.Bytes(libc.GoBytes(p, int(sqlite3.Xsqlite3_column_bytes(db.tls, statement, i)))), nil
	}
	return edn.Nil(), nil
}
