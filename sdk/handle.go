package sdk

import (
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Handle refers to a capability that a call may use: {:cap/ref :ns/name} in the
// input of the call. It names a capability, not a process. The plugin calls it
// through the host ([Ask]), which applies bindings, gates and budgets and
// records the call. A handle is valid while the call that received it is
// running. A plugin can pass it on in the input of its own calls but cannot
// create one. The zero Handle refers to no capability.
type Handle struct{ id string }

// ID is the id of the capability without colon, empty for the zero Handle.
func (h Handle) ID() string { return h.id }

// Value returns the handle as a value, nil for the zero Handle.
func (h Handle) Value() edn.Value { return contract.Handle(h.id) }

// HandleFrom reads a handle from a value. The error is :input/invalid.
func HandleFrom(v edn.Value) (Handle, error) {
	if id, ok := contract.HandleOf(v); ok {
		return Handle{id}, nil
	}
	if name, ok := v.Key("cap/ref").AsString(); ok && v.Len() == 1 { // from JSON
		if id, err := edn.Keyword(name); err == nil {
			word, _ := id.AsKeyword()
			return Handle{word}, nil
		}
	}
	return Handle{}, contract.Errorf("input/invalid",
		"read a handle: expected a map such as {:cap/ref :ns/name}, found %.80s",
		v)
}

// MarshalEDN writes the handle; the zero Handle is nil.
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
		return errors.New(contract.AsError(err).Message) // the decoder adds the type and the path
	}
	*h = read
	return nil
}
