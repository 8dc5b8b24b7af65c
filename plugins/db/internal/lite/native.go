package lite

import (
	"strings"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// native is a connection, with the functions of SQLite that this package needs. Only interrupt may
// be called from another goroutine.
type native struct {
	tls    *libc.TLS
	db     uintptr
	writes bool // the call may write
}

// memory is the maximum memory of SQLite for one call, in bytes.
const memory = 192 << 20

// start configures the library. It must be called once, before the first connection of the process.
func start(tls *libc.TLS) {
	va := libc.Xmalloc(tls, 16)
	defer libc.Xfree(tls, va)
	sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MEMSTATUS, libc.VaList(va, int32(1)))
	// Journals of statements stay in memory: a confined process opens no file.
	sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_STMTJRNL_SPILL, libc.VaList(va, int32(-1)))
	sqlite3.Xsqlite3_initialize(tls)
	sqlite3.Xsqlite3_hard_heap_limit64(tls, memory)
}

// connect opens a file. The second result is the result code of SQLite. The caller must close the
// connection, also after a failure.
func connect(path string, flags int32) (*native, int32) {
	n := &native{tls: libc.NewTLS(), writes: flags&sqlite3.SQLITE_OPEN_READWRITE != 0}
	start(n.tls)
	name := n.cstring(path)
	defer n.free(name)
	out := n.alloc(8)
	defer n.free(out)
	rc := sqlite3.Xsqlite3_open_v2(n.tls, name, out, flags|sqlite3.SQLITE_OPEN_FULLMUTEX|sqlite3.SQLITE_OPEN_NOFOLLOW, 0)
	n.db = *at[uintptr](out)
	if rc != sqlite3.SQLITE_OK {
		return n, rc
	}
	sqlite3.Xsqlite3_extended_result_codes(n.tls, n.db, 1)
	for id, value := range map[int32]int32{
		sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_LENGTH: memory / 2,
	} {
		sqlite3.Xsqlite3_limit(n.tls, n.db, id, value)
	}
	va := n.alloc(16)
	defer n.free(va)
	for op, on := range map[int32]int32{
		sqlite3.SQLITE_DBCONFIG_DEFENSIVE: 1, sqlite3.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
		sqlite3.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: 0, sqlite3.SQLITE_DBCONFIG_ENABLE_FKEY: 1,
	} {
		sqlite3.Xsqlite3_db_config(n.tls, n.db, op, libc.VaList(va, on, uintptr(0)))
	}
	return n, rc
}

func (n *native) close() {
	if n.db != 0 {
		sqlite3.Xsqlite3_close_v2(n.tls, n.db)
	}
	n.tls.Close()
}

// restrict makes SQLite ask authorize about each statement that is prepared after it.
func (n *native) restrict(r rights) {
	callback := authorize
	sqlite3.Xsqlite3_set_authorizer(n.tls, n.db, *(*uintptr)(unsafe.Pointer(&callback)), uintptr(r))
}

// trust ends the effect of restrict, for statements of this package.
func (n *native) trust() { sqlite3.Xsqlite3_set_authorizer(n.tls, n.db, 0, 0) }

// interrupt ends the running statement, if there is one. It may be called from any goroutine.
func (n *native) interrupt() {
	tls := libc.NewTLS()
	sqlite3.Xsqlite3_interrupt(tls, n.db)
	tls.Close()
}

func (n *native) alloc(size int) uintptr { return libc.Xcalloc(n.tls, 1, libc.Tsize_t(size)) }

func (n *native) free(p uintptr) { libc.Xfree(n.tls, p) }

// cstring returns the address of a copy of s that ends with NUL. s must not contain NUL. The caller
// must free the copy.
func (n *native) cstring(s string) uintptr {
	p := n.alloc(len(s) + 1)
	copy(unsafe.Slice(at[byte](p), len(s)), s)
	return p
}

// at returns a pointer to the value at address p, which lies outside of the memory of Go.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// prepare prepares the only statement of a text. The fault is Invalid if there is none, and
// NotAllowed if there are more.
func (n *native) prepare(sql string) (uintptr, *result.Fault) {
	text := n.cstring(sql)
	defer n.free(text)
	statement, rest, rc := n.prepareNext(text)
	if rc != sqlite3.SQLITE_OK {
		return 0, n.fault(rc)
	}
	if statement == 0 {
		return 0, result.Faultf(result.Invalid, "the text contains no statement")
	}
	for *at[byte](rest) != 0 { // comments and empty statements may follow
		second, next, rc := n.prepareNext(rest)
		if second != 0 || rc != sqlite3.SQLITE_OK {
			sqlite3.Xsqlite3_finalize(n.tls, second)
			sqlite3.Xsqlite3_finalize(n.tls, statement)
			return 0, result.Faultf(result.NotAllowed, "the text contains more than one statement, expected one: "+
				"put several into :statements of :db/exec")
		}
		rest = next
	}
	return statement, nil
}

// prepareNext prepares the first statement of a text; rest is what follows it.
func (n *native) prepareNext(text uintptr) (statement, rest uintptr, rc int32) {
	out := n.alloc(16)
	defer n.free(out)
	rc = sqlite3.Xsqlite3_prepare_v3(n.tls, n.db, text, -1, 0, out, out+8)
	return *at[uintptr](out), *at[uintptr](out + 8), rc
}

// exec executes a statement of this package, with texts as parameters, and returns the texts of the
// first row, or nil if there is no row.
func (n *native) exec(sql string, texts ...string) ([]string, *result.Fault) {
	statement, fault := n.prepare(sql)
	if fault != nil {
		return nil, fault
	}
	defer sqlite3.Xsqlite3_finalize(n.tls, statement)
	for i, text := range texts {
		if rc := n.bindText(statement, int32(i+1), text); rc != sqlite3.SQLITE_OK {
			return nil, n.fault(rc)
		}
	}
	var row []string
	for {
		switch rc := sqlite3.Xsqlite3_step(n.tls, statement); rc {
		case sqlite3.SQLITE_ROW:
			if row == nil {
				for i := range sqlite3.Xsqlite3_column_count(n.tls, statement) {
					row = append(row, n.columnText(statement, i))
				}
			}
		case sqlite3.SQLITE_DONE:
			return row, nil
		default:
			return nil, n.fault(rc)
		}
	}
}

func (n *native) bindText(statement uintptr, i int32, text string) int32 {
	p := n.cstring(text)
	defer n.free(p)
	return sqlite3.Xsqlite3_bind_text(n.tls, statement, i, p, int32(len(text)), sqlite3.SQLITE_TRANSIENT)
}

func (n *native) columnText(statement uintptr, i int32) string {
	p := sqlite3.Xsqlite3_column_text(n.tls, statement, i)
	if p == 0 {
		return ""
	}
	return string(libc.GoBytes(p, int(sqlite3.Xsqlite3_column_bytes(n.tls, statement, i))))
}

// fault returns the fault for a result code of SQLite, with the message of the connection.
func (n *native) fault(rc int32) *result.Fault {
	message := "no connection"
	if n.db != 0 {
		message = strings.TrimSpace(libc.GoString(sqlite3.Xsqlite3_errmsg(n.tls, n.db)))
	}
	f := &result.Fault{Kind: result.Lost, Message: message, Code: libc.GoString(sqlite3.Xsqlite3_errstr(n.tls, rc))}
	switch rc & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_SCHEMA:
		f.Kind = result.Invalid
	case sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PERM:
		f.Kind, f.Message = result.NotAllowed, "the statement does what the scope does not allow: "+message
	case sqlite3.SQLITE_READONLY:
		if f.Kind = result.NotAllowed; !n.writes {
			break
		}
		f.Kind, f.Message = result.Unwritable, "the file of the database or its directory cannot be written: "+message
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		f.Kind = result.Busy
	case sqlite3.SQLITE_INTERRUPT:
		f.Kind, f.Message = result.Late, "the statement did not end in time"
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM:
		f.Kind = result.TooLarge
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		f.Kind = result.Constraint
	}
	return f
}
