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

func (*AttemptChunk) describe() description { return attemptChunk }

var attemptChunk = kindOf(KindAttemptChunk, true,
	count("attempt", func(x *AttemptChunk) *int { return &x.Attempt }),
	count("chunk", func(x *AttemptChunk) *int { return &x.Chunk }),
	field(always("text", tStr, func(x *AttemptChunk) edn.Value { return edn.Text(x.Text) }, nil),
		func(x *AttemptChunk) *string { return &x.Text }, edn.Value.AsString),
	enum("visible", func(x *AttemptChunk) *string { return &x.Visible }, VisibleChunk, VisibleProvisional),
)

// AttemptRetracted retracts all shown text of the node. Reason is the type of
// the error that caused it.
type AttemptRetracted struct {
	Attempt int
	Reason  string
}

// Kind implements Body.
func (*AttemptRetracted) Kind() Kind { return KindAttemptRetracted }

func (*AttemptRetracted) describe() description { return attemptRetracted }

var attemptRetracted = kindOf(KindAttemptRetracted, true,
	count("attempt", func(x *AttemptRetracted) *int { return &x.Attempt }),
	keyword("reason", func(x *AttemptRetracted) *string { return &x.Reason }),
)
