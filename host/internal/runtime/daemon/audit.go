package daemon

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// auditLimit is the maximum time that an answer waits for its record in the audit trail. A disk
// that does not respond must not block operators.
const auditLimit = 2 * time.Second

// record writes a record of the audit trail and logs a failure. With durable it returns when the
// record is on disk, after auditLimit at the latest.
func (d *Daemon) record(body journal.Body, durable bool) {
	h := d.host.Load()
	if h == nil {
		return // the log has the event already
	}
	ctx := d.life
	if durable {
		limited, cancel := context.WithTimeout(ctx, auditLimit)
		defer cancel()
		ctx = limited
	}
	wait, err := h.events.Record(ctx, time.Now(), body)
	if err == nil && durable {
		err = wait(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, contract.OfType("journal/full")):
		d.noteWaiting()
	default:
		d.log.Error("a record of the audit trail is not on disk", "kind", string(body.Kind()), "error", err)
	}
}

// auditWait is the logging state for audit records that wait for disk space.
type auditWait struct {
	mu      sync.Mutex
	waiting bool
	drops   bool
	lost    int // number of lost records when the wait began
}

// noteWaiting logs once that audit records wait for disk space, once that some are dropped, and
// later that the waiting ones were written.
func (d *Daemon) noteWaiting() {
	if d.store == nil {
		return
	}
	d.auditWait.mu.Lock()
	defer d.auditWait.mu.Unlock()
	w := &d.auditWait
	records, lost := d.store.Waiting()
	if records > 0 && !w.waiting {
		w.waiting = true
		d.log.Error("the disk is full: records of the audit trail wait in memory", "next", "free space on its file system")
	}
	if lost > w.lost && !w.drops {
		w.drops = true
		d.log.Error("the disk is full: records of the audit trail are dropped, because too many wait in memory",
			"waiting", records, "next", "free space on its file system")
	}
	if records == 0 && w.waiting && !d.store.Short() {
		d.log.Info("the records of the audit trail that waited for space are written", "lost", lost-w.lost)
		w.waiting, w.drops, w.lost = false, false, lost
	}
}

// Auditable implements httpapi.Control (JRN-006). It returns journal/full while the disk is full.
func (c control) Auditable() *contract.Error {
	if c.store == nil || !c.store.Short() {
		return nil
	}
	return contract.Errorf("journal/full", "the disk is full: the audit trail cannot record the action, which is not executed").
		WithHint("free space on the file system of the data directory")
}

// inIPv6 returns an IP address, given with or without a port, in IPv6 form; "" if it is not one, as
// for a caller of a socket.
func inIPv6(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		with, err := netip.ParseAddrPort(address)
		if err != nil {
			return "" // not an IP address
		}
		ip = with.Addr()
	}
	return netip.AddrFrom16(ip.WithZone("").As16()).String()
}

// Denied implements httpapi.Backend (AUTH-013).
func (d *Daemon) Denied(r httpapi.Denial) {
	d.figures.denials.Add(r.Reason)
	d.log.Named("audit").Warn(r.Event,
		"principal", r.Principal,
		"address", r.Address,
		"operation", r.Operation,
		"decision", r.Decision.String(),
		"message", r.Message,
	)
	d.record(&journal.AuthEvent{
		Event: r.Event, User: r.Principal, Address: inIPv6(r.Address), Operation: r.Operation, Level: journal.LevelWarn,
		Message: journal.HideText(r.Message), Rule: r.Decision, Reason: r.Reason,
	}, true)
}

// Identified implements httpapi.Backend.
func (d *Daemon) Identified(i httpapi.Identified) {
	d.log.Named("audit").Info(i.Event, "principal", i.Principal, "address", i.Address, "operation", i.Operation)
	d.record(&journal.AuthEvent{
		Event: i.Event, User: i.Principal, Address: inIPv6(i.Address), Operation: i.Operation, Success: true,
		Level: journal.LevelInfo, Message: i.Message,
	}, true)
}

// Permitted implements httpapi.Backend (AUTH-013).
func (d *Daemon) Permitted(p httpapi.Permission) {
	d.log.Named("audit").Info("auth/permitted",
		"principal", p.Principal,
		"address", p.Address,
		"operation", p.Decision.What,
		"decision", p.Decision.Value().String(),
		"request", p.Request,
		"run", p.Run,
		"session", p.Session,
	)
	d.record(&journal.AuthEvent{
		Event: "auth/permitted", User: p.Principal, Address: inIPv6(p.Address), Operation: p.Decision.What, Success: true,
		Level: journal.LevelInfo, Message: journal.HideText(p.Request), Rule: p.Decision.Value(), Run: p.Run, SessionID: p.Session,
	}, true)
}

// Rejected implements httpapi.Backend. The text of the error may quote the request, so only its
// type is recorded. An intent that looks like a secret is omitted.
func (d *Daemon) Rejected(r httpapi.Rejection) {
	if journal.HideText(r.Intent) != r.Intent {
		r.Intent = ""
	}
	d.log.Named("audit").Info("act/rejected",
		"principal", r.Principal,
		"address", r.Address,
		"intent", r.Intent,
		"trace", truncated(r.Trace),
		"error", r.Err.Type,
	)
	trace := edn.MustMap()
	if id := truncated(r.Trace); id != "" {
		trace = trace.AssocKey("id", edn.Text(id))
	}
	body := &journal.ActRejected{
		Operation: policy.Act, Trace: trace, Principal: r.Principal, Address: inIPv6(r.Address), Latency: r.Took,
		PrincipalType: r.PrincipalType, Roles: r.Roles, Intent: r.Intent, Status: journal.ActWasRejected,
		Err: contract.Errorf(r.Err.Type, "the act was rejected"),
	}
	if r.Kept && d.host.Load() != nil { // the meter observes the stream
		d.record(body, true)
	} else if d.figures.meter != nil {
		d.figures.meter.Observe(journal.Record{Run: journal.HostRun, Seq: 1, At: time.Now(), Epoch: 1, Body: body}, nil)
	}
}

// truncated returns at most 80 bytes of the text of a value from a caller.
func truncated(v edn.Value) string {
	text, _ := v.AsString()
	return strings.ToValidUTF8(text[:min(len(text), 80)], "")
}

// Audit implements httpapi.Control. The answer to an operator waits until the record is on disk;
// the answer to a caller of a session action does not, because it would wait for two commits.
func (c control) Audit(entry httpapi.AuditEntry) {
	space, _, _ := strings.Cut(entry.Action, "/")
	input := journal.HideNamed(entry.Input.Dissoc(edn.K("action")))
	args := []any{"action", entry.Action, "principal", entry.Principal, "input", input.String(), "ok", entry.Err == nil}
	if entry.Err != nil {
		args = append(args, "error", entry.Err.Error())
	}
	if entry.Replayed {
		args = append(args, "replayed", true)
	}
	if p, ok := spans.ParseTraceParent(entry.TraceParent); ok {
		args = append(args, traceFields(p.Context)...)
	}
	c.log.Named("audit").Info(space, args...)
	if entry.Principal == "" {
		entry.Principal = "unknown"
	}
	if space == "session" {
		id, _ := input.Key("session/id").AsString()
		c.record(&journal.SessionAction{
			Action: entry.Action, Principal: entry.Principal, SessionID: id, Keys: namesIn(input), OK: entry.Err == nil,
			Err:         shortened(entry.Err, "the action failed"), // the message may quote a value
			TraceParent: entry.TraceParent, Access: entry.Access,
		}, false)
		return
	}
	if !input.IsMap() {
		input = edn.MustMap()
	}
	c.record(&journal.AdminAction{
		Action: entry.Action, Principal: entry.Principal, Address: inIPv6(entry.Address), Input: input, OK: entry.Err == nil,
		Err: shortened(entry.Err, ""), Replayed: entry.Replayed, TraceParent: entry.TraceParent, Access: entry.Access,
	}, true)
}

// shortened returns an error of the same type with another message; with an empty message it keeps
// the original one without secrets. nil stays nil.
func shortened(err *contract.Error, message string) *contract.Error {
	if err == nil {
		return nil
	}
	if message == "" {
		message = journal.HideText(err.Message)
	}
	return contract.Errorf(err.Type, "%s", message)
}

// namesIn returns the names of the variables in the input of a session action.
func namesIn(input edn.Value) (names []string) {
	add := func(v edn.Value) {
		name, ok := v.AsString()
		if !ok {
			name, ok = v.AsKeyword()
		}
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(input.Key("key"))
	for key := range input.Key("keys").Elems() {
		add(key)
	}
	return names
}

// recordReload records that a reload changed the configuration from hash old to hash next.
func (d *Daemon) recordReload(old, next string, changes edn.Value) {
	body := &journal.ConfigReloaded{Old: old, New: next}
	for change := range changes.Elems() {
		body.Actions = append(body.Actions, change)
	}
	d.record(body, false)
}

// maxEvents is the maximum number of events in one answer.
const maxEvents = 1000

// Events implements httpapi.Control.
func (c control) Events(ctx context.Context, after string) (edn.Value, *contract.Error) {
	rows, page, err := c.page(ctx, journal.ViewEvents, after, maxEvents)
	if err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("events"), edn.Vector(rows...), edn.K("cursor"), edn.Text(page.Cursor)), nil
}

// Trail implements httpapi.Control.
func (c control) Trail(ctx context.Context, q httpapi.TrailQuery) (httpapi.Trail, *contract.Error) {
	rows, page, err := c.page(ctx, journal.ViewAudit, q.After, q.Limit)
	if err != nil {
		return httpapi.Trail{}, err
	}
	out := httpapi.Trail{Rows: rows, Cursor: page.Cursor, More: page.More}
	if q.Until.IsZero() {
		return out, nil
	}
	for i, rec := range page.Records {
		if !rec.At.Before(q.Until) {
			out.Rows, out.Cursor, out.More = rows[:i], journal.HostCursor(rec.Seq-1), false
			break
		}
	}
	return out, nil
}

func (c control) page(ctx context.Context, v journal.View, after string, limit int) ([]edn.Value, journal.HostPage, *contract.Error) {
	h := c.host.Load()
	if h == nil {
		return nil, journal.HostPage{}, contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	page, err := journal.HostAfter(ctx, h.events, v, after, limit)
	rows := make([]edn.Value, len(page.Records))
	for i, rec := range page.Records {
		rows[i] = rec.Value()
	}
	return rows, page, err
}
