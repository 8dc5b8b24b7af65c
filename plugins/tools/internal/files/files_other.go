//go:build !linux

package files

import (
	"runtime"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Base is never used on this system, because Open fails.
type Base struct{}

// Open fails: this system cannot confine a path to its directory.
func Open(t effects.Tool, _ effects.Place, _ bool) (*Base, *contract.Error) {
	return nil, contract.Errorf("effects/not-enforceable", ":%s: a call cannot be confined to its directory on %s",
		t.ID, runtime.GOOS)
}

// Close does nothing.
func (b *Base) Close() {}

// Path returns "".
func (b *Base) Path() string { return "" }

// Read is never called on this system.
func (b *Base) Read(effects.Place, edn.Value, *effects.Scope) (edn.Value, *contract.Error) {
	return edn.Nil(), nil
}

// List is never called on this system.
func (b *Base) List(effects.Place) (edn.Value, *contract.Error) { return edn.Nil(), nil }

// Write is never called on this system.
func (b *Base) Write(effects.Place, edn.Value, *effects.Scope, string) (edn.Value, *contract.Error) {
	return edn.Nil(), nil
}
