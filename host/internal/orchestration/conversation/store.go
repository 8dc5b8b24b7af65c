package conversation

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// Conversation is a conversation without its path. Times have milliseconds.
type Conversation struct {
	ID, Owner string
	// Session is the session in which it was opened, which can freeze it; empty: none.
	Session string
	Title   string
	// Version counts the commits, and Turns the turns on the path.
	Version  int64
	Turns    int
	Archived bool
	Created  time.Time
	Updated  time.Time
	From     Relation
}

// Relation says from what a conversation comes. The zero Relation is one of its own.
type Relation struct {
	Kind string // ForkedFrom or SpawnedFrom
	ID   string // of the other conversation
	Turn int64  // of its path, 0: it had none
	Call string // the tool call that the result of a spawned conversation answers
	// Run is the run within which an agent asked for it; empty: a caller did.
	Run string
	// Depth counts the spawned conversations up to one that was not spawned.
	Depth int
}

// Kinds of relations.
const (
	ForkedFrom  = "forked-from"
	SpawnedFrom = "spawned-from"
)

// Draft is a message that is not committed. Its key is that of the commit.
type Draft struct {
	Key, Run string
	Message  conversation.Message
	At       time.Time
}

// Commit is a version of a path and what made it. An empty key is that of no call.
type Commit struct {
	Version int64
	Kind    string
	Key     string
	At      time.Time
}

// Summary is a derived text that stands for the first Turns turns of a path. Basis is
// the hash of their spans.
type Summary struct {
	Turns int
	Basis [32]byte
	Text  string
	At    time.Time
}

// Change is what Update stores.
type Change struct {
	// Set is the conversation with its new version and number of turns; nil: it stays
	// as it is. Commit belongs to its version.
	Set    *Conversation
	Commit *Commit
	// Copy gives a new conversation the first steps of the path of another one; then
	// Path follows. A nil Path changes no step.
	Copy *Copy
	Path *turns.Change

	AddDraft   *Draft
	DropDrafts []string // keys
	Summary    *Summary
	// Delete removes the conversation, and those that were spawned from it. Turns that
	// others share stay.
	Delete bool
}

// Copy is the first Keep steps of the path of a conversation.
type Copy struct {
	From string
	Keep int
}

// Reader reads one conversation as it is at one moment.
type Reader interface {
	// Conversation returns the conversation; false: there is none.
	Conversation() (Conversation, bool)
	// Path returns the path of a version; 0: the current one.
	Path(version int64) (turns.Path, error)
	// Messages returns the messages of the steps of a version from a place on.
	Messages(version int64, from int) ([][]conversation.Message, error)
	// Spans returns the alternatives of a turn, in the order of their making.
	Spans(turn int64) ([]int64, error)
	// Said returns the messages of a span.
	Said(span int64) ([]conversation.Message, error)
	// Committed returns the commit with a key.
	Committed(key string) (Commit, bool, error)
	// Commits returns the last commits, newest first.
	Commits(most int) ([]Commit, error)
	// Drafts returns all drafts, oldest first.
	Drafts() ([]Draft, error)
	Summaries() ([]Summary, error)
	// Of reads another conversation at the same moment.
	Of(id string) (Reader, error)
}

// Filter selects conversations, in the order of their ids.
type Filter struct {
	Owner    string // empty: any
	Session  string // empty: any
	After    string // id
	Archived bool   // archived ones too
	Limit    int
}

// Store keeps conversations.
//
//  1. Update calls decide with what is stored and stores the change that it returns,
//     as a whole or not at all. Updates follow each other, on all hosts. It returns the
//     steps of Change.Path with the numbers of their spans.
//  2. If decide fails, nothing is stored, and the error is its own.
//  3. decide may be called again if the first attempt was not stored.
//  4. Read calls read with what is stored.
//  5. Content is stored once. Sweep deletes what no path names any more; it costs
//     nothing if no conversation was deleted since the last time.
type Store interface {
	Update(ctx context.Context, id string, decide func(Reader) (Change, error)) ([]turns.Step, error)
	Read(ctx context.Context, id string, read func(Reader) error) error
	List(ctx context.Context, f Filter) ([]Conversation, error)
	Sweep(ctx context.Context) (Swept, error)
}

// Swept counts what Sweep deleted.
type Swept struct{ Spans, Contents int64 }
