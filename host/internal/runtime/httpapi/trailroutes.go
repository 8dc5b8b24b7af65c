package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TrailQuery selects rows of the audit trail.
type TrailQuery struct {
	After string    // cursor; empty: from the oldest row
	Until time.Time // only rows before this time; zero: all
	Limit int
}

// Trail is a page of the audit trail.
type Trail struct {
	Rows   []edn.Value
	Cursor string // position after the rows
	More   bool   // further rows exist
}

// typeLines is the media type of JSON lines: one JSON value per line.
const typeLines mediaType = "application/x-ndjson"

// cursorHeader is the response header with the cursor after the rows.
const cursorHeader = "Ferment-Cursor"

// trailEntries are the keys of a TrailQuery.
const trailEntries = `[:after {:optional true :doc "a cursor; default: from the oldest row on"} [:string {:max 40}]]
	[:until {:optional true :doc "rows from then on are left out"} :inst]
	[:limit {:optional true :doc "of rows" :default 1000} [:int {:min 1 :max 10000}]]
	[:wait-ms {:optional true :doc "time to wait for a row" :default 0} [:int {:min 0 :max 60000}]]`

const trailLimit = 1000

// trailRoutes returns the routes of the audit trail.
func trailRoutes() []Route {
	return []Route{{
		Method: http.MethodGet, Path: "/v1/admin/audit", Operation: policy.AuditTrail, text: typeLines,
		Summary: "the audit trail as JSON lines",
		Doc: "One row per line, oldest first: acts that ended or were rejected, logins and denied requests, actions on sessions and of operators, reloads. " +
			"The header Ferment-Cursor has the cursor behind them, which is host. and the :seq of a row; a request with after=CURSOR continues there. " +
			"A page without rows is the end. A row that JSON cannot represent is its :seq, and its text as :edn. " +
			"The action audit returns the same.",
		Query:  trailEntries,
		failed: formAdmin,
		serve:  serveTrail,
		Answers: []Answer{
			{200, "the rows", ""},
			{400, "a query parameter is wrong", "answer/admin"},
			{409, "the cursor is beyond the end of the trail", "answer/admin"},
			{410, "rows behind the cursor are no longer kept", "answer/admin"},
		},
	}}
}

// serveTrail handles GET /v1/admin/audit.
func serveTrail(x *exchange) reply {
	control := x.api.backend.Control()
	if control == nil {
		return x.failure(contract.Errorf("runtime/starting", "the daemon is coming up"))
	}
	page, err := readTrail(x.r.Context(), control, x.query)
	x.recordTrail(control, x.query, page.Rows, err)
	if err != nil {
		return x.failure(err)
	}
	lines := []byte{}
	for _, row := range page.Rows {
		line, failed := edn.WriteJSON(InJSON(row))
		if failed != nil {
			return x.failure(contract.Errorf("runtime/internal", "row %s: %w", row.Key("seq"), failed))
		}
		lines = append(append(lines, line...), '\n')
	}
	x.w.Header().Set(cursorHeader, page.Cursor)
	return reply{status: http.StatusOK, text: lines}
}

// InJSON returns a row of the trail in a form that JSON can represent. A row that JSON cannot
// represent, such as one with two keys that have the same name in JSON, is replaced by its sequence
// number and its text as EDN, so that the rows after it can still be read.
func InJSON(row edn.Value) edn.Value {
	if _, err := edn.WriteJSON(row); err == nil {
		return row
	}
	return edn.MustMap(edn.K("seq"), row.Key("seq"), edn.K("edn"), edn.Text(row.String()))
}

// trailInJSON returns the result of the action audit in a form that JSON can represent.
func trailInJSON(result edn.Value) edn.Value {
	var rows []edn.Value
	for row := range result.Key("rows").Elems() {
		rows = append(rows, InJSON(row))
	}
	return result.AssocKey("rows", edn.Vector(rows...))
}

// recordTrail records that a caller reads the audit trail, unless it only follows new rows.
func (x *exchange) recordTrail(control Control, in edn.Value, rows []edn.Value, err *contract.Error) {
	if err == nil && follows(in, rows) {
		return
	}
	control.Audit(AuditEntry{
		Action:    policy.AuditTrail,
		Principal: x.who.Name,
		Address:   x.client(),
		Input:     in,
		Err:       err,
		Access:    x.decisions,
	})
}

// followed is the maximum age of rows for which reading them counts as following.
const followed = 2 * time.Minute

// follows reports whether a request only follows the trail: it waits for rows, and all rows that it
// gets are new. It is not recorded, because its record would be the row that it waits for. Reading
// older rows is always recorded.
func follows(in edn.Value, rows []edn.Value) bool {
	return waits(in) && !slices.ContainsFunc(rows, func(row edn.Value) bool {
		at, _ := row.Key("at").AsInst()
		return time.Since(at) > followed
	})
}

// waits reports whether a request waits for rows.
func waits(in edn.Value) bool { return intOr(in, "wait-ms", 0) > 0 }

// readTrail reads a page for the query or the action of the trail.
func readTrail(ctx context.Context, c Control, in edn.Value) (Trail, *contract.Error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(intOr(in, "wait-ms", 0))*time.Millisecond)
	defer cancel()
	until, _ := in.Key("until").AsInst()
	return c.Trail(ctx, TrailQuery{After: text(in, "after"), Until: until, Limit: int(intOr(in, "limit", trailLimit))})
}

// trailActions returns the admin actions of the audit trail.
func trailActions() []Action {
	return []Action{{
		Name: "audit", Reads: true, Doc: "the audit trail: who did what, oldest first, and the cursor for later rows",
		Input: trailEntries, quiet: func(in, result edn.Value) bool { return follows(in, slices.Collect(result.Key("rows").Elems())) },
		inJSON: trailInJSON,
		do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
			page, err := readTrail(ctx, c, in)
			if err != nil {
				return edn.Nil(), err
			}
			return edn.MustMap(edn.K("rows"), edn.Vector(page.Rows...), edn.K("cursor"), edn.Text(page.Cursor),
				edn.K("more?"), edn.Bool(page.More)), nil
		},
	}}
}
