package result

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Kind is the kind of a failure.
type Kind int

// The kinds. Only Busy and Lost can succeed on a retry.
const (
	Invalid    Kind = iota // the statement or a value is wrong
	Constraint             // the statement breaks a constraint of the data
	NotAllowed             // the statement does more than the scope allows
	TooLarge               // a limit of the scope or of the memory was exceeded
	Busy                   // a lock or a conflict prevents the call
	Lost                   // the database cannot be reached or read
	Missing                // there is no such database
	Unwritable             // the file of the database is read-only for the plugin
	Late                   // the time limit has passed
	Unheld                 // the rights of the connection cannot be confined
)

// Fault is a failure in a database.
type Fault struct {
	Kind    Kind
	Message string
	Code    string // the code of the database; may be empty
	// Unsure is set if the call may have been committed, so that its outcome is
	// unknown.
	Unsure bool
}

// Faultf returns a fault with a formatted message.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Error returns the fault as the error of a call of tool t on the named connection.
func (f *Fault) Error(t effects.Tool, connection string) *contract.Error {
	var e *contract.Error
	where := fmt.Sprintf("connection %s: %s", connection, f.Message)
	switch f.Kind {
	case NotAllowed:
		e = effects.Denied("statement-not-allowed", t, "%s", where)
	case TooLarge:
		e = effects.Denied("max-bytes", t, "%s", where)
	case Constraint:
		e = effects.InvalidInput("sql/constraint", t, "%s", where)
	case Busy:
		e = contract.Errorf("effects/runtime-failed", ":%s: %s", t.ID, where).WithHint("send the call again")
	case Lost:
		e = contract.Errorf("effects/runtime-failed", ":%s: %s", t.ID, where).
			WithHint("check that the database runs, and the connection in the effects block of ferment.hcl")
	case Missing:
		e = contract.Errorf("effects/runtime-missing", ":%s: %s", t.ID, where).
			WithHint("correct the connection in the effects block of ferment.hcl")
	case Unwritable:
		e = contract.Errorf("effects/runtime-failed", ":%s: %s", t.ID, where).WithRetryable(false).
			WithHint("let the user of the daemon write there; a service manager may mount it read-only, " +
				"see ReadWritePaths of \"ferment admin systemd-unit\"")
	case Late:
		e = contract.Errorf("timeout/hard", ":%s: %s", t.ID, where).
			WithHint("allow more time with :timeout-ms, or with timeout of the scope in ferment.hcl")
	case Unheld:
		e = contract.Errorf("effects/not-enforceable", ":%s: %s", t.ID, where).
			WithHint("give the connection a role that has only the rights that calls need")
	default:
		e = effects.InvalidInput("sql/invalid", t, "%s", where)
	}
	if f.Code != "" {
		e = e.WithDetail("db/code", edn.Text(f.Code))
	}
	if f.Unsure {
		e = e.WithDetail("effect/state", edn.K("unknown")).
			WithHint("look at the database before you send the statements again")
	}
	return e.WithDetail("connection", edn.Text(connection))
}

// EffectsTable is the table in a database that holds the effect keys of executed calls. An operator
// may delete old rows: the key of a call is needed as long as its run can be resumed.
const EffectsTable = "ferment_effects"

// Stored is a row of EffectsTable: the statements of a call, and its answer.
type Stored struct{ Statements, Answer string }
