package journal

import "github.com/fermenthq/ferment/sdk/edn"

// Reliability of a shown piece of text.
const (
	// VisibleChunk: the text is final if the run succeeds.
	VisibleChunk = "chunk"
	// VisibleProvisional: the text may be retracted until the node commits.
	VisibleProvisional = "provisional"
)

// AttemptChunk is visible text of the answer node. Attempt is 0 if the node is
// an inline plan, Chunk counts from 0 within the attempt. The concatenated
// texts since the last AttemptRetracted of the node are its text when it
// commits.
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

// AttemptRetracted retracts all shown text of the node. Reason is the type of
// the error that caused it.
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
