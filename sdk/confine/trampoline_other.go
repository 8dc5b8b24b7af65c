//go:build !linux

package confine

import (
	"fmt"
	"io"
	"os"
)

// Prepare fails: there is no trampoline on this system. Start the program
// directly when the policy allows that.
func (s Start) Prepare() (*Prepared, error) {
	return nil, &Error{Layer: LayerProgram, Path: s.Path, Err: fmt.Errorf("there is no confinement on %s", Probe().System)}
}

func readAll(f *os.File) ([]byte, error) { return io.ReadAll(f) }

// trampoline is that of other systems: there is none.
func trampoline([]string) int {
	fmt.Fprintln(os.Stderr, "this is an internal command, and not for this system")
	return 2
}
