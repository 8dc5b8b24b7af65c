package conversation

// Part is a part of a message: a [Text], [Image], [Reference], [Reasoning],
// [Call] or [Result]. Parts are values; a copy of one can be modified without
// effect on its message.
type Part interface{ part() }

// Text is text that people and models read.
type Text struct {
	Text string
	// Field is the phase of an answer to which the text belongs, "" for
	// providers without phases. It is sent back unchanged.
	Field string
	// Cache marks the end of a prefix that other requests share.
	Cache bool
}

// Image is an image, either as base64 Data with its media type, or as a URL.
type Image struct {
	MediaType, Data, URL string
	Cache                bool // as in Text
}

// Reference is content that is stored elsewhere. Hash identifies it; in Ferment it
// is "b3:" and the 64 hexadecimal digits of its BLAKE3-256 hash. Both fields are
// required. Models and the conversations of a Ferment host take the content itself only.
type Reference struct {
	Hash, MediaType string
}

// Reasoning is text that a model wrote before its answer. It is sent back to
// the same provider unchanged and is never part of the text of a message.
type Reasoning struct {
	Text string
	// Data is reasoning that only its provider can read. It excludes Text.
	Data string
	// Signature, Field and Model are what the provider needs to accept its
	// reasoning again: a signature, the field in which it came, and the model
	// that wrote it.
	Signature, Field, Model string
}

// Call is the request of a model to run a tool.
type Call struct {
	// ID relates the call to its result.
	ID string
	// Tool is the name of the tool.
	Tool string
	// Args is the canonical text of the arguments: equal arguments have equal
	// texts. In Ferment it is the canonical EDN of a map.
	Args string
	// Cache is the mark of [Text], allowed only on the last part of a message.
	Cache bool
}

// Result states which call a message of the role tool answers. The other parts
// of the message are the content of the result.
type Result struct {
	CallID string
	// Failed is set if the tool failed; the content is then the reason.
	Failed bool
}

func (Text) part()      {}
func (Image) part()     {}
func (Reference) part() {}
func (Reasoning) part() {}
func (Call) part()      {}
func (Result) part()    {}
