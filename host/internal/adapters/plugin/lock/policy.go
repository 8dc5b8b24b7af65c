package lock

// Mode selects how the lock file is applied when a configuration is read.
type Mode int

// The modes. A program that differs from its entry is never started.
const (
	// Ignored does not read the lock file; every program may be started.
	Ignored Mode = iota
	// Checked refuses changed programs and unapproved effects and needs. Whether
	// a missing entry is an error depends on [Policy.Strict].
	Checked
	// Readonly refuses every difference from the lock file.
	Readonly
	// Shown refuses nothing.
	Shown
)

// State is the result of comparing a plugin with its entry.
type State string

// The states.
const (
	StateUnknown   State = ""          // not compared
	StateAbsent    State = "absent"    // no entry, or no entry for this platform
	StateChanged   State = "changed"   // the program differs from the approved one
	StateEscalated State = "escalated" // unapproved effects or needs
	StateMatches   State = "locked"
)

// With returns the state after another difference was found. The worst one
// decides.
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

// Policy decides what a lock file permits.
type Policy struct {
	Mode Mode
	// Strict: only approved programs are started.
	Strict bool
	// Listed: programs without an entry are not started, strict or not.
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
