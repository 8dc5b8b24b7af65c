package journal

import (
	"fmt"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Version is the value of :v. A change of the columns of a kind needs a new version.
const Version = 1

// Kind names a kind of record, without the leading colon.
type Kind string

// The kinds that this host writes.
const (
	KindRunAccepted       Kind = "run/accepted"
	KindRunStarted        Kind = "run/started"
	KindRunResumed        Kind = "run/resumed"
	KindPlanResolved      Kind = "plan/resolved"
	KindNodeResolved      Kind = "node/resolved"
	KindNodeSkipped       Kind = "node/skipped"
	KindAttemptStarted    Kind = "attempt/started"
	KindAttemptChunk      Kind = "attempt/chunk"
	KindAttemptRetracted  Kind = "attempt/retracted"
	KindAttemptFinished   Kind = "attempt/finished"
	KindGateVerdict       Kind = "gate/verdict"
	KindNodeCommitted     Kind = "node/committed"
	KindNodeFailed        Kind = "node/failed"
	KindBudgetReserved    Kind = "budget/reserved"
	KindBudgetSettled     Kind = "budget/settled"
	KindEnvRead           Kind = "env/read"
	KindInterruptOpened   Kind = "interrupt/opened"
	KindInterruptAnswered Kind = "interrupt/answered"
	KindCancelRequested   Kind = "cancel/requested"
	KindRunSuspended      Kind = "run/suspended"
	KindRunFinished       Kind = "run/finished"
	KindHostEvent         Kind = "host/event"
	KindActRejected       Kind = "act/rejected"
	KindActFinished       Kind = "act/finished"
	KindAuthEvent         Kind = "auth/event"
	KindSessionAction     Kind = "session/action"
	KindAdminAction       Kind = "admin/action"
	KindConfigReloaded    Kind = "config/reloaded"
	KindPluginTransition  Kind = "plugin/transition"
)

// docColumn is one key of a kind: its EDN name, its schema as EDN text, and its
// condition. An empty condition means every record of the kind.
type docColumn struct {
	key    string
	schema string
	when   string
}

type kindRow struct {
	kind    Kind
	pathed  bool
	columns []docColumn
}

var headColumns = []docColumn{
	{"v", `[:enum 1]`, ""},
	{"run", tStr, ""},
	{"seq", tOrdinal, ""},
	{"at", tInst, ""},
	{"epoch", tOrdinal, ""},
	{"kind", tKw, ""},
}

var pathColumns = []docColumn{
	{"path", tPath, ""},
	{"node", tStr, "the path is not []"},
}

// descriptions are those of all kinds, in the order of a run.
var descriptions = []description{
	runAccepted, runStarted, runResumed, planResolved, nodeResolved, nodeSkipped, attemptStarted, attemptChunk,
	attemptRetracted, attemptFinished, gateVerdict, nodeCommitted, nodeFailed, budgetReserved, budgetSettled, envRead,
	interruptOpened, interruptAnswered, cancelRequested, runSuspended, runFinished, hostEvent, actRejected,
	actFinished, authEvent, sessionAction, adminAction, configReloaded, pluginTransition,
}

// byKind maps a kind to its description; kinds are the rows of the documentation.
var (
	byKind = make(map[Kind]description, len(descriptions))
	kinds  = rows()
)

func rows() (rows []kindRow) {
	for _, d := range descriptions {
		row := d.row()
		byKind[row.kind] = d
		rows = append(rows, row)
	}
	return rows
}

func (r kindRow) all() []docColumn {
	out := append([]docColumn{}, headColumns...)
	if r.pathed {
		out = append(out, pathColumns...)
	}
	return append(out, r.columns...)
}

// spec returns the closed map schema of one kind, as EDN text.
func (r kindRow) spec() string {
	var b strings.Builder
	b.WriteString("[:map {:closed true}")
	for _, c := range r.all() {
		typ := c.schema
		if c.key == "kind" {
			typ = "[:enum :" + string(r.kind) + "]"
		}
		if c.when == "" {
			fmt.Fprintf(&b, " [:%s %s]", c.key, typ)
		} else {
			fmt.Fprintf(&b, " [:%s {:optional true} %s]", c.key, typ)
		}
	}
	b.WriteString("]")
	return b.String()
}

var compiled = sync.OnceValue(func() map[Kind]*schema.Schema {
	out := make(map[Kind]*schema.Schema, len(kinds))
	for _, row := range kinds {
		out[row.kind] = schema.MustCompile(edn.MustRead(row.spec()))
	}
	return out
})

// Kinds returns every kind that this host writes, in table order.
func Kinds() []Kind {
	out := make([]Kind, len(kinds))
	for i, row := range kinds {
		out[i] = row.kind
	}
	return out
}

// Schema returns the closed EDN schema of a kind.
func Schema(k Kind) (*schema.Schema, bool) {
	s, ok := compiled()[k]
	return s, ok
}

// Page returns the reference of all kinds in Markdown, the content of
// RECORDS.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Records of a run and of a host\n\nGenerated from the descriptions of the kinds; a test keeps it current. Version " +
		fmt.Sprint(Version) + ".\n")
	b.WriteString("\nEvery record is a closed EDN map. Hashes are the canonical hash of a value, written `b3:` and 64 hexadecimal digits.\n")
	section := func(title string, cols []docColumn) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | schema | present |\n|---|---|---|\n", title)
		for _, c := range cols {
			when := c.when
			if when == "" {
				when = "always"
			}
			fmt.Fprintf(&b, "| `:%s` | `%s` | %s |\n", c.key, c.schema, when)
		}
	}
	section("every record", headColumns)
	section("records of a plan, a node or an attempt", pathColumns)
	for _, row := range kinds {
		title := ":" + string(row.kind)
		if row.pathed {
			title += " (with a path)"
		}
		section(title, row.columns)
	}
	return b.String()
}
