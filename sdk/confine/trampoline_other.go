//go:build !linux

package confine

import (
	"fmt"
	"io"
	"os"
)

// Prepare fails: this system has no trampoline. Start the program directly if
// the policy permits that.
func (s Start) Prepare() (*Prepared, error) {
	return nil, &Error{Layer: LayerProgram, Path: s.Path,
		Err: fmt.Errorf("confinement is not supported on %s", Probe().System)}
}

func readAll(f *os.File) ([]byte, error) { return io.ReadAll(f) }

// trampoline fails on this system.
func trampoline([]string) int {
	fmt.Fprintln(os.Stderr, "this is an internal command, which this system does not support")
	return 2
}
