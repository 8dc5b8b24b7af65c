package sdk

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Ref names the receiver of a request: one capability by its handle, or an
// intent, for which the host chooses the capability. As a value it is {:cap/ref
// :ns/name} or the keyword of the intent; as JSON, the name of the intent. The
// zero Ref names nothing.
type Ref struct {
	Handle Handle
	// Intent has no colon. With a Handle it selects one intent of the capability.
	Intent string
}

// IsZero reports whether the Ref names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// String returns the name of the capability or the intent with a colon.
func (r Ref) String() string {
	if r.Handle.id != "" {
		return ":" + r.Handle.id
	}
	return ":" + r.Intent
}

// Value returns the reference as a value: the handle, else the keyword of the
// intent. The intent beside a handle is lost. The zero Ref and an invalid
// intent give nil.
func (r Ref) Value() edn.Value {
	if r.Handle.id != "" || r.Intent == "" {
		return r.Handle.Value()
	}
	intent, err := edn.Keyword(r.Intent)
	if err != nil {
		return edn.Nil()
	}
	return intent
}

// RefFrom reads a reference from a value. The error is :input/invalid.
func RefFrom(v edn.Value) (Ref, error) {
	if v.IsMap() {
		h, err := HandleFrom(v)
		return Ref{Handle: h}, err
	}
	intent := strings.TrimPrefix(word(v), ":")
	if _, err := edn.Keyword(intent); err != nil || !strings.Contains(intent, "/") {
		return Ref{}, contract.Errorf("input/invalid",
			"read a reference: expected a handle such as {:cap/ref :ns/name} or an intent such as :model/chat, found %.80s", v)
	}
	return Ref{Intent: intent}, nil
}

// MarshalEDN writes the reference; the zero Ref is nil.
func (r Ref) MarshalEDN() ([]byte, error) { return edn.Write(r.Value()), nil }

// UnmarshalEDN reads the reference; nil is the zero Ref.
func (r *Ref) UnmarshalEDN(text []byte) error {
	v, err := edn.Read(text)
	if err != nil {
		return fmt.Errorf("read a reference: %w", err)
	}
	*r = Ref{}
	if v.IsNil() {
		return nil
	}
	read, err := RefFrom(v)
	if err != nil {
		return fmt.Errorf("%s", contract.AsError(err).Message) // the decoder adds the type and the path
	}
	*r = read
	return nil
}
