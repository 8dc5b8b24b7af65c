package conversation

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Call is one call of an intent of the namespace conversation.
type Call struct {
	// Caller is the principal. Any permits the conversations of other principals, Only
	// limits it to those of one session.
	Caller session.Caller
	Intent string
	Input  edn.Value
	// Session is the session of the request; empty: none.
	Session string
	// Run and Path are the place of the call in its run. Key is its effect key: if a commit or a
	// conversation has this key, the call has been executed before and returns that result. Again
	// reports that it may have been executed before.
	Run   string
	Path  edn.Value
	Key   string
	Again bool
	// Ask sends a request within the call and blocks until the response. show, which may be
	// nil, receives pieces of the text of the answer.
	Ask func(ctx context.Context, request edn.Value, show func(piece edn.Value)) (edn.Value, *contract.Error)
	// Serves reports whether any capability serves an intent.
	Serves func(intent string) bool
	// Show and Event receive pieces of text and events while the call runs; nil: they are
	// dropped.
	Show  func(piece edn.Value)
	Event func(event edn.Value)

	task []conversation.Message // the first turns of a conversation that it makes
}

func (c *Call) holder() holder { return holder{c.Run, c.Path} }

// Rules limit the part of a conversation that a model gets.
type Rules struct {
	Window session.Window
	// SummaryChars limits the summary of the turns outside the window, in code points.
	SummaryChars int
}

// Service executes calls. Create it with New.
type Service struct {
	store    Store
	sessions *session.Service
	now      func() time.Time
	rules    atomic.Pointer[Rules]
	lines    lines
}

// New returns a service. sessions, which may be nil, decides whether the conversations of a
// session are frozen; a nil now is time.Now.
func New(store Store, sessions *session.Service, rules Rules, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	s := &Service{store: store, sessions: sessions, now: now}
	s.Configure(rules)
	return s
}

// Configure sets the rules of later calls. It may be called at any time.
func (s *Service) Configure(r Rules) { s.rules.Store(&r) }

func (s *Service) clock() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Sweep deletes the content that no conversation refers to any more, and returns its
// amount. The error is conversation/store-failed.
func (s *Service) Sweep(ctx context.Context) (Swept, *contract.Error) {
	out, err := s.store.Sweep(ctx)
	return out, failed("delete content that no conversation names", err)
}

// operation executes the call of one intent.
type operation func(s *Service, ctx context.Context, c *Call) (edn.Value, *contract.Error)

// operations maps the intents, without their namespace, to their functions.
var operations = map[string]operation{
	"open": (*Service).open, "get": (*Service).get, "list": (*Service).list, "append": (*Service).append,
	"send": (*Service).send, "regenerate": (*Service).regenerate, "edit": (*Service).edit, "select": (*Service).choose,
	"truncate": (*Service).truncate, "fork": (*Service).fork, "spawn": (*Service).spawn, "result": (*Service).result,
	"restore": (*Service).restore, "archive": (*Service).archive, "delete": (*Service).delete,
}

// Do executes a call and returns its output. A write operation waits for the earlier ones
// on its conversation; send and regenerate block until the model or the agent has answered.
// The errors are intent/not-supported, invalid-request, runtime/overloaded, those of the
// namespace conversation, session.vars/session-frozen, and those of the model or the agent.
func (s *Service) Do(ctx context.Context, c Call) (edn.Value, *contract.Error) {
	do, ok := operations[nameOf(c.Intent)]
	if !ok {
		return edn.Nil(), contract.Errorf("intent/not-supported", "the host has no intent :%s", c.Intent)
	}
	if err := complete(c.Intent, c.Input); err != nil {
		return edn.Nil(), err
	}
	if err := wellFormed(c.Intent, c.Input); err != nil {
		return edn.Nil(), err
	}
	if err := usableWindow(c.Intent, c.Input); err != nil {
		return edn.Nil(), err
	}
	return do(s, ctx, &c)
}

// failed returns err as a *contract.Error, nil for nil: a typed error as it is, any other
// and those of the journal as conversation/store-failed.
func failed(doing string, err error) *contract.Error {
	if err == nil {
		return nil
	}
	var typed *contract.Error
	if errors.As(err, &typed) && contract.Namespace(typed.Type) != "journal" {
		return typed
	}
	out := contract.Errorf("conversation/store-failed", "%s: the store failed: %w", doing, err)
	if errors.Is(err, contract.OfType("journal/damaged")) {
		out = out.WithRetryable(false).WithHint("stop the daemon and run \"ferment admin journal-repair --dry-run\", which shows what can be kept")
	}
	return out
}

func notFound(id string) *contract.Error {
	err := contract.Errorf("conversation/not-found", "there is no conversation %q", id)
	if of, ok := session.OfConversation(id); ok {
		return err.WithHint("send an act in session " + of + ", which creates the conversation")
	}
	return err
}

// taken returns the error for an id that a caller wants to open a conversation with, and that
// is of a conversation that it may not use. err is that of the conversation.
func taken(id string, err *contract.Error) *contract.Error {
	if _, ofSession := session.OfConversation(id); ofSession { // only its acts create it
		return err
	}
	return contract.Errorf(err.Type, "the conversation id %q is not available", id).
		WithHint("choose another id for the new conversation, or leave it out")
}

// has rejects a change whose base is not the version of the conversation.
func (st state) has(base int64) *contract.Error {
	if base == anyVersion || base == st.Version {
		return nil
	}
	return conflict(st.ID, base, st.Version)
}

func conflict(id string, base, current int64) *contract.Error {
	return contract.Errorf("conversation/conflict", "conversation %s has version %d, the change is for version %d", id, current, base).
		WithDetail("base", edn.Int(base)).WithDetail("current", edn.Int(current))
}

// idForm is the form of ids that callers choose.
var idForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// newID returns the id that the caller chose for a new conversation, or one that is generated from the
// run and the effect key, so that a repetition of the call generates it too (CNV-021). Generated ids are
// ordered by the time of their run.
func (c *Call) newID(key string) (string, *contract.Error) {
	id := text(c.Input, key)
	switch {
	case id == "":
		run, _ := ulid.Parse(strings.TrimPrefix(c.Run, "run_")) // zero for the id of another form
		hash := blake3.Sum256([]byte(c.Run + " " + c.Key))
		return "c-" + ulid.MustNew(run.Time(), bytes.NewReader(hash[:])).String(), nil
	case !idForm.MatchString(id):
		return "", contract.Errorf("invalid-request", "the id %.140q of a conversation is malformed", id).
			WithDetail("path", edn.Vector(edn.K("input"), edn.K(key))).WithHint("use 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	return id, nil
}

// state is a stored conversation that the caller may use.
type state struct {
	Reader
	Conversation
}

// open returns a conversation, or conversation/not-found if there is none or the caller may
// not use it.
func (c *Call) open(r Reader, id string) (state, *contract.Error) {
	of, ok := r.Conversation()
	if !ok || !c.Caller.Any && of.Owner != c.Caller.Principal || c.Caller.Only != "" && of.Session != c.Caller.Only {
		return state{}, notFound(id)
	}
	return state{r, of}, nil
}

// versionIn returns the :version of an input; the error is invalid-request if the
// conversation has no such version.
func (st state) versionIn(input edn.Value) (int64, *contract.Error) {
	version, ok := input.Key("version").AsInt()
	if !ok || version < 0 || version > st.Version {
		return 0, contract.Errorf("invalid-request", "conversation %s has the versions 0 to %d, not %s", st.ID, st.Version,
			input.Key("version")).WithDetail("path", edn.Vector(edn.K("version"))).WithDetail("current", edn.Int(st.Version))
	}
	return version, nil
}

// read calls read with a conversation that the caller may use.
func (s *Service) read(ctx context.Context, c *Call, id string, read func(state) error) *contract.Error {
	return failed("read conversation "+id, s.store.Read(ctx, id, func(r Reader) error {
		st, err := c.open(r, id)
		if err != nil {
			return err
		}
		return read(st)
	}))
}

// commit is the decision of an operation: a change of the path, and drafts to delete.
type commit struct {
	turns.Change
	drop []string // keys of drafts
}

// written is the result of a commit: the conversation after it and the new steps.
type written struct {
	Conversation
	first int // position of the first new step
	steps []turns.Step
}

// change commits the change that decide returns. If the key of the call has committed
// before, it changes nothing and returns the result of that commit. base is the version
// that the change applies to, or anyVersion.
func (s *Service) change(ctx context.Context, c *Call, id string, base int64,
	decide func(state) (commit, *contract.Error),
) (out written, err *contract.Error) {
	kind := nameOf(c.Intent)
	done := false
	steps, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		done = false
		st, err := c.open(r, id)
		if err != nil {
			return Change{}, err
		}
		made, found, failure := r.Committed(c.Key)
		if failure != nil {
			return Change{}, failure
		}
		if found {
			done = true
			out, failure = st.made(made)
			return Change{}, failure
		}
		if err := st.has(base); err != nil {
			return Change{}, err
		}
		if err := s.thawed(ctx, st.Conversation); err != nil {
			return Change{}, err
		}
		do, err := decide(st)
		if err != nil {
			return Change{}, err
		}
		out = written{Conversation: st.Conversation, first: do.Keep}
		if !do.Changes(st.Turns) {
			return Change{DropDrafts: do.drop}, nil
		}
		if err := do.fits(st); err != nil {
			return Change{}, err
		}
		out.Version++
		out.Turns, out.Updated = do.Keep+len(do.Steps), s.clock()
		set := out.Conversation
		return Change{
			Set: &set, Path: &do.Change, DropDrafts: do.drop,
			Commit: &Commit{Version: set.Version, Kind: kind, Key: c.Key, At: set.Updated},
		}, nil
	})
	if failure != nil {
		return written{}, failed(kind+" conversation "+id, failure)
	}
	if !done {
		out.steps = steps
	}
	return out, nil
}

// fits checks the limits of the path after a commit.
func (do commit) fits(st state) error {
	spans := 0
	for _, s := range do.Spans {
		if s.Turn == 0 {
			continue
		}
		all, err := st.Spans(s.Turn)
		if err != nil {
			return err
		}
		spans = max(spans, len(all))
	}
	if err := do.Fits(spans); err != nil {
		return err
	}
	return nil
}

// made returns the result of an earlier commit. Its steps are those in which its version
// differs from the version before.
func (st state) made(c Commit) (written, error) {
	path, err := st.Path(c.Version)
	if err != nil {
		return written{}, err
	}
	before := turns.Path(nil)
	if c.Version > 1 {
		if before, err = st.Path(c.Version - 1); err != nil {
			return written{}, err
		}
	}
	to := before.Restore(path)
	of := st.Conversation
	of.Version, of.Turns, of.Updated = c.Version, len(path), c.At
	return written{of, to.Keep, to.Steps}, nil
}

// thawed rejects a change of a conversation whose session is frozen. A deleted session does
// not count.
func (s *Service) thawed(ctx context.Context, of Conversation) *contract.Error {
	if of.Session == "" || s.sessions == nil {
		return nil
	}
	in, err := s.sessions.Get(ctx, session.Caller{Principal: of.Owner}, of.Session)
	switch {
	case err != nil && err.Type == "session/not-found": // it was deleted
		return nil
	case err != nil:
		return err
	case in.Frozen:
		return contract.Errorf("session.vars/session-frozen", "conversation %s belongs to session %s, which is frozen", of.ID, of.Session)
	}
	return nil
}

// follows rejects a change after which the path has a tool result without its call.
func follows(st state, c turns.Change) *contract.Error {
	needed := false
	for _, s := range c.Spans {
		needed = needed || len(turns.Needed(s.Messages)) > 0
	}
	if !needed && len(c.Steps) <= len(c.Spans) {
		return nil // nothing that was on the path has another place
	}
	path, said, err := st.whole()
	if err != nil {
		return failed("read conversation "+st.ID, err)
	}
	bySpan := map[int64][]conversation.Message{}
	for i, step := range path {
		bySpan[step.Span] = said[i]
	}
	all := said[:c.Keep:c.Keep]
	for _, step := range c.Steps {
		messages, there := bySpan[step.Span]
		switch {
		case step.Span < 0:
			messages = c.Spans[-step.Span-1].Messages
		case !there:
			if messages, err = st.Said(step.Span); err != nil {
				return failed("read conversation "+st.ID, err)
			}
		}
		all = append(all, messages)
	}
	return turns.Results(flat(all))
}
