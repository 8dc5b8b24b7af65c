package flow

import (
	"cmp"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// exhausted is the failure of a candidate that could not repair its answer. The
// switch set may contain it or the type of its cause.
func exhausted(node string, last *Failure, set policy.SwitchSet) *Failure {
	f := *last
	last.Owed = 0
	f.RoundsLeft = false
	f.Err = contract.Errorf("repair/exhausted", "node %s: no answer was accepted after repair: %s", node,
		last.Err.Message).
		WithCause(last.Err)
	if !last.Findings.IsNil() {
		f.Err = f.Err.WithDetail("findings", last.Findings)
	}
	f.Class = f.Err.Class
	f.Matched = set.Matches(f.Err)
	return &f
}

// stoppedByBudget returns the failure of a candidate that cannot be called again
// after f because of lack, a failure of the budget. Its other properties are those
// of f, which decide whether other candidates may be tried. Owed moves to it.
func (f *Failure) stoppedByBudget(lack *Failure, set policy.SwitchSet) *Failure {
	g := *f
	f.Owed = 0
	g.Matched = set.Matches(f.Err)
	g.Err = BudgetError(lack.Err, f.Err)
	g.Class = lack.Class
	g.OverBudget, g.RoundsLeft, g.TriesLeft = true, false, false
	g.Expired = lack.Expired
	return &g
}

// BudgetError returns lack, an error of the budget, as the failure of an operation whose last
// attempt failed. Its message and hint also say why that attempt failed, which is its cause.
func BudgetError(lack, failure *contract.Error) *contract.Error {
	e := *lack.WithCause(failure)
	e.Message += "; the last attempt failed: " + failure.Message
	if row, _ := contract.Lookup(lack.Type); failure.Hint != "" && lack.Hint == row.Hint {
		e.Hint = failure.Hint
	}
	return &e
}

// Limits of the repair context, so that requests do not grow from round to
// round.
const (
	maxToldFindings = 20
	maxToldBytes    = 4 << 10
	maxToldOutput   = 64 << 10
)

// answerFingerprint identifies a refused answer. Fingerprints are equal if the
// answers are equal and have findings of the same gates at the same paths or, if
// there are no findings, the same failure type.
func answerFingerprint(f *Failure) []byte {
	var places []edn.Value
	for finding := range f.Findings.Elems() {
		places = append(places, edn.Vector(finding.Key("gate"), finding.Key("path")))
	}
	if len(places) == 0 {
		places = append(places, journal.Keyword(f.Err.Type))
	}
	return edn.Vector(previous(f), edn.SetOf(places...)).AppendCanonical(nil)
}

// previous returns the refused answer, or the raw text of an answer without a
// value.
func previous(f *Failure) edn.Value {
	if f.Out.IsNil() {
		return f.Err.Details.Key("raw")
	}
	return f.Out
}

// newRepairContext returns the :repair of the request. It holds the last answer
// only.
func newRepairContext(f *Failure, round int) edn.Value {
	var b edn.MapBuilder
	b.Key("attempt", edn.Int(int64(round)))
	before := previous(f)
	size := len(before.AppendCanonical(nil))
	switch {
	case before.IsNil():
	case size <= maxToldOutput:
		b.Key("previous", before)
	default:
		b.Key("previous", edn.MustMap(edn.K("hash"), edn.Text(edn.Hash(before)), edn.K("bytes"), edn.Int(int64(size)),
			edn.K("parts"), parts(f, before)))
	}
	findings, rest := limitFindings(f)
	b.Key("findings", edn.Vector(findings...))
	if rest > 0 {
		b.Key("more", edn.Int(int64(rest)))
	}
	if len(findings) == 0 {
		b.Key("error", edn.MustMap(edn.K("type"), journal.Keyword(f.Err.Type), edn.K("message"),
			edn.Text(f.Err.Message)))
	}
	return b.Map()
}

// limitFindings returns the findings within the limits, must gates first, and
// the number of the others.
func limitFindings(f *Failure) (kept []edn.Value, rest int) {
	all := slices.Collect(f.Findings.Elems())
	slices.SortStableFunc(all, func(a, b edn.Value) int { return cmp.Compare(rank(a), rank(b)) })
	size := 0
	for i, finding := range all {
		size += len(finding.AppendCanonical(nil))
		if i == maxToldFindings || size > maxToldBytes {
			return kept, len(all) - i
		}
		kept = append(kept, finding)
	}
	return kept, 0
}

func rank(finding edn.Value) int {
	if severity, _ := finding.Key("severity").AsKeyword(); severity == "must" {
		return 0
	}
	return 1
}

// parts returns the places of a large answer that have findings.
func parts(f *Failure, answer edn.Value) edn.Value {
	var out []edn.Value
	size := 0
	for finding := range f.Findings.Elems() {
		path := finding.Key("path")
		if path.Len() == 0 {
			continue
		}
		value, ok := answer.GetIn(slices.Collect(path.Elems())...)
		if !ok {
			continue
		}
		part := edn.MustMap(edn.K("path"), path, edn.K("value"), value)
		if size += len(part.AppendCanonical(nil)); size > maxToldOutput || len(out) == maxToldFindings {
			break
		}
		out = append(out, part)
	}
	return edn.Vector(out...)
}
