package calibration

import (
	"cmp"
	"math"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
)

// Observation is the verdict of a judge on one anchor.
type Observation struct {
	// Good is the label.
	Good bool
	// Failed is true if there was no usable verdict; the other fields are then zero, except
	// Good.
	Failed bool
	Score  quality.Score
	// Again is the score of a repeated judgment, Repeated whether there was
	// one.
	Again    quality.Score
	Repeated bool
	// Length is the length of the answer in code points.
	Length int
	// Family is the family of the answer's author, empty if unknown.
	Family string
}

// Choice is the preference of a judge between two answers shown in one order.
type Choice int8

// The choices: the answer shown second, neither of the two, or the answer shown first.
const (
	Second Choice = iota - 1
	Neither
	First
)

// Measure returns the record r completed with the figures computed from the observations.
// Names, date, anchors and ScoreMin of r must be set.
func Measure(r Record, seen []Observation, choices []Choice) Record {
	var table, flips, again confusion
	var scored []Observation
	for _, o := range seen {
		if o.Failed {
			r.Failed++
			continue
		}
		scored = append(scored, o)
		passed := o.Score >= r.ScoreMin
		table.add(o.Good, passed)
		if o.Repeated {
			flips.add(passed, o.Again >= r.ScoreMin)
			again.add(o.Good, o.Again >= r.ScoreMin)
		}
	}
	r.Good, r.Bad = table.yes(), table.no()
	r.Sensitivity, r.Specificity = rounded(share(table.hit, r.Good)), rounded(share(table.right, r.Bad))
	r.Kappa = rounded(table.kappa())
	if n := flips.all(); n > 0 {
		r.Flips = Measured{rounded(share(flips.missed+flips.wrong, n)), n}
		r.Retest = Measured{rounded(again.kappa()), n}
	}
	r.Spread = rounded(deviation(scored))
	r.Length = lengths(scored)
	r.Rule = lengthRule(scored, r.ScoreMin)
	r.Order = order(choices)
	r.Own = own(scored, r.Family)
	return r
}

// confusion counts pairs of a true and a predicted boolean.
type confusion struct{ hit, missed, wrong, right int }

func (c *confusion) add(truth, said bool) {
	switch {
	case truth && said:
		c.hit++
	case truth:
		c.missed++
	case said:
		c.wrong++
	default:
		c.right++
	}
}

func (c *confusion) yes() int { return c.hit + c.missed }
func (c *confusion) no() int  { return c.wrong + c.right }
func (c *confusion) all() int { return c.yes() + c.no() }

// kappa is Cohen's kappa; 0 if it is undefined.
func (c *confusion) kappa() float64 {
	n := float64(c.all())
	if n == 0 {
		return 0
	}
	agreed := float64(c.hit+c.right) / n
	chance := (float64(c.yes())*float64(c.hit+c.wrong) + float64(c.no())*float64(c.missed+c.right)) / (n * n)
	if chance >= 1 {
		return 0
	}
	return (agreed - chance) / (1 - chance)
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func deviation(seen []Observation) float64 {
	if len(seen) == 0 {
		return 0
	}
	var sum, squares float64
	for _, o := range seen {
		s := float64(o.Score) / 1000
		sum += s
		squares += s * s
	}
	n := float64(len(seen))
	return math.Sqrt(max(0, squares/n-(sum/n)*(sum/n)))
}

// lengths is the rank correlation of scores and lengths. Good answers may
// legitimately be longer, so each label is ranked separately.
func lengths(seen []Observation) Measured {
	var scores, sizes []float64
	for _, good := range []bool{true, false} {
		var s, l []float64
		for _, o := range seen {
			if o.Good == good {
				s, l = append(s, float64(o.Score)), append(l, float64(o.Length))
			}
		}
		scores, sizes = append(scores, ranks(s)...), append(sizes, ranks(l)...)
	}
	var sl, ss, ll float64
	for i := range scores {
		sl += scores[i] * sizes[i]
		ss += scores[i] * scores[i]
		ll += sizes[i] * sizes[i]
	}
	if ss == 0 || ll == 0 {
		return Measured{}
	}
	return Measured{rounded(sl / math.Sqrt(ss*ll)), len(scores)}
}

// lengthRule compares the verdicts with every rule that passes answers above,
// or below, some length, and returns the agreement with the best rule.
func lengthRule(seen []Observation, least quality.Score) Measured {
	sorted := slices.SortedFunc(slices.Values(seen), func(a, b Observation) int { return cmp.Compare(a.Length, b.Length) })
	if len(sorted) == 0 {
		return Measured{}
	}
	// Start with a rule that passes all answers, then fail one after another,
	// the shortest first.
	var rule confusion
	for _, o := range sorted {
		rule.add(o.Score >= least, true)
	}
	best := 0.0
	for i, o := range sorted {
		if i > 0 && o.Length > sorted[i-1].Length {
			best = max(best, math.Abs(rule.kappa()))
		}
		if o.Score >= least {
			rule.hit, rule.missed = rule.hit-1, rule.missed+1
		} else {
			rule.wrong, rule.right = rule.wrong-1, rule.right+1
		}
	}
	return Measured{rounded(best), len(sorted)}
}

// ranks replaces values by their ranks, from -1 to 1 around 0; equal values
// share a rank.
func ranks(values []float64) []float64 {
	n := len(values)
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, n)
	for i := 0; i < n; {
		j := i
		for j < n && values[at[j]] == values[at[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[at[k]] = float64(i+j-n) / float64(n)
		}
		i = j
	}
	return out
}

func order(choices []Choice) Measured {
	sum, n := 0, 0
	for _, c := range choices {
		if c != Neither {
			sum += int(c)
			n++
		}
	}
	if n == 0 {
		return Measured{}
	}
	return Measured{rounded(float64(sum) / float64(n)), n}
}

// own returns how much higher the judge scores answers of its own family than others, each
// as the distance from the mean of its label.
func own(seen []Observation, family string) Measured {
	if family == "" {
		return Measured{}
	}
	var sums [2]float64
	var counts [2]int
	for _, good := range []bool{true, false} {
		var total float64
		n := 0
		for _, o := range seen {
			if o.Good == good && o.Family != "" {
				total += float64(o.Score)
				n++
			}
		}
		for _, o := range seen {
			if o.Good != good || o.Family == "" {
				continue
			}
			side := 0
			if o.Family == family {
				side = 1
			}
			sums[side] += float64(o.Score)/1000 - total/float64(n)/1000
			counts[side]++
		}
	}
	if counts[0] == 0 || counts[1] == 0 {
		return Measured{}
	}
	difference := sums[1]/float64(counts[1]) - sums[0]/float64(counts[0])
	return Measured{rounded(min(1, max(-1, difference))), min(counts[0], counts[1])}
}
