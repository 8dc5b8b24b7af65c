package journal

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
	Value   Ref    // the text, apart from the record so that a purge of the run erases it (JRN-061)
	Inline  string // the text, in records of earlier versions, which have no Value
	Visible string
}

// Text returns the text; empty if it was purged.
func (x *AttemptChunk) Text() string {
	if !x.Value.Set() {
		return x.Inline
	}
	v := x.Value.Value()
	text, ok := v.AsString()
	if !ok && !v.IsNil() {
		return v.String() // the whole text is the replacement of a secret
	}
	return text
}

// Kind implements Body.
func (*AttemptChunk) Kind() Kind { return KindAttemptChunk }

func (*AttemptChunk) describe() description { return attemptChunk }

var attemptChunk = kindOf(KindAttemptChunk, true,
	count("attempt", func(x *AttemptChunk) *int { return &x.Attempt }),
	count("chunk", func(x *AttemptChunk) *int { return &x.Chunk }),
	text("text", func(x *AttemptChunk) *string { return &x.Inline }).optional("an earlier version recorded it"),
	reference("value", func(x *AttemptChunk) *Ref { return &x.Value }).
		needed("there is no :text", func(x *AttemptChunk) bool { return x.Inline == "" }),
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
