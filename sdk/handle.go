package sdk

import (
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Handle is a capability that somebody gave a call to work with: {:cap/ref
// :ns/name} in its input. It names a capability, not a process: who holds it
// asks through the host ([Ask]), which binds, gates, budgets and records that
// like any call. It is of use only while the call lasts that it was given to;
// a plugin may pass it on in the input of what it asks, and nobody can make one
// up. The zero Handle stands for none.
type Handle struct{ id string }

// ID is the id of the capability without colon, empty for the zero Handle.
func (h Handle) ID() string { return h.id }

// Value is the handle as a value, nil for the zero Handle.
func (h Handle) Value() edn.Value { return contract.Handle(h.id) }

// HandleFrom reads a handle out of a value. The error is :input/invalid.
func HandleFrom(v edn.Value) (Handle, error) {
	if id, ok := contract.HandleOf(v); ok {
		return Handle{id}, nil
	}
	if name, ok := v.Key("cap/ref").AsString(); ok && v.Len() == 1 { // it came as JSON
		if id, err := edn.Keyword(name); err == nil {
			word, _ := id.AsKeyword()
			return Handle{word}, nil
		}
	}
	return Handle{}, contract.Errorf("input/invalid", "a handle is a map like {:cap/ref :ns/name}, not %.80s", v)
}

// MarshalEDN writes the handle.
func (h Handle) MarshalEDN() ([]byte, error) { return edn.Write(h.Value()), nil }

// UnmarshalEDN reads the handle; nil is the zero Handle.
func (h *Handle) UnmarshalEDN(text []byte) error {
	v, err := edn.Read(text)
	if err != nil {
		return fmt.Errorf("read a handle: %w", err)
	}
	if v.IsNil() {
		*h = Handle{}
		return nil
	}
	read, err := HandleFrom(v)
	if err != nil {
		return errors.New(contract.AsError(err).Message) // whoever decodes gives it a type and a place
	}
	*h = read
	return nil
}
