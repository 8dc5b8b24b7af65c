package confine

// Layer is a part of the confinement.
type Layer string

// The layers, in the order in which they are applied. LayerPolicy stands for
// the policy itself, LayerProgram for the program to be run.
const (
	LayerPolicy       Layer = "policy"
	LayerProgram      Layer = "program"
	LayerLimits       Layer = "limits"
	LayerPrivileges   Layer = "no-new-privileges"
	LayerFiles        Layer = "landlock"
	LayerCapabilities Layer = "capabilities"
	LayerCalls        Layer = "seccomp"
	LayerGroups       Layer = "cgroup"
)

// Error reports that a process could not be confined.
type Error struct {
	Layer Layer
	Path  string // the file at fault; often empty
	Err   error
}

// Error includes the layer and the file.
func (e *Error) Error() string {
	s := "confine: " + string(e.Layer)
	if e.Path != "" {
		s += " " + e.Path
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
