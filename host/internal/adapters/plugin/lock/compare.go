package lock

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Level is the severity of a difference, in ascending order.
type Level int

// Values of Level.
const (
	// Drift is a difference within what was approved: fewer permissions, another version with the
	// same bytes, a capability without effects.
	Drift Level = iota + 1
	// Absent is a missing entry for a plugin or platform.
	Absent
	// Escalation is an effect or a need that was not approved.
	Escalation
	// Changed means that a file has other bytes than the approved ones.
	Changed
)

// Difference is one deviation of a plugin from its entry.
type Difference struct {
	Plugin  string
	Subject string // what differs: "the program", "needs", `effects of capability "a/b"`
	Path    string // path of the file for display; empty if no file differs
	Locked  string // the approved value
	Found   string // the actual value
	Level   Level
}

// Command returns the command that approves the difference after a review.
func (d Difference) Command() string {
	if d.Level == Escalation {
		return "ferment plugin approve " + d.Plugin
	}
	return "ferment plugin lock"
}

// Message describes the difference in one sentence, without the values.
func (d Difference) Message() string {
	what := fmt.Sprintf("plugin %q: ", d.Plugin)
	switch d.Level {
	case Absent:
		return what + d.Subject
	case Changed:
		if d.Found == missing {
			return what + fmt.Sprintf(
				"%s was approved with the file %s, which files of the plugin block no longer names", d.Plugin, d.Path)
		}
		if d.Locked == missing {
			return what + fmt.Sprintf("%s is not in the lock file", d.Path)
		}
		return what + fmt.Sprintf("%s is not the file that was approved", d.Path)
	case Escalation:
		return what + d.Subject + " go beyond what was approved"
	}
	return what + "the lock file has another value for " + d.Subject
}

// Hint returns the next step as a sentence with the command of Command.
func (d Difference) Hint() string {
	switch d.Level {
	case Escalation:
		return fmt.Sprintf("%q shows the difference and approves it", d.Command())
	case Changed:
		return fmt.Sprintf("if the change is intended, approve it with %q", d.Command())
	}
	return fmt.Sprintf("%q writes the entry", d.Command())
}

// Err returns the difference as an error of type config/lock with the details
// expected, found, path and command.
func (d Difference) Err() *contract.Error {
	message := d.Message()
	if d.Level != Absent {
		message += fmt.Sprintf(": expected %s, found %s", d.Locked, d.Found)
	}
	return d.detailed(contract.Errorf("config/lock", "%s", message))
}

func (d Difference) detailed(e *contract.Error) *contract.Error {
	e = e.WithDetail("plugin", edn.Text(d.Plugin)).WithDetail("expected", edn.Text(d.Locked)).
		WithDetail("found", edn.Text(d.Found)).WithDetail("command", edn.Text(d.Command()))
	if d.Path != "" {
		e = e.WithDetail("path", edn.Text(d.Path))
	}
	return e.WithHint(d.Hint())
}

// missing is the value of Locked or Found if one side does not exist.
const missing = "nothing"

// NotLocked returns the difference for a plugin without an entry.
func NotLocked(plugin string) Difference {
	return Difference{
		Plugin:  plugin,
		Subject: "it is not in the lock file",
		Locked:  missing,
		Found:   "a plugin",
		Level:   Absent,
	}
}

// CompareProgram compares the hashes of a program and of its files with the entry. path is the path
// of the program for display. It returns nil if nothing differs.
func (p Plugin) CompareProgram(platform, path, hash string, files []Hashed) []Difference {
	var out []Difference
	switch locked, ok := p.Binary(platform); {
	case !ok:
		out = append(out, Difference{
			Plugin:  p.Name,
			Subject: "its program is not locked for " + platform,
			Path:    path,
			Locked:  missing,
			Found:   hash,
			Level:   Absent,
		})
	case locked != hash:
		out = append(out, Difference{
			Plugin:  p.Name,
			Subject: "the program",
			Path:    path,
			Locked:  locked,
			Found:   hash,
			Level:   Changed,
		})
	}
	there := map[string]string{}
	for _, f := range files {
		there[f.Path] = f.Hash
	}
	for _, f := range p.Files {
		got, ok := there[f.Path]
		if !ok {
			got = missing
		}
		if got != f.Hash {
			out = append(out, Difference{
				Plugin:  p.Name,
				Subject: "a file",
				Path:    f.Path,
				Locked:  f.Hash,
				Found:   got,
				Level:   Changed,
			})
		}
		delete(there, f.Path)
	}
	for _, f := range files {
		if _, extra := there[f.Path]; extra {
			out = append(out, Difference{
				Plugin:  p.Name,
				Subject: "a file",
				Path:    f.Path,
				Locked:  missing,
				Found:   f.Hash,
				Level:   Changed,
			})
		}
	}
	return out
}

// CompareDescription compares the description of a program with the entry. It uses only version,
// protocol, needs, ports and capabilities of now. It returns nil if nothing differs.
func (p Plugin) CompareDescription(now Plugin) []Difference {
	var out []Difference
	point := func(subject, locked, found string, level Level) {
		if level != 0 {
			out = append(out, Difference{Plugin: p.Name, Subject: subject, Locked: locked, Found: found, Level: level})
		}
	}
	point("the version", p.Version, now.Version, drift(p.Version == now.Version))
	point("the protocol", p.Protocol, now.Protocol, drift(p.Protocol == now.Protocol))
	point("its needs", listed(p.Needs), listed(now.Needs), beyond(p.Needs, now.Needs, Escalation))
	locked, found := portTexts(p.Ports), portTexts(now.Ports)
	point("the ports of its needs", listed(locked), listed(found), beyond(locked, found, Escalation))
	for _, c := range now.Capabilities {
		locked, ok := p.Capability(c.ID)
		if !ok {
			level := beyond(harmless, c.Effects, Escalation)
			if level != Escalation {
				level = Drift
			}
			point(fmt.Sprintf("the effects of the new capability %q", c.ID), missing, listed(c.Effects), level)
			continue
		}
		level := beyond(slices.Concat(locked.Effects, harmless), c.Effects, Escalation)
		if level == Drift && slices.Equal(locked.Effects, c.Effects) {
			level = 0
		}
		point(fmt.Sprintf("the effects of capability %q", c.ID), listed(locked.Effects), listed(c.Effects), level)
		point(fmt.Sprintf("the intents of capability %q", c.ID), listed(locked.Intents), listed(c.Intents),
			drift(slices.Equal(locked.Intents, c.Intents)))
	}
	for _, c := range p.Capabilities {
		if _, ok := now.Capability(c.ID); !ok {
			point(fmt.Sprintf("capability %q, which is gone", c.ID), listed(c.Effects), missing, Drift)
		}
	}
	return out
}

// harmless are the effects that need no approval.
var harmless = []string{"none"}

func drift(same bool) Level {
	if same {
		return 0
	}
	return Drift
}

// beyond returns level if now has elements that were not approved, Drift if it has fewer, and 0 if
// both are equal.
func beyond(approved, now []string, level Level) Level {
	for _, n := range now {
		if !slices.Contains(approved, n) {
			return level
		}
	}
	return drift(len(approved) == len(now))
}
