package conformance

import (
	"slices"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// reportVersion is the version of the report format. Within one version keys
// are only added.
const reportVersion = 1

// Report is the report of a run.
type Report struct {
	Suite    string
	Protocol int
	Platform string
	Seed     uint64
	Began    time.Time
	Took     time.Duration

	Plugin  string // as described, empty if unknown
	Version string
	// Command is the command line from the options. Hash identifies the
	// program; the caller of Run sets it.
	Command CommandLine
	Hash    string

	// Profiles are the checked profiles.
	Profiles []string
	Results  []Result
	// Baseline lists the checks known to fail; nil without one.
	Baseline *Baseline
}

// CommandLine is the command line of "ferment conform".
type CommandLine struct {
	// Flags are the flags to repeat in a second call, Program is the command of the
	// plugin, after "--".
	Flags, Program []string
	// Verb is set instead if something other than a plugin was checked.
	Verb string
}

// Failed counts the results that did not pass.
func (r Report) Failed() int { return len(r.Results) - r.count(Pass, "") }

// Blocked returns the checks that did not run because another check failed: by
// lists the failed checks in the order of the report, ids maps each of them to
// the ids of the checks that it prevented.
func (r Report) Blocked() (by []string, ids map[string][]string) {
	ids = map[string][]string{}
	for _, res := range r.Results {
		if res.Blocked == "" {
			continue
		}
		if ids[res.Blocked] == nil {
			by = append(by, res.Blocked)
		}
		ids[res.Blocked] = append(ids[res.Blocked], res.Check.ID)
	}
	return by, ids
}

// Notes returns the notes of the checks that passed in part, in the order of the report, and
// maps each of them to the ids of its checks.
func (r Report) Notes() (notes []string, ids map[string][]string) {
	ids = map[string][]string{}
	for _, res := range r.Results {
		if res.Note == "" {
			continue
		}
		if ids[res.Note] == nil {
			notes = append(notes, res.Note)
		}
		ids[res.Note] = append(ids[res.Note], res.Check.ID)
	}
	return notes, ids
}

// BlockedText returns a text that states why the checks prevented by the failed
// check by did not run.
func (r Report) BlockedText(by string) string {
	for _, res := range r.Results {
		switch {
		case res.Blocked != by:
		case res.Observed == (&blocked{by: by, hangs: true}).Error():
			return "not run: calls do not end (" + by + ")"
		case res.Observed == (&blocked{by: by, late: true}).Error():
			return "not run: no time is left (" + by + ")"
		}
	}
	return "not run because of " + by
}

// count counts the results of a status in a profile, or in all.
func (r Report) count(s Status, profile string) int {
	n := 0
	for _, res := range r.Results {
		if res.Status == s && (profile == "" || res.Check.Profile() == profile) {
			n++
		}
	}
	return n
}

// checked returns the profiles with at least one result.
func (r Report) checked() []string {
	return slices.DeleteFunc(slices.Clone(r.Profiles), func(p string) bool {
		return r.count(Pass, p)+r.count(Fail, p)+r.count(Fault, p) == 0
	})
}

// unexpected returns the failures that are not in the baseline.
func (r Report) unexpected() []Result {
	var all []Result
	for _, res := range r.Results {
		if res.Status == Fail && !r.Baseline.Knows(res.Check.ID) {
			all = append(all, res)
		}
	}
	return all
}

// Outcome is the verdict of the run: Fault if the harness failed, Fail on an
// unexpected failure, a stale baseline or a run without checks, else Pass.
func (r Report) Outcome() Status {
	switch {
	case r.count(Fault, "") > 0:
		return Fault
	case len(r.Results) == 0 || len(r.unexpected()) > 0 || len(r.Stale()) > 0:
		return Fail
	}
	return Pass
}

// Stale returns the entries of the baseline whose check passed or does not
// exist.
func (r Report) Stale() []string {
	if r.Baseline == nil {
		return nil
	}
	var stale []string
	for _, id := range r.Baseline.IDs {
		at := slices.IndexFunc(r.Results, func(res Result) bool { return res.Check.ID == id })
		known := slices.ContainsFunc(Checks(), func(c Check) bool { return c.ID == id })
		if !known || (at >= 0 && r.Results[at].Status == Pass) {
			stale = append(stale, id)
		}
	}
	return stale
}

// reproduce returns the command that runs one check again. It is empty if the
// command line is unknown.
func (r Report) reproduce(id string) string {
	switch {
	case r.Command.Verb != "":
		return "ferment conform " + r.Command.Verb + " --run " + launch.ShellLine("^"+id+"$")
	case len(r.Command.Program) == 0:
		return ""
	}
	words := []string{"ferment", "conform", "--seed", strconv.FormatUint(r.Seed, 10), "--profile", profileOf(id), "--run",
		"^" + id + "$"}
	words = slices.Concat(words, r.Command.Flags, []string{"--"}, r.Command.Program)
	return launch.ShellLine(words...)
}

// Value returns the report as data, in the form of its JSON.
func (r Report) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("report/v", edn.Int(reportVersion))
	b.Key("suite", edn.Text(r.Suite))
	b.Key("protocol", edn.Int(int64(r.Protocol)))
	b.Key("platform", edn.Text(r.Platform))
	b.Key("seed", edn.Text(strconv.FormatUint(r.Seed, 10)))
	b.Key("began", edn.Inst(r.Began))
	b.Key("took-ms", millis(r.Took))
	b.Key("outcome", edn.K(string(r.Outcome())))
	b.Key("plugin", edn.MustMap(
		edn.K("name"), edn.Text(r.Plugin), edn.K("version"), edn.Text(r.Version),
		edn.K("hash"), edn.Text(r.Hash), edn.K("command"), texts(r.Command.Program),
	))
	profiles := make([]edn.Value, 0, len(r.Profiles))
	for _, name := range r.checked() {
		profiles = append(profiles, r.profileValue(name))
	}
	b.Key("profiles", edn.Vector(profiles...))
	checks := make([]edn.Value, len(r.Results))
	for i, res := range r.Results {
		checks[i] = r.resultValue(res)
	}
	b.Key("checks", edn.Vector(checks...))
	if r.Baseline != nil {
		b.Key("baseline", edn.MustMap(edn.K("known"), texts(r.Baseline.IDs), edn.K("stale"), texts(r.Stale())))
	}
	return b.Map()
}

func (r Report) profileValue(name string) edn.Value {
	passed, failed, faults := r.count(Pass, name), r.count(Fail, name), r.count(Fault, name)
	outcome := Pass
	switch {
	case faults > 0:
		outcome = Fault
	case failed > 0:
		outcome = Fail
	}
	return edn.MustMap(
		edn.K("profile"), edn.Text(name), edn.K("outcome"), edn.K(string(outcome)),
		edn.K("checks"), edn.Int(int64(passed+failed+faults)), edn.K("passed"), edn.Int(int64(passed)),
		edn.K("failed"), edn.Int(int64(failed)), edn.K("faults"), edn.Int(int64(faults)),
	)
}

func (r Report) resultValue(res Result) edn.Value {
	var b edn.MapBuilder
	b.Key("check", edn.Text(res.Check.ID))
	b.Key("profile", edn.Text(res.Check.Profile()))
	b.Key("text", edn.Text(res.Check.Text))
	requirements := make([]edn.Value, len(res.Check.Requirements))
	for i, id := range res.Check.Requirements {
		requirement, _ := requirementOf(id)
		requirements[i] = edn.MustMap(edn.K("id"), edn.Text(id), edn.K("text"), edn.Text(requirement.Text))
	}
	b.Key("requirements", edn.Vector(requirements...))
	b.Key("status", edn.K(string(res.Status)))
	b.Key("took-ms", millis(res.Took))
	if line := r.reproduce(res.Check.ID); line != "" {
		b.Key("reproduce", edn.Text(line))
	}
	if res.Note != "" {
		b.Key("note", edn.Text(res.Note))
	}
	if res.Status != Pass {
		b.Key("expected", edn.Text(res.Expected))
		b.Key("observed", edn.Text(res.Observed))
		b.Key("evidence", texts(res.Evidence))
		b.Key("known", edn.Bool(r.Baseline.Knows(res.Check.ID)))
		if res.Blocked != "" {
			b.Key("blocked-by", edn.Text(res.Blocked))
		}
	}
	return b.Map()
}

func millis(d time.Duration) edn.Value { return edn.Int(d.Milliseconds()) }

func texts(all []string) edn.Value {
	vs := make([]edn.Value, len(all))
	for i, s := range all {
		vs[i] = edn.Text(s)
	}
	return edn.Vector(vs...)
}
