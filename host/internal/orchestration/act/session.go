package act

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// SessionKeeper is an optional interface of a Journal that adds the turns in a
// RunFinished to their session, in the transaction of the record (SES-031).
type SessionKeeper interface{ KeepsSessions() }

// confine is the step that rejects an act with a credential that is limited to another
// session (AUTH-004).
func confine(f *flight) *contract.Error {
	n := f.act.Narrow
	if n == nil || n.Session == "" || n.Session == f.request.SessionID || f.act.Fill != nil {
		return nil // the recorded run that an act replays was permitted
	}
	return contract.Errorf("auth/forbidden", "the credential is for the session %s, and :session/id of the act is %q",
		n.Session, f.request.SessionID).
		WithHint("name that session, or use another credential")
}

// bindSession is the step that reads the session of a request and fills the fields that
// the request leaves out, from variables, summary and last turns. The recorded request
// contains them, so that a resumed run and a replay do not read the session.
func bindSession(f *flight) *contract.Error {
	s, id := f.service, f.request.SessionID
	if id == "" || f.act.Fill != nil {
		return nil
	}
	if s.config.Sessions == nil {
		return contract.Errorf("session/not-found", "this host keeps no sessions").WithHint("send the request without :session/id")
	}
	who := session.Caller{
		Principal: f.act.Principal,
		Any:       s.config.Access.Denied(policy.AnySession, f.act.caller()) == nil,
	}
	ctx := context.Background()
	of, bound, left, err := s.config.Sessions.Bindings(ctx, who, id, f.request.Intent, f.isSet)
	if err != nil {
		return err
	}
	f.session = of
	for _, b := range bound {
		if f.fill(b.Target, b.Value, func(reason string) { err = f.leaveOut(b.Binding, reason) }); err != nil {
			return err
		}
	}
	for _, w := range left {
		f.sessionWarnings = append(f.sessionWarnings, w.Value())
	}
	turns, cut, err := s.config.Sessions.Turns(ctx, who, id)
	if err != nil {
		return err
	}
	f.fill([]string{"context", "summary"}, of.Notes.Key("summary"), func(string) {})
	if len(turns) > 0 {
		said := make([]edn.Value, len(turns))
		for i, t := range turns {
			said[i] = turnValue(t)
		}
		f.fill([]string{"context", "turns"}, edn.Vector(said...), func(string) {})
	}
	if cut {
		f.sessionWarnings = append(f.sessionWarnings, session.Warning{Reason: "turns-cut", Target: []string{"context", "turns"}}.Value())
	}
	return nil
}

// useSession marks the session of the run as used until release is called; see
// session.Service.Use.
func (f *flight) useSession() (release func()) {
	if f.request.SessionID == "" || f.service.config.Sessions == nil || f.act.Fill != nil || f.replay {
		return func() {}
	}
	return f.service.config.Sessions.Use(f.request.SessionID)
}

func turnValue(t session.Turn) edn.Value {
	return edn.MustMap(edn.K("role"), edn.K(t.Role), edn.K("text"), edn.Text(t.Text))
}

func pathOf(target []string) []edn.Value {
	path := make([]edn.Value, len(target))
	for i, part := range target {
		path[i] = edn.K(part)
	}
	return path
}

// isSet reports whether a part of the request has a value.
func (f *flight) isSet(target []string) bool {
	now, _ := f.act.Request.GetIn(pathOf(target)...)
	return !now.IsNil()
}

// leaveOut adds a warning about a binding that is left out. It returns an error if the
// binding is required.
func (f *flight) leaveOut(b session.Binding, reason string) *contract.Error {
	w, err := b.Left(reason, nil)
	if err == nil {
		f.sessionWarnings = append(f.sessionWarnings, w.Value())
	}
	return err
}

// fill sets a field of the request that is nil, unless the value is invalid there or the
// request was valid before and would not be any more; then it calls left with the reason.
// A system prompt needs the right that the caller would need to send one (SES-015).
func (f *flight) fill(target []string, v edn.Value, left func(reason string)) {
	if v.IsNil() || f.isSet(target) {
		return
	}
	if slices.Equal(target, []string{"system"}) || slices.Equal(target, []string{"input", "system"}) {
		if f.service.config.Access.Denied(policy.OverridePrompt, f.act.caller()) != nil {
			left("not-permitted")
			return
		}
	}
	filled, err := f.act.Request.AssocIn(pathOf(target), v)
	if err != nil {
		left("ill-typed")
		return
	}
	read, refused := request.Parse(filled, f.service.env)
	if refused != nil || !f.inputFits(&read, target) {
		left("ill-typed")
		return
	}
	read.ResponseType = f.request.ResponseType
	f.act.Request, f.request = filled, read
}

// inputFits reports whether the input of a request in which target was filled is valid, or
// the faults in it are elsewhere and the input had faults before, such as a required key that
// another binding fills.
func (f *flight) inputFits(filled *request.Request, target []string) bool {
	env := &f.service.env
	_, findings := filled.InputFindings(env)
	if len(findings) == 0 {
		return true
	}
	if _, before := f.request.InputFindings(env); len(before) == 0 {
		return false
	}
	at := pathOf(target)
	return !slices.ContainsFunc(findings, func(found schema.Finding) bool {
		path := append([]edn.Value{edn.K("input")}, found.Path...)
		return len(path) >= len(at) && slices.EqualFunc(path[:len(at)], at, edn.Value.Equal)
	})
}

// sessionTurns returns the turns that a completed run adds to its session: the text of
// the request and that of the answer. An act without both, such as a plan of the caller,
// adds none. A call of conversation/* on the conversation of the session adds none
// either, because it has committed the turns itself.
func (f *flight) sessionTurns() []session.Turn {
	if f.request.SessionID == "" || f.err != nil || f.act.Fill != nil {
		return nil
	}
	if strings.HasPrefix(f.request.Intent, "conversation/") &&
		textIn(f.request.Input, "conversation/id") == session.ConversationOf(f.request.SessionID) {
		return nil
	}
	asked, answered := textIn(f.request.Input, "prompt", "text", "content"), textIn(f.out(), "text", "content")
	if asked == "" || answered == "" {
		return nil
	}
	at := f.service.config.Clock.Now().UTC().Truncate(time.Millisecond)
	return []session.Turn{
		{Role: session.RoleUser, Text: asked, Run: f.id, At: at},
		{Role: session.RoleAssistant, Text: answered, Run: f.id, At: at},
	}
}

func textIn(v edn.Value, keys ...string) string {
	for _, key := range keys {
		if s, ok := v.Key(key).AsString(); ok && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// sessionIdentity returns the identity of the session that the run used when it was
// accepted. Records of older versions have only its id; the owner is then the caller.
func (f *flight) sessionIdentity() session.Identity {
	if f.past == nil || f.past.Accepted == nil {
		return f.session.Identity()
	}
	a := f.past.Accepted
	return session.Identity{ID: f.request.SessionID, Owner: cmp.Or(a.SessionOwner, a.Principal), Created: a.SessionCreated}
}

// addTurns puts turns into the last record of a run.
func addTurns(r *journal.RunFinished, to session.Identity, turns []session.Turn) {
	if len(turns) == 0 {
		return
	}
	said := make([]edn.Value, len(turns))
	for i, t := range turns {
		said[i] = turnValue(t)
	}
	r.SessionID, r.SessionOwner, r.SessionCreated = to.ID, to.Owner, to.Created
	r.SessionTurns = journal.RefTo(edn.Vector(said...))
}

// SessionOf returns the session to which a finished run adds its turns; the zero value if
// it adds none.
func SessionOf(r *journal.RunFinished) session.Identity {
	return session.Identity{ID: r.SessionID, Owner: r.SessionOwner, Created: r.SessionCreated}
}

// SessionTurns returns the turns that a finished run adds to its session, dated at; nil if
// there are none.
func SessionTurns(run string, at time.Time, r *journal.RunFinished) (turns []session.Turn) {
	if r.SessionID == "" {
		return nil
	}
	for v := range r.SessionTurns.Value().Elems() {
		role, _ := v.Key("role").AsKeyword()
		turns = append(turns, session.Turn{Role: role, Text: textIn(v, "text"), Run: run, At: at})
	}
	return turns
}
