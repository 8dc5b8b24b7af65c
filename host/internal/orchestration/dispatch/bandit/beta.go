package bandit

import (
	"math"
	"math/rand/v2"
	"sync"
)

// points are those of the quadrature (LRN-003). The cell k is the pass rates from
// k/points to (k+1)/points.
const points = 512

// logs are the logarithms of the middles of the cells. Those of 1-x are the same in
// reverse order.
var logs = sync.OnceValue(func() *[points]float64 {
	var out [points]float64
	for k := range out {
		out[k] = math.Log((float64(k) + 0.5) / points)
	}
	return &out
})

// negligible is the logarithm of a density, relative to the largest one, that counts
// as none.
const negligible = -24

// curve is a Beta distribution by cells.
type curve struct {
	mass       [points]float64     // of each cell
	below      [points + 1]float64 // sum of the masses before a cell
	from, till int                 // the cells outside have no mass
}

// of sets the curve to Beta(a, b).
func (c *curve) of(a, b float64) {
	ln := logs()
	density := func(k int) float64 { return (a-1)*ln[k] + (b-1)*ln[points-1-k] }
	top, single := 0, a >= 1 && b >= 1 // it has a single maximum and falls on both sides
	if single && a+b > 2 {
		top = min(points-1, int((a-1)/(a+b-2)*points))
	}
	most, sum := density(top), 0.0
	if !single {
		most = max(most, density(points-1))
	}
	put := func(k int) bool {
		d := density(k) - most
		if d < negligible {
			if single {
				return false
			}
			d = negligible
		}
		c.mass[k] = math.Exp(d)
		sum += c.mass[k]
		return true
	}
	c.from, c.till = top, top
	for c.till < points && put(c.till) {
		c.till++
	}
	for c.from > 0 && put(c.from-1) {
		c.from--
	}
	total, scale := 0.0, 1/sum
	for k := c.from; k < c.till; k++ {
		c.mass[k] *= scale
		c.below[k] = total
		total += c.mass[k]
	}
	c.below[c.till] = total
}

// upTo returns the probability of a pass rate up to x.
func (c *curve) upTo(x float64) float64 {
	x *= points
	switch {
	case x <= float64(c.from):
		return 0
	case x >= float64(c.till):
		return 1
	}
	k := int(x)
	return c.below[k] + (x-float64(k))*c.mass[k]
}

// best returns the probability that a candidate has the largest utility: its pass
// rate less what it loses by cost and latency.
func best(all []Belief, less []float64, first int) float64 {
	var own, other curve
	own.of(all[first].A, all[first].B)
	chance := own.mass[own.from:own.till]
	for i := range all {
		if i == first {
			continue
		}
		other.of(all[i].A, all[i].B)
		shift := (float64(own.from)+0.5)/points - less[first] + less[i]
		for k := range chance {
			chance[k] *= other.upTo(shift + float64(k)/points)
		}
	}
	sum := 0.0
	for _, p := range chance {
		sum += p
	}
	return min(1, sum)
}

// drawBeta draws from Beta(a, b).
func drawBeta(r *rand.Rand, a, b float64) float64 {
	x, y := drawGamma(r, a), drawGamma(r, b)
	if x+y == 0 {
		return a / (a + b) // both underflow for tiny parameters
	}
	return x / (x + y)
}

// drawGamma draws from the gamma distribution with a shape and scale 1, by the method
// of Marsaglia and Tsang.
func drawGamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return drawGamma(r, shape+1) * math.Pow(r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := r.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// outside is the probability of the outcomes that count as drift, on each side: the
// predictive range has 99.9 % of them.
const outside = 0.0005

// predicts reports whether a number of passes in n trials lies in the predictive range
// of Beta(a, b).
func predicts(n, passes int, a, b float64) bool {
	low, high := 0.0, 0.0
	for k := 0; k <= n; k++ {
		p := math.Exp(logChoose(n, k) + logBeta(a+float64(k), b+float64(n-k)) - logBeta(a, b))
		if k <= passes {
			low += p
		}
		if k >= passes {
			high += p
		}
	}
	return low >= outside && high >= outside
}

func logBeta(a, b float64) float64 { return lgamma(a) + lgamma(b) - lgamma(a+b) }

func logChoose(n, k int) float64 {
	return lgamma(float64(n+1)) - lgamma(float64(k+1)) - lgamma(float64(n-k+1))
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
