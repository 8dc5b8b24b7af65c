package lock

// Mode selects how the lock file is applied when a configuration is loaded.
type Mode int

// Values of Mode. In all modes except Ignored, a program that differs from its entry is not
// started.
const (
	// Ignored does not read the lock file; every program may be started.
	Ignored Mode = iota
	// Checked makes changed programs and unapproved effects and needs errors. [Policy.Strict]
	// decides whether a missing entry is an error.
	Checked
	// Readonly makes every difference from the lock file an error.
	Readonly
	// Shown makes every difference a warning.
	Shown
)

// State is the result of comparing a plugin with its entry.
type State string

// Values of State.
const (
	StateUnknown   State = ""          // not compared
	StateAbsent    State = "absent"    // no entry, or no entry for this platform
	StateChanged   State = "changed"   // the program differs from the approved one
	StateEscalated State = "escalated" // unapproved effects or needs
	StateMatches   State = "locked"
)

// With returns the state after a further difference was found, which is the worse one of both.
func (s State) With(d Difference) State {
	switch {
	case d.Level == Changed, s == StateChanged:
		return StateChanged
	case d.Level == Escalation:
		return StateEscalated
	case d.Level == Absent && s == StateMatches:
		return StateAbsent
	}
	return s
}

// Policy decides which programs may be started, and which differences are errors.
type Policy struct {
	Mode Mode
	// Strict permits only approved programs.
	Strict bool
	// Listed prevents programs without an entry from being started, even if Strict is not set.
	Listed bool
}

// Lenient reports whether a missing entry is accepted: in mode Shown, and in mode Checked unless
// Strict is set. Listed is not considered.
func (p Policy) Lenient() bool { return p.Mode == Shown || p.Mode == Checked && !p.Strict }

// MayStart reports whether a program in a state may be started.
func (p Policy) MayStart(s State) bool {
	switch {
	case p.Mode == Ignored, s == StateMatches:
		return true
	case s == StateAbsent:
		return !p.Listed && !p.Strict && p.Mode != Readonly
	}
	return false
}

// Refuses reports whether a difference is an error; otherwise it is a warning.
func (p Policy) Refuses(l Level) bool {
	switch {
	case p.Mode == Shown, p.Mode == Ignored:
		return false
	case p.Mode == Readonly, l == Changed, l == Escalation:
		return true
	}
	return l == Absent && !p.Lenient()
}
