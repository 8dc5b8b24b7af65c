package session

import (
	"regexp"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Session is a session without its variables and turns. Times have millisecond precision.
type Session struct {
	ID, Owner string
	// Version counts the updates, from 1.
	Version int64
	// Frozen sessions are warm, the others hot.
	Frozen   bool
	FrozenBy FrozenBy
	Created  time.Time
	Updated  time.Time
	Accessed time.Time
	FrozenAt time.Time
	ThawedAt time.Time // zero: never
	// Notes is a map with any of the keys of NoteKeys, and the key by which the session records how
	// many turns the summary covers.
	Notes edn.Value
}

// Identity distinguishes a session from earlier and later sessions with the same id. A
// zero Owner or Created matches any.
type Identity struct {
	ID, Owner string
	Created   time.Time
}

// Identity returns the identity of the session.
func (s Session) Identity() Identity { return Identity{s.ID, s.Owner, s.Created} }

// is reports whether a session has the identity.
func (i Identity) is(s Session) bool {
	return s.ID == i.ID && (i.Owner == "" || s.Owner == i.Owner) && (i.Created.IsZero() || s.Created.Equal(i.Created))
}

// inConversations is the prefix of the ids of conversations that hold the turns of
// sessions. Callers cannot choose such ids.
const inConversations = "session/"

// ConversationOf returns the id of the conversation that holds the turns of a session.
func ConversationOf(id string) string { return inConversations + id }

// OfConversation returns the id of the session whose turns a conversation holds; false
// if it is not the conversation of a session.
func OfConversation(id string) (session string, ok bool) {
	return strings.CutPrefix(id, inConversations)
}

// NoteKeys returns the keys of the notes that a client may store with a session.
func NoteKeys() []string { return []string{"summary", "snapshot", "meta", "facts"} }

// maxNotes limits the notes of a session, in bytes of their canonical EDN.
const maxNotes = 128 << 10

// noted returns the session with notes that replace those of the same keys.
func (s Session) noted(notes edn.Value) (Session, *contract.Error) {
	if !notes.IsMap() || notes.Len() == 0 {
		return s, nil
	}
	s.Notes = s.Notes.Merge(notes)
	if n := len(s.Notes.Canonical()); n > maxNotes {
		return s, contract.Errorf("session/notes-too-large", "session %s: its summary, snapshot, meta and facts have %d bytes, the limit is %d",
			s.ID, n, maxNotes).WithDetail("limit", edn.Int(maxNotes)).WithDetail("found", edn.Int(int64(n)))
	}
	return s, nil
}

// The roles of turns.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Turn is one message of the conversation of a session.
type Turn struct {
	N    int64 // number, increasing with each write of a turn; set by the store
	Role string
	Text string
	Run  string
	At   time.Time
}

// Var is a session variable. Expires is zero for one that does not expire.
type Var struct {
	Key     string // without colon
	Value   edn.Value
	Expires time.Time
}

// expired reports whether a variable with this expiry is no longer visible.
func expired(expires, now time.Time) bool { return !expires.IsZero() && !expires.After(now) }

var validID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

func checkID(id string) *contract.Error {
	if validID.MatchString(id) {
		return nil
	}
	return contract.Errorf("session/invalid-id", "the session id %.140q is not 1 to 128 characters of A-Z a-z 0-9 . _ : -", id)
}

// Value returns the public form of the session.
func (s Session) Value() edn.Value {
	out := s.Brief()
	for _, key := range NoteKeys() {
		if note := s.Notes.Key(key); !note.IsNil() {
			out = out.AssocKey("session/"+key, note)
		}
	}
	return out
}

// Brief returns the public form of the session without its notes.
func (s Session) Brief() edn.Value {
	var b edn.MapBuilder
	b.Key("session/id", edn.Text(s.ID))
	b.Key("session/version", edn.Int(s.Version))
	state := "hot"
	if s.Frozen {
		state = "warm"
	}
	b.Key("session/state", edn.K(state))
	b.Key("session/frozen?", edn.Bool(s.Frozen))
	if s.Frozen && s.FrozenBy != ByCaller {
		b.Key("session/frozen-by", edn.K(s.FrozenBy.String()))
	}
	b.Key("session/owner", edn.Text(s.Owner))
	for _, t := range []struct {
		key string
		at  time.Time
	}{
		{"created", s.Created}, {"updated", s.Updated}, {"last-access", s.Accessed}, {"frozen", s.FrozenAt}, {"thawed", s.ThawedAt},
	} {
		if !t.at.IsZero() {
			b.Key("session/"+t.key+"-at", edn.Inst(t.at))
		}
	}
	return b.Map()
}

// Value returns the public form of the turn.
func (t Turn) Value() edn.Value {
	return edn.MustMap(
		edn.K("role"), edn.K(t.Role),
		edn.K("text"), edn.Text(t.Text),
		edn.K("run"), edn.Text(t.Run),
		edn.K("at"), edn.Inst(t.At))
}

// created returns a new session, which is frozen.
func created(id, owner string, now time.Time) Session {
	return Session{
		ID:       id,
		Owner:    owner,
		Version:  1,
		Frozen:   true,
		Created:  now,
		Updated:  now,
		Accessed: now,
		FrozenAt: now,
		Notes:    edn.MustMap(),
	}
}

// thawed returns the session in the open state.
func (s Session) thawed(now time.Time) Session {
	if s.Frozen {
		s.Frozen, s.ThawedAt = false, now
	}
	return s
}

// frozen returns the session in the frozen state. A frozen session is returned
// unchanged.
func (s Session) frozen(now time.Time, by FrozenBy) Session {
	if !s.Frozen {
		s.Frozen, s.FrozenBy, s.FrozenAt = true, by, now
	}
	return s
}

// equal reports whether s and o have equal Frozen and Notes. A change between equal sessions is not
// an update.
func (s Session) equal(o Session) bool {
	return s.Frozen == o.Frozen && s.Notes.Equal(o.Notes)
}

// next returns the session with the version and the times of an update.
func (s Session) next(now time.Time) Session {
	s.Version++
	s.Updated, s.Accessed = now, now
	return s
}
