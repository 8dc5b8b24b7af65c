package journal

import "github.com/fermenthq/ferment/sdk/edn"

// How far a piece of text may be relied on when it is shown.
const (
	// VisibleChunk: the text is kept if the run goes well.
	VisibleChunk = "chunk"
	// VisibleProvisional: the text may be taken back until the node commits.
	VisibleProvisional = "provisional"
)

// AttemptChunk is text of the answer node that whoever follows the run may see.
// Attempt is 0 where the node is an inline plan, Chunk counts from 0 within the
// attempt. The texts since the last AttemptRetracted of the node, one after the
// other, are the text of the node when it commits.
type AttemptChunk struct {
	Attempt int
	Chunk   int
	Text    string
	Visible string
}

// Kind implements Body.
func (*AttemptChunk) Kind() Kind { return KindAttemptChunk }

func (x *AttemptChunk) fault() string {
	switch {
	case x.Attempt < 0:
		return "attempt"
	case x.Chunk < 0:
		return "chunk"
	case !oneOf(x.Visible, VisibleChunk, VisibleProvisional):
		return "visible"
	}
	return ""
}

func (x *AttemptChunk) fields(b *edn.MapBuilder) {
	b.Key("attempt", edn.Int(int64(x.Attempt)))
	b.Key("chunk", edn.Int(int64(x.Chunk)))
	b.Key("text", edn.Text(x.Text))
	put{b}.kw("visible", x.Visible)
}

func (x *AttemptChunk) refs(func(Ref)) {}

// AttemptRetracted takes back all text of the node that was shown so far.
// Reason is the type of the failure behind it.
type AttemptRetracted struct {
	Attempt int
	Reason  string
}

// Kind implements Body.
func (*AttemptRetracted) Kind() Kind { return KindAttemptRetracted }

func (x *AttemptRetracted) fault() string {
	switch {
	case x.Attempt < 0:
		return "attempt"
	case x.Reason == "":
		return "reason"
	}
	return ""
}

func (x *AttemptRetracted) fields(b *edn.MapBuilder) {
	b.Key("attempt", edn.Int(int64(x.Attempt)))
	put{b}.kw("reason", x.Reason)
}

func (x *AttemptRetracted) refs(func(Ref)) {}
