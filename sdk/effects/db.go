package effects

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Defaults and bounds of calls of database tools.
const (
	DefaultDBTimeout = 10 * time.Second
	DefaultDBRows    = 10_000
	DefaultDBBytes   = 4 << 20

	MaxSQL        = 64 << 10 // bytes of one statement
	MaxStatements = 64       // of one call
	MaxParameters = 1000     // of one statement
)

// Statement is one SQL statement with the values of its parameters.
type Statement struct {
	SQL        string
	Parameters []edn.Value
}

// Work is the parsed input of a call of a database tool.
type Work struct {
	Connection string
	Statements []Statement // one for db/query
	Timeout    time.Duration
}

// Work returns the connection, statements and timeout of a call of a database
// tool, or the error if the input is invalid or the scope does not permit the
// connection. The executor decides whether the statements are allowed, because
// it knows the database.
func (t Tool) Work(input edn.Value, s *Scope) (Work, *contract.Error) {
	name := scopeWord(input.Key("connection"))
	switch {
	case name == "":
		return Work{}, InvalidInput("schema", t, "expected the name of a connection in :connection, found a value of kind %s",
			input.Key("connection").Kind())
	case !slices.Contains(s.Connections.V, name):
		return Work{}, Denied("connection-not-allowed", t,
			"the connection %q is not one of the allowed connections: %s", name,
			listed(s.Connections.V))
	}
	w := Work{Connection: name, Timeout: s.Timeout.Duration(DefaultDBTimeout)}
	if v := input.Key("timeout-ms"); !v.IsNil() {
		n, ok := v.AsInt()
		if !ok || n < 1 || n > w.Timeout.Milliseconds() {
			return Work{}, InvalidInput("timeout/range", t, "expected 1..%d in :timeout-ms, found %.80s",
				w.Timeout.Milliseconds(), v)
		}
		w.Timeout = time.Duration(n) * time.Millisecond
	}
	forms, err := t.statementForms(input)
	if err != nil {
		return Work{}, err
	}
	for _, form := range forms {
		statement, err := t.statement(form)
		if err != nil {
			return Work{}, err
		}
		w.Statements = append(w.Statements, statement)
	}
	return w, nil
}

// statementForms returns the maps with a statement each: the input itself, or
// the members of its :statements.
func (t Tool) statementForms(input edn.Value) ([]edn.Value, *contract.Error) {
	several := input.Key("statements")
	if several.IsNil() {
		return []edn.Value{input}, nil
	}
	switch {
	case t.ID != "db/exec":
		return nil, InvalidInput("schema", t, "the :statements are for :db/exec; a query has one :sql")
	case input.HasKey("sql") || input.HasKey("parameters"):
		return nil, InvalidInput("schema", t, "the input has :statements and also :sql or :parameters, expected one form")
	case several.Kind() != edn.KindVector && several.Kind() != edn.KindList:
		return nil, InvalidInput("schema", t, "expected a list in :statements, found a value of kind %s", several.Kind())
	case several.Len() == 0 || several.Len() > MaxStatements:
		return nil, InvalidInput("schema", t, "expected 1 to %d :statements, found %d", MaxStatements, several.Len())
	}
	return slices.Collect(several.Elems()), nil
}

func (t Tool) statement(form edn.Value) (Statement, *contract.Error) {
	text, ok := form.Key("sql").AsString()
	switch {
	case !ok:
		return Statement{}, InvalidInput("schema", t, "expected a statement as text in :sql, found a value of kind %s",
			form.Key("sql").Kind())
	case strings.TrimSpace(text) == "":
		return Statement{}, InvalidInput("schema", t, "expected a statement in :sql, found a blank text")
	case len(text) > MaxSQL:
		return Statement{}, InvalidInput("schema", t, "the :sql has %d bytes, the limit is %d", len(text), MaxSQL)
	case strings.ContainsRune(text, 0):
		return Statement{}, InvalidInput("sql/invalid", t, "the :sql contains a NUL character")
	}
	s := Statement{SQL: text}
	v := form.Key("parameters")
	switch {
	case v.IsNil():
		return s, nil
	case v.Kind() != edn.KindVector && v.Kind() != edn.KindList:
		return s, InvalidInput("schema", t, "expected a list in :parameters, found a value of kind %s", v.Kind())
	case v.Len() > MaxParameters:
		return s, InvalidInput("schema", t, "the statement has %d :parameters, the limit is %d", v.Len(), MaxParameters)
	}
	s.Parameters = slices.Collect(v.Elems())
	return s, nil
}
