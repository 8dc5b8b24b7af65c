package journal

import (
	"strconv"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Learned is a decision of learned dispatch: the counts of each candidate and the order
// that was drawn from them (LRN-003). A resumed or replayed run uses Order and draws
// nothing.
type Learned struct {
	Bucket string // empty: the intent has a single bucket
	Counts []LearnedCounts
	Seed   string   // hash; empty if the order was not drawn at random
	Order  []string // capabilities
	// Explored is set if the first candidate was chosen uniformly at random. Propensity is
	// the probability with which it was chosen.
	Explored   bool
	Propensity float64
	// Cold is set if there were too few outcomes; the order is then the declared one.
	Cold bool
}

// LearnedCounts are the counts of one candidate at the time of the decision. They are
// fractional because outcomes lose weight with age.
type LearnedCounts struct {
	CapID         string
	Major         int
	Passes, Fails float64
}

// learnedSpec is the schema of Learned.Value.
const learnedSpec = `[:map {:closed true} [:counts [:vector [:map {:closed true} [:cap/id :keyword] [:major [:int {:min 0}]] ` +
	`[:passes [:number {:min 0}]] [:fails [:number {:min 0}]]]]] [:order [:vector :keyword]] [:explored? :boolean] ` +
	`[:propensity [:number {:min 0 :max 1}]] [:seed {:optional true} ` + tHash + `] [:bucket {:optional true} :string] ` +
	`[:cold? {:optional true} [:enum true]]]`

// learned makes the column for a decision of learned dispatch; nil is absent.
func learned[T any](key string, at func(x *T) **Learned) column[T] {
	return field(column[T]{
		key: key, schema: learnedSpec,
		present: func(x *T) bool { return *at(x) != nil },
		put:     func(x *T) edn.Value { return (*at(x)).Value() },
		bad:     func(x *T) bool { return !(*at(x)).good() },
	}, at, learnedFrom)
}

// Value returns the decision as data.
func (l *Learned) Value() edn.Value {
	counts, order := make([]edn.Value, len(l.Counts)), make([]edn.Value, len(l.Order))
	for i, c := range l.Counts {
		counts[i] = edn.MustMap(edn.K("cap/id"), Keyword(c.CapID), edn.K("major"), edn.Int(int64(c.Major)),
			edn.K("passes"), rounded(c.Passes, 3), edn.K("fails"), rounded(c.Fails, 3))
	}
	for i, id := range l.Order {
		order[i] = Keyword(id)
	}
	var b edn.MapBuilder
	b.Key("counts", edn.Vector(counts...))
	b.Key("order", edn.Vector(order...))
	b.Key("explored?", edn.Bool(l.Explored))
	b.Key("propensity", rounded(l.Propensity, 9))
	if l.Seed != "" {
		b.Key("seed", edn.Text(l.Seed))
	}
	if l.Bucket != "" {
		b.Key("bucket", edn.Text(l.Bucket))
	}
	b.OptTrue("cold?", l.Cold)
	return b.Map()
}

// rounded returns v as a decimal with the given number of places.
func rounded(v float64, decimals int) edn.Value {
	out, err := edn.ParseDecimal(strconv.FormatFloat(v, 'f', decimals, 64))
	if err != nil {
		return edn.Int(0)
	}
	return out
}

func learnedFrom(v edn.Value) (*Learned, bool) {
	l, ok := &Learned{}, v.IsMap()
	var read [4]bool
	l.Counts, read[0] = elements(v.Key("counts"), edn.KindVector, learnedCountsFrom)
	l.Order, read[1] = elements(v.Key("order"), edn.KindVector, edn.Value.AsKeyword)
	l.Explored, read[2] = v.Key("explored?").AsBool()
	l.Propensity, read[3] = asFloat(v.Key("propensity"))
	l.Seed, _ = v.Key("seed").AsString()
	l.Bucket, _ = v.Key("bucket").AsString()
	l.Cold = v.Key("cold?").Truthy()
	return l, ok && read == [4]bool{true, true, true, true}
}

func learnedCountsFrom(v edn.Value) (c LearnedCounts, ok bool) {
	var read [3]bool
	c.CapID, ok = v.Key("cap/id").AsKeyword()
	c.Major, read[0] = asInt(v.Key("major"))
	c.Passes, read[1] = asFloat(v.Key("passes"))
	c.Fails, read[2] = asFloat(v.Key("fails"))
	return c, ok && read == [3]bool{true, true, true}
}

func asFloat(v edn.Value) (float64, bool) {
	r, ok := v.AsNumber()
	if !ok {
		return 0, false
	}
	f, _ := r.Float64()
	return f, true
}

// good reports whether the numbers are ones that a decision can have.
func (l *Learned) good() bool {
	for _, c := range l.Counts {
		if c.CapID == "" || c.Major < 0 || !(c.Passes >= 0) || !(c.Fails >= 0) {
			return false
		}
	}
	return len(l.Order) == len(l.Counts) && l.Propensity >= 0 && l.Propensity <= 1 && (l.Seed == "" || isHash(l.Seed))
}

// Choice is a recorded decision of learned dispatch.
type Choice struct {
	Intent  string
	Decided *Learned
	// Pass is true if the answer of the first candidate was committed, false if gates
	// rejected it. Known is false if neither happened, for example in an outage, or if others
	// ran beside it, so that its answer depends on theirs; Pass then has no meaning.
	Pass, Known bool
}

// Choices returns the decisions of learned dispatch in a run, in the order of its nodes;
// nil for a replay.
func Choices(records []Record) (all []Choice) {
	v := newView(records)
	if v.accepted != nil && v.accepted.ReplayOf != "" {
		return nil
	}
	for _, n := range v.nodes {
		if n.resolved == nil || n.resolved.Learned == nil || len(n.resolved.Learned.Order) == 0 {
			continue
		}
		c := Choice{Intent: n.resolved.Intent, Decided: n.resolved.Learned}
		first := c.Decided.Order[0]
		committed := n.committed != nil && n.committed.FailureType == ""
		c.Pass = committed && n.committed.CapID == first
		c.Known = c.Pass
		for _, a := range n.attempts {
			if a.started.CapID == first && (!committed || a.started.Attempt != n.committed.Attempt) {
				c.Known = c.Known || a.refused()
			}
		}
		c.Known = c.Known && n.resolved.Strategy == policy.Cascade
		all = append(all, c)
	}
	return all
}

// refused reports whether gates rejected the answer of an attempt. It is false if a gate
// itself failed.
func (a *attemptView) refused() bool {
	no := false
	for _, g := range a.verdicts {
		switch {
		case g.Err != nil: // a gate that failed says nothing about the answer
			return false
		case !g.Pass && !g.NotApplicable:
			no = true
		}
	}
	return no
}
