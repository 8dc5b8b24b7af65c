package conversation

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// Conversation is a conversation without its path. Times have millisecond precision.
type Conversation struct {
	ID, Owner string
	// Number is the number that the store gave it, 0 before it is stored. With Created it
	// identifies the conversation: a deleted one and a later one of the same ID differ in them.
	Number int64
	// Session is the session in which it was created; while that is frozen, operations
	// cannot change the conversation. Empty: none.
	Session string
	Title   string
	// Version is the number of commits, Turns the number of turns on the path.
	Version  int64
	Turns    int
	Archived bool
	Created  time.Time
	Updated  time.Time
	From     Relation
	// Key is the effect key of the call that created it, by which a repetition of this call finds it;
	// empty: none is known.
	Key string
}

// is reports whether two states are of the same conversation.
func (c Conversation) is(other Conversation) bool {
	return c.ID == other.ID && c.Number == other.Number && c.Created.Equal(other.Created)
}

// Relation is the origin of a forked or spawned conversation. It is zero for any other.
type Relation struct {
	Kind string // ForkedFrom or SpawnedFrom
	ID   string // of the other conversation
	Turn int64  // the turn of the other conversation; 0: its path was empty
	Call string // the tool call that the result of a spawned conversation answers
	Span int64  // the alternative of Turn that makes Call; 0: none is known
	// Run is the run in which an agent created it; empty: a caller did.
	Run string
	// Depth is the number of spawned conversations on the way to this one, itself included.
	// A fork has the depth of its origin.
	Depth int
}

// Kinds of relations.
const (
	ForkedFrom  = "forked-from"
	SpawnedFrom = "spawned-from"
)

// Draft is a message that is not committed. Key is its :draft/id: the effect key of the
// call that stored it, in the run Run.
type Draft struct {
	Key, Run string
	Message  conversation.Message
	At       time.Time
}

// Commit is one version of a path. Kind is the operation that made it, Key the effect key
// of its call, empty if no call made it.
type Commit struct {
	Version int64
	Kind    string
	Key     string
	At      time.Time
}

// Summary is a generated text that replaces the first Turns turns of a path for a model.
// Basis is the hash of their spans: the summary is valid only while the path still begins
// with them.
type Summary struct {
	Turns int
	Basis [32]byte
	Text  string
	At    time.Time
}

// Change is a change of one conversation for Update to store. The zero Change stores nothing.
type Change struct {
	// Set is the conversation with its new version and number of turns; nil: unchanged.
	// Commit is the commit of that version.
	Set    *Conversation
	Commit *Commit
	// Copy gives a new conversation the first steps of the path of another one; Path is
	// applied after it. A nil Path changes no step.
	Copy *Copy
	Path *turns.Change

	AddDraft   *Draft
	DropDrafts []string // keys
	Summary    *Summary
	// Delete removes the conversation and the conversations that were spawned from it.
	// Turns that other conversations share stay.
	Delete bool
}

// Copy selects the first Keep steps of the path of conversation From.
type Copy struct {
	From string
	Keep int
}

// Reader reads one conversation; it is valid until the function that got it returns. In
// Update it reads one consistent state. In Read the conversation is read once and the paths
// of its versions do not change, but drafts, commits, alternatives and summaries may be
// newer, and a concurrent delete makes paths empty.
type Reader interface {
	// Conversation returns the conversation; false if there is none.
	Conversation() (Conversation, bool)
	// Path returns the path of a version, 0 for the current one; nil if there is no such
	// version.
	Path(version int64) (turns.Path, error)
	// Messages returns the messages of each step of a version, starting with step from.
	Messages(version int64, from int) ([][]conversation.Message, error)
	// Spans returns the alternatives of a turn, oldest first: its spans in the versions of this
	// conversation. A turn that a fork shares has others in its origin.
	Spans(turn int64) ([]int64, error)
	// Said returns the messages of a span. For an unknown span a store may return none, or
	// conversation/store-failed.
	Said(span int64) ([]conversation.Message, error)
	// Committed returns the commit with a key; false if there is none, and for an empty
	// key.
	Committed(key string) (Commit, bool, error)
	// Commits returns the last commits, newest first, at most most.
	Commits(most int) ([]Commit, error)
	// Drafts returns all drafts, oldest first.
	Drafts() ([]Draft, error)
	// Summaries returns all stored summaries, also those that do not fit the path any more.
	Summaries() ([]Summary, error)
	// Of returns a Reader of another conversation, in Update of the same state.
	Of(id string) (Reader, error)
}

// Filter selects conversations. They are listed in the order of their ids.
type Filter struct {
	Owner    string // empty: any
	Session  string // empty: any
	After    string // only ids greater than this one
	Archived bool   // archived ones too
	Limit    int
}

// Store stores conversations.
//
//  1. Update calls decide with the stored state and stores the change that it returns,
//     atomically. Updates are serialized, also between hosts. Update returns the steps
//     of Change.Path with the numbers of their spans.
//  2. If decide fails, nothing is stored, and its error is returned unchanged.
//  3. decide may be called again if its first result could not be stored.
//  4. Read calls read with the stored state and returns its error.
//  5. List returns at most Filter.Limit conversations.
//  6. A store may store equal content once. Sweep deletes spans and content that no
//     path refers to any more.
type Store interface {
	Update(ctx context.Context, id string, decide func(Reader) (Change, error)) ([]turns.Step, error)
	Read(ctx context.Context, id string, read func(Reader) error) error
	List(ctx context.Context, f Filter) ([]Conversation, error)
	Sweep(ctx context.Context) (Swept, error)
}

// Swept counts the spans and contents that Sweep deleted.
type Swept struct{ Spans, Contents int64 }
