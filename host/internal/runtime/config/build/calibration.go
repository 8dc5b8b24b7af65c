package build

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// plain marks the deterministic judges that no intent uses with severity must. Their rules are part
// of the configuration, like those of a check, so they need no calibration (JDG-002).
func (b *builder) plain(judges []registry.Judge, book *policy.Book) {
	for i := range judges {
		j := &judges[i]
		at := slices.IndexFunc(b.caps, func(c registry.Capability) bool { return c.ID == j.Capability })
		j.Plain = at >= 0 && b.caps[at].Deterministic
		for _, l := range book.Intents {
			if l.Judge.V == j.Name && l.JudgeSeverity.V == registry.JudgeMust {
				j.Plain = false
			}
		}
	}
}

// unseen reports whether the capability of a judge is unknown because its plugin was not described,
// which is reported elsewhere. It may be deterministic and then needs no calibration.
func (b *builder) unseen(j *registry.Judge) bool {
	return j.Capability != "" &&
		!slices.ContainsFunc(b.caps, func(c registry.Capability) bool { return c.ID == j.Capability })
}

// believed warns about judges in use that cannot reject an answer alone, because their calibration
// is missing, expired or too low (JDG-011).
func (b *builder) believed(judges []registry.Judge) {
	for i := range judges {
		j := &judges[i]
		s := b.judges[j.Name]
		if !j.Enabled || !b.used["judge"][j.Name] || s == nil || b.Report.Doubts("judge", j.Name) {
			continue
		}
		r, err := calibrations.Dir(b.Options.DataDir).Record(j.Name)
		d := diag.Diagnostic{
			Severity: diag.SeverityWarning,
			Range:    s.At(),
			Path:     s.Node.Path,
			Hint:     "run: ferment judge calibrate " + j.Name + " --anchors FILE.edn",
		}
		if j.Anchors != "" {
			d.Hint = "run: ferment judge calibrate " + j.Name
		}
		switch st := r.Standing(j, time.Now()); {
		case j.Plain && st != calibration.Drifted:
			continue
		case err != nil:
			d.Type, d.Message = "config/type",
				fmt.Sprintf("the calibration of %s cannot be used, so it only counts in the score: %s", s.Node.Title(),
					disk.Cause(err))
		case r != nil && r.Other(j):
			d.Type, d.Message = "config/range",
				fmt.Sprintf("%s was calibrated with capability %s, and calls %s: it only counts in the score", s.Node.Title(),
					diag.Quote(r.Capability), diag.Quote(j.Capability))
		case st == calibration.Uncalibrated && b.unseen(j):
			continue
		case st == calibration.Uncalibrated:
			d.Type, d.Message = "config/missing",
				s.Node.Title()+" was not calibrated: it only counts in the score, and cannot reject an answer by itself"
		case st == calibration.Drifted:
			d.Type, d.Message = "judge/drift",
				fmt.Sprintf("%s does not grade as it did when it was calibrated, and is not called: %s", s.Node.Title(),
					r.Decline())
		case st == calibration.Expired:
			d.Type, d.Message = "config/range", s.Node.Title()+" was calibrated too long ago: it only counts in the score, and cannot reject an answer by itself"
			d.Path = append(slices.Clone(s.Node.Path), "recheck")
			d.Expected, d.Found = edn.Text("a calibration not older than "+j.Recheck.String()),
				edn.Text("one of "+r.At.UTC().Format(time.DateOnly))
			if j.Anchors != "" {
				d.Hint += ", or have \"ferment serve\" do it, which measures the judge again soon after it started"
			}
		case st == calibration.Worthless:
			d.Type, d.Message = "config/range",
				fmt.Sprintf("%s has no weight and is not called: %s", s.Node.Title(), r.Worthless())
			d.Expected, d.Found = edn.Text("a judge that agrees with labelled answers"),
				edn.Text("kappa "+figure(r.Kappa))
		case st == calibration.Weak:
			d.Type, d.Message = "config/range", fmt.Sprintf("%s agrees too little with labelled answers: it only counts in the score, and cannot reject an answer by itself", s.Node.Title())
			d.Path = append(slices.Clone(s.Node.Path), "min_kappa")
			d.Expected, d.Found = edn.Text("kappa of at least "+figure(j.MinKappa)), edn.Text(figure(r.Kappa))
		default:
			continue
		}
		b.Report.Add(d)
	}
}

func figure(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// JudgesInUse returns the names of the enabled judges that an intent uses.
func (g *Generation) JudgesInUse() []string {
	var out []string
	for _, name := range g.Registry.Judges() {
		if j, ok := g.Registry.Judge(name); ok && j.Enabled && uses(g.Policies, j) {
			out = append(out, name)
		}
	}
	return out
}

func uses(book *policy.Book, j *registry.Judge) bool {
	for _, l := range book.Intents {
		if l.Judge.V == j.Name {
			return true
		}
	}
	return false
}
