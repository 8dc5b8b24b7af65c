package bandit

import (
	"math"
	"math/rand/v2"
	"sort"
	"sync"
)

// points is the number of cells of the quadrature (LRN-003). Cell k covers the pass
// rates from k/points to (k+1)/points.
const points = 512

// logs returns the logarithms of the midpoints of the cells. The logarithms of 1-x
// are the same in reverse order.
var logs = sync.OnceValue(func() *[points]float64 {
	var out [points]float64
	for k := range out {
		out[k] = math.Log((float64(k) + 0.5) / points)
	}
	return &out
})

// negligible is the logarithm, relative to the largest density, below which a density
// counts as 0.
const negligible = -18

// curve is a Beta distribution by cells.
type curve struct {
	mass       [points]float64     // of each cell
	below      [points + 1]float64 // sum of the masses before a cell
	from, till int                 // the cells outside have no mass
}

// shape is the logarithm of the density of Beta(a, b) at the middles of the cells,
// without its constant.
type shape struct {
	ln   *[points]float64
	p, q float64
	most float64 // the largest value
	top  int     // its cell, if there is one maximum
	// single: there is one maximum, at top, and the density falls on both sides of it.
	single bool
}

func shapeOf(a, b float64) shape {
	s := shape{ln: logs(), p: a - 1, q: b - 1, single: a >= 1 && b >= 1}
	if s.single && a+b > 2 {
		s.top = min(points-1, int((a-1)/(a+b-2)*points))
	}
	if s.most = s.at(s.top); !s.single {
		s.most = max(s.most, s.at(points-1))
	}
	return s
}

func (s *shape) at(k int) float64 { return s.p*s.ln[k] + s.q*s.ln[points-1-k] }

// bounds returns the first cell with mass and the one after the last.
func (s *shape) bounds() (from, till int) {
	if !s.single {
		return 0, points
	}
	from = sort.Search(s.top, func(k int) bool { return s.at(k)-s.most >= negligible })
	till = s.top + 1 + sort.Search(points-1-s.top, func(k int) bool { return s.at(s.top+1+k)-s.most < negligible })
	return from, till
}

// of sets the curve to a shape with its bounds.
func (c *curve) of(s *shape, from, till int) {
	c.from, c.till = from, till
	mass, up, down := c.mass[from:till], s.ln[from:till], s.ln[points-till:points-from]
	sum := 0.0
	for k := range mass {
		d := s.p*up[k] + s.q*down[len(mass)-1-k] - s.most
		mass[k] = expNegative(max(d, negligible))
		sum += mass[k]
	}
	total, scale := 0.0, 1/sum
	for k := range mass {
		mass[k] *= scale
		c.below[from+k] = total
		total += mass[k]
	}
	c.below[till] = total
}

// expNegative returns e to the power of x, for x from -30 to 0, with an error of at most
// 2 millionths. math.Exp takes twice the time.
func expNegative(x float64) float64 {
	x *= math.Log2E
	whole := int64(x)
	y := (x - float64(whole)) * math.Ln2 // above -ln 2
	even := 1 + y*y*(1.0/2+y*y*(1.0/24+y*y*(1.0/720)))
	odd := y * (1 + y*y*(1.0/6+y*y*(1.0/120+y*y*(1.0/5040))))
	return (even + odd) * math.Float64frombits(uint64(1023+whole)<<52)
}

// upTo returns the probability of a pass rate up to x cells.
func (c *curve) upTo(x float64) float64 {
	switch {
	case x <= float64(c.from):
		return 0
	case x >= float64(c.till):
		return 1
	}
	k := int(x)
	return c.below[k] + (x-float64(k))*c.mass[k]
}

// best returns the probability that the candidate at index first has the largest
// utility. The utility of a candidate is its pass rate minus its penalty in less.
func best(all []Belief, less []float64, first int) float64 {
	var own, other curve
	s := shapeOf(all[first].A, all[first].B)
	from, till := s.bounds()
	own.of(&s, from, till)
	chance := own.mass[from:till]
	for i := range all {
		if i == first {
			continue
		}
		s := shapeOf(all[i].A, all[i].B)
		low, high := s.bounds()
		start := float64(from) + 0.5 + points*(less[i]-less[first]) // of chance, in cells of the other
		switch {
		case start >= float64(high):
			continue // its utility is below all of chance
		case start+float64(len(chance)) <= float64(low):
			return 0
		}
		other.of(&s, low, high)
		for k := range chance {
			chance[k] *= other.upTo(start + float64(k))
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

// outside is the tail probability, on each side, below which a number of passes counts as
// drift: the predictive range holds 99.9 % of the probability.
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
