package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Version is the version of the record's EDN form.
const Version = 1

// Record is the calibration of one judge (JDG-010). Shares and coefficients are
// rounded to four decimals, so that writing and reading a record returns the
// same record.
type Record struct {
	// Judge is the name of the judge in the configuration.
	Judge string
	// Capability is the capability that gave the verdicts, without colon.
	Capability string
	// Key is the judge key of the verdicts: everything that determines them
	// apart from task and answer. A different key means a different judge.
	Key string
	// Model is the model that answered, as its server names it; empty if no model was
	// called or the server named none.
	Model string
	// Family is the family of Model, empty like Model.
	Family string
	// Anchors is the hash of the anchors. Good and Bad count the judged anchors
	// with that label.
	Anchors   string
	Good, Bad int
	// Failed counts anchors without a usable verdict. They are not part of any
	// figure.
	Failed int
	// At is the time at which judging was completed, Why the reason for the calibration.
	At  time.Time
	Why Why
	// Models are all models that answered, if there were several.
	Models []string
	// Course holds the earlier measurements of the judge, oldest first.
	Course []Point
	// ScoreMin is the lowest score with which an answer passed.
	ScoreMin quality.Score

	// Sensitivity is the share of good answers that passed, Specificity the
	// share of bad answers that failed.
	Sensitivity, Specificity float64
	// Kappa is Cohen's kappa: agreement with the labels beyond chance, -1 to 1.
	Kappa float64
	// Baseline is kappa of the judge's first calibration with these anchors;
	// unknown in the first record. See Since.
	Baseline Measured
	// Flips is the share of anchors whose verdict changed when they were judged
	// again.
	Flips Measured
	// Length is the rank correlation of score and length among answers with the
	// same label, -1 to 1.
	Length Measured
	// Order is the preference for the answer shown first in a comparison: the
	// share of choices of the first minus that of the second, -1 to 1.
	Order Measured
	// Own is the amount by which answers of the judge's own family score higher
	// than others with the same label.
	Own Measured
	// Spread is the standard deviation of the scores.
	Spread float64
	// Retest is kappa of the repeated verdicts.
	Retest Measured
	// Rule is kappa of the verdicts and the length rule that predicts most of
	// them: answers above, or below, some length pass.
	Rule Measured
}

// Why is the reason for a calibration.
type Why string

// The reasons. Records of older versions may have none.
const (
	ByOperator Why = "operator" // a person
	ByAge      Why = "recheck"  // the previous record was old
	ByModel    Why = "model"    // the answering model changed
)

func (w Why) known() bool { return w == ByOperator || w == ByAge || w == ByModel }

// Point is a summary of an earlier calibration of a judge.
type Point struct {
	At    time.Time
	Kappa float64
	Model string // empty if unknown
	Why   Why
	// Fresh is true if it had no baseline, so that later calibrations were compared with
	// it.
	Fresh bool
}

// MostModels is the maximum number of models in a record.
const MostModels = 16

// MostPoints is the maximum number of earlier measurements in a record.
const MostPoints = 100

// Measured is a figure with its number of observations.
type Measured struct {
	Value float64
	// Of is the number of observations; 0 means not measured.
	Of int
}

// Known reports whether the figure was measured.
func (m Measured) Known() bool { return m.Of > 0 }

// Hash returns the hash by which verdicts refer to the record.
func (r Record) Hash() string { return edn.Hash(r.Value()) }

// Since appends the previous record to Course. If judge key, capability, anchors and ScoreMin are
// the same, the kappa of the first calibration stays the baseline, so that gradual drift is noticed
// too. before may be nil.
func (r Record) Since(before *Record) Record {
	r = r.Anew(before)
	if before == nil || before.Anchors != r.Anchors || before.Key != r.Key || before.Capability != r.Capability ||
		before.ScoreMin != r.ScoreMin {
		return r
	}
	if r.Baseline = before.Baseline; !r.Baseline.Known() {
		r.Baseline = Measured{Value: before.Kappa, Of: before.Good + before.Bad}
	}
	return r
}

// Anew appends the previous record to Course and clears Baseline, so that later records are
// compared with this one. before may be nil.
func (r Record) Anew(before *Record) Record {
	r.Baseline, r.Course = Measured{}, nil
	if before == nil {
		return r
	}
	last := Point{
		At:    before.At,
		Kappa: before.Kappa,
		Model: before.Model,
		Why:   before.Why,
		Fresh: !before.Baseline.Known(),
	}
	r.Course = append(slices.Clone(before.Course), last)
	r.Course = r.Course[max(0, len(r.Course)-MostPoints):]
	return r
}

// Knows reports whether a model was among those that answered during calibration. It is
// true for an empty model, and for any model if the record names none.
func (r Record) Knows(model string) bool { return measured(r.answered(), model) }

// answered returns the models that answered during calibration; empty if unknown.
func (r Record) answered() []string {
	if r.Model == "" {
		return nil
	}
	return append([]string{r.Model}, r.Models...)
}

// Last returns the time of the last calibration for that reason, zero if there
// was none.
func (r Record) Last(why Why) time.Time {
	if r.Why == why {
		return r.At
	}
	for _, p := range slices.Backward(r.Course) {
		if p.Why == why {
			return p.At
		}
	}
	return time.Time{}
}

// Drifted reports whether kappa fell from the baseline by limit or more, so
// that the verdicts should not count (JDG-011).
func (r Record) Drifted(limit float64) bool {
	// All values are multiples of 1/10000; compare at that precision.
	return r.Baseline.Known() && math.Round((r.Baseline.Value-r.Kappa)*1e4) >= math.Round(limit*1e4)
}

// form is the EDN form of a record. Its figures are decimals.
type form struct {
	Version     int       `edn:"calibration/version"`
	Judge       string    `edn:"judge"`
	Capability  edn.Value `edn:"cap/id"`
	Key         string    `edn:"key"`
	Model       string    `edn:"model,omitempty"`
	Family      string    `edn:"family,omitempty"`
	Anchors     anchored  `edn:"anchors"`
	At          time.Time `edn:"at"`
	Why         edn.Value `edn:"why,omitempty"`
	Models      []string  `edn:"models,omitempty"`
	Course      []point   `edn:"course,omitempty"`
	ScoreMin    edn.Value `edn:"score-min"`
	Sensitivity edn.Value `edn:"sensitivity"`
	Specificity edn.Value `edn:"specificity"`
	Kappa       edn.Value `edn:"kappa"`
	Baseline    edn.Value `edn:"baseline-kappa"`
	Flips       edn.Value `edn:"retest-flips"`
	Length      edn.Value `edn:"score-length-correlation"`
	Order       edn.Value `edn:"order-preference"`
	Own         edn.Value `edn:"own-family-preference"`
	Spread      edn.Value `edn:"spread"`
	Retest      edn.Value `edn:"retest-kappa,omitempty"`
	Rule        edn.Value `edn:"length-rule-kappa,omitempty"`
}

type anchored struct {
	Hash   string `edn:"hash"`
	Good   int    `edn:"good"`
	Bad    int    `edn:"bad"`
	Failed int    `edn:"failed"`
}

type point struct {
	At    time.Time `edn:"at"`
	Kappa edn.Value `edn:"kappa"`
	Model string    `edn:"model,omitempty"`
	Why   edn.Value `edn:"why,omitempty"`
	Fresh bool      `edn:"first?,omitempty"`
}

// value returns nil for an unknown reason.
func (w Why) value() edn.Value {
	if w == "" {
		return edn.Nil()
	}
	return edn.K(string(w))
}

// Value returns the EDN form of the record. An unmeasured figure is nil.
func (r Record) Value() edn.Value {
	capability, err := edn.Keyword(r.Capability)
	if err != nil {
		capability = edn.Nil()
	}
	v, err := edn.Encode(form{
		Version: Version, Judge: r.Judge, Capability: capability, Key: r.Key, Model: r.Model, Family: r.Family,
		Anchors: anchored{Hash: r.Anchors, Good: r.Good, Bad: r.Bad, Failed: r.Failed},
		At:      r.At.UTC(), Why: r.Why.value(), Models: r.Models, Course: r.course(), ScoreMin: r.ScoreMin.Value(),
		Sensitivity: decimal(r.Sensitivity), Specificity: decimal(r.Specificity), Kappa: decimal(r.Kappa),
		Baseline: r.Baseline.value(), Flips: r.Flips.value(), Length: r.Length.value(), Order: r.Order.value(), Own: r.Own.value(),
		Spread: decimal(r.Spread), Retest: r.Retest.value(), Rule: r.Rule.value(),
	})
	if err != nil { // all fields are EDN values
		return edn.Nil()
	}
	return v
}

func (r Record) course() []point {
	out := make([]point, len(r.Course))
	for i, p := range r.Course {
		out[i] = point{At: p.At.UTC(), Kappa: decimal(p.Kappa), Model: p.Model, Why: p.Why.value(), Fresh: p.Fresh}
	}
	return out
}

func (m Measured) value() edn.Value {
	if !m.Known() {
		return edn.Nil()
	}
	return edn.MustMap(edn.K("value"), decimal(m.Value), edn.K("of"), edn.Int(int64(m.Of)))
}

// ParseRecord parses the EDN form. The error is a *contract.Error of type invalid-request
// whose details list every problem with its path.
func ParseRecord(v edn.Value) (Record, error) {
	var f form
	if !v.IsMap() {
		return Record{}, refused("record", []problem{{message: fmt.Sprintf("expected a map, found %s", v.Kind())}})
	}
	p := &problems{}
	if err := edn.DecodeStrict(v, &f); err != nil {
		var bad *edn.DecodeError
		if !errors.As(err, &bad) {
			return Record{}, refused("record", []problem{{message: err.Error()}})
		}
		for _, b := range bad.Problems {
			p.add(b.Message, b.Path...)
		}
	}
	r := Record{
		Judge: f.Judge, Key: f.Key, Model: f.Model, Family: f.Family,
		Anchors: f.Anchors.Hash, Good: f.Anchors.Good, Bad: f.Anchors.Bad, Failed: f.Anchors.Failed, At: f.At, Models: f.Models,
	}
	r.Why = p.why(f.Why, edn.K("why"))
	for i, x := range f.Course {
		at := []edn.Value{edn.K("course"), edn.Int(int64(i))}
		r.Course = append(r.Course, Point{
			At:    x.At,
			Kappa: p.number(x.Kappa, -1, 1, append(at, edn.K("kappa"))...),
			Model: x.Model,
			Why:   p.why(x.Why, append(at, edn.K("why"))...),
			Fresh: x.Fresh,
		})
	}
	if len(f.Course) > MostPoints {
		p.add(fmt.Sprintf("expected at most %d earlier measurements, found %d", MostPoints, len(f.Course)), edn.K("course"))
	}
	if f.Version != Version {
		p.add(fmt.Sprintf("expected version %d, found %d: calibrate the judge again", Version, f.Version),
			edn.K("calibration/version"))
	}
	var ok bool
	if r.Capability, ok = f.Capability.AsKeyword(); !ok {
		p.add("expected the name of a capability, such as :judge/rubric", edn.K("cap/id"))
	}
	if r.ScoreMin, ok = quality.ScoreOf(f.ScoreMin); !ok || r.ScoreMin < 0 || r.ScoreMin > quality.Perfect {
		p.add("expected a number from 0 to 1", edn.K("score-min"))
	}
	r.Sensitivity = p.number(f.Sensitivity, 0, 1, edn.K("sensitivity"))
	r.Specificity = p.number(f.Specificity, 0, 1, edn.K("specificity"))
	r.Kappa = p.number(f.Kappa, -1, 1, edn.K("kappa"))
	r.Spread = p.number(f.Spread, 0, 1, edn.K("spread"))
	r.Baseline = p.measured(f.Baseline, -1, "baseline-kappa")
	r.Flips = p.measured(f.Flips, 0, "retest-flips")
	r.Length = p.measured(f.Length, -1, "score-length-correlation")
	r.Order = p.measured(f.Order, -1, "order-preference")
	r.Own = p.measured(f.Own, -1, "own-family-preference")
	r.Retest = p.measured(f.Retest, -1, "retest-kappa")
	r.Rule = p.measured(f.Rule, -1, "length-rule-kappa")
	if r.Good < 0 || r.Bad < 0 || r.Failed < 0 {
		p.add("expected counts of 0 or more", edn.K("anchors"))
	}
	if len(p.list) > 0 {
		return Record{}, refused("record", p.list)
	}
	return r, nil
}

func (p *problems) why(v edn.Value, path ...edn.Value) Why {
	if v.IsNil() {
		return ""
	}
	word, _ := v.AsKeyword()
	if w := Why(word); w.known() {
		return w
	}
	p.add(fmt.Sprintf("expected :operator, :recheck or :model, found %s", v), path...)
	return ""
}

func (p *problems) measured(v edn.Value, low float64, name string) Measured {
	if v.IsNil() {
		return Measured{}
	}
	of, ok := v.Key("of").AsInt()
	if !ok || of < 1 || of > math.MaxInt32 {
		p.add("expected how many observations the figure rests on", edn.K(name), edn.K("of"))
		return Measured{}
	}
	return Measured{Value: p.number(v.Key("value"), low, 1, edn.K(name), edn.K("value")), Of: int(of)}
}

func (p *problems) number(v edn.Value, low, high float64, path ...edn.Value) float64 {
	r, ok := v.AsNumber()
	if !ok {
		p.add(fmt.Sprintf("expected a number from %g to %g, found %s", low, high, v.Kind()), path...)
		return 0
	}
	f, _ := r.Float64()
	if f < low || f > high {
		p.add(fmt.Sprintf("expected a number from %g to %g, found %s", low, high, v), path...)
		return 0
	}
	return rounded(f)
}

// rounded rounds a figure to four decimals; tens of anchors justify no more.
func rounded(f float64) float64 { return math.Round(f*1e4) / 1e4 }

func decimal(f float64) edn.Value {
	return edn.MustDecimal(fmt.Sprintf("%.4fM", f))
}

type problem struct {
	path    []edn.Value
	message string
}

type problems struct{ list []problem }

func (p *problems) add(message string, path ...edn.Value) {
	p.list = append(p.list, problem{path, message})
}

// refused returns one error with every problem.
func refused(what string, list []problem) error {
	first := list[0]
	at := ""
	if len(first.path) > 0 {
		at = " at " + edn.Vector(first.path...).String()
	}
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(list)-1)
	}
	all := make([]edn.Value, len(list))
	for i, p := range list {
		all[i] = edn.MustMap(edn.K("path"), edn.Vector(p.path...), edn.K("message"), edn.Text(p.message))
	}
	e := contract.Errorf("invalid-request", "calibration %s%s: %s%s", what, at, first.message, more)
	e.Details = edn.MustMap(edn.K("problems"), edn.Vector(all...))
	return e
}
