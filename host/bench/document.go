package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// machine describes the environment that the figures depend on.
type machine struct {
	Go         string `json:"go"`
	System     string `json:"system"`
	Processors int    `json:"processors"`
	Git        string `json:"git,omitempty"` // version; empty without git
	// Load holds the system load before and after the measurement; nil on systems without /proc.
	Load []string `json:"load,omitempty"`
}

func machineNow() machine {
	m := machine{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.NumCPU()}
	if out, err := exec.Command("git", "version").Output(); err == nil {
		m.Git = strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
	}
	return m.loaded()
}

// loaded returns m with the current system load appended.
func (m machine) loaded() machine {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = append(m.Load, strings.Join(strings.Fields(string(text))[:3], " "))
	}
	return m
}

// String returns the heading of the table.
func (m machine) String() string {
	text := fmt.Sprintf("%s %s, %d processors", m.Go, m.System, m.Processors)
	if m.Git != "" {
		text += ", git " + m.Git
	}
	if len(m.Load) > 0 {
		text += ", load " + m.Load[0]
	}
	return text
}

// figures is one row in the JSON document.
type figures struct {
	ID    string  `json:"id,omitempty"`
	Work  string  `json:"work"`
	Ours  string  `json:"ferment"`
	Peer  string  `json:"peer,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
	Must  string  `json:"must,omitempty"`
	Aim   float64 `json:"aim,omitempty"`
	Holds bool    `json:"holds"` // whether Ratio meets the goal; also true without a goal
}

// writeDocument writes the rows as JSON.
func writeDocument(file string, m machine, rows []row) error {
	all := make([]figures, len(rows))
	for i, r := range rows {
		all[i] = figures{ID: r.id, Work: r.work, Ours: r.ours, Peer: r.peer, Ratio: r.ratio, Must: r.goal, Aim: r.aim, Holds: r.within || r.goal == ""}
	}
	text, err := json.MarshalIndent(struct {
		Machine machine   `json:"machine"`
		Rows    []figures `json:"rows"`
	}{m.loaded(), all}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// notMet lists the goals of the part workspace that host/README.md does not record as met, because
// they are missed or no figure of a full run is recorded. Each entry is a prefix of a row title.
// missed ignores these goals; remove an entry when its goal is recorded as met.
var notMet = []string{
	"WS-245 ",
	"WS-246 ",
	"WS-247 plugin: the same",
	"WS-248 ",
	"WS-253 ",
	"watch: median time",
	"get-head by path",
	"compose 100 frames",
	"warm scan of ", // compared with the walk: the row compared with git has an id
}

// missed returns an error that lists the missed goals, without those in notMet; nil if there are
// none.
func missed(rows []row) error {
	var all []string
	goals := 0
	for _, r := range rows {
		met := !slices.ContainsFunc(notMet, func(begin string) bool { return strings.HasPrefix(r.title(), begin) })
		if r.goal == "" || !met {
			continue
		}
		if goals++; !r.within {
			found := r.ours
			if r.ratio > 0 {
				found = fmt.Sprintf("%.2f (%s)", r.ratio, found)
			}
			all = append(all, fmt.Sprintf("%s: %s, expected %s", r.title(), found, r.goal))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d goals are missed:\n  %s", len(all), goals, strings.Join(all, "\n  "))
}
