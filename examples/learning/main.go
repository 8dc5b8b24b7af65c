package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	short := flag.Bool("short", false, "fewer questions and seeds")
	bin := flag.String("bin", "bin", "directory of ferment and its plugins")
	flag.Parse()
	if _, err := show(os.Stdout, *bin, *short); err != nil {
		fmt.Fprintln(os.Stderr, "learning:", err)
		os.Exit(1)
	}
}

// models are the candidates in the order of the cascade.
var models = []string{"small", "medium", "large"}

// rates are the probabilities, 0..1, that each model is right, in the order of models.
type rates [3]float64

func (r rates) best() float64 { return slices.Max(r[:]) }

type portfolio struct {
	name          string
	usd           [3]float64 // of a call
	first, second rates      // in the two halves
}

var ladder = [3]float64{0.001, 0.002, 0.004}

var portfolios = []portfolio{
	{"the dearest model is the best and breaks", ladder, rates{0.3, 0.6, 0.9}, rates{0.3, 0.6, 0.2}},
	{"the cheapest model becomes the best", ladder, rates{0.2, 0.5, 0.8}, rates{0.9, 0.5, 0.8}},
	{"all have one price, and the first breaks", [3]float64{0.002, 0.002, 0.002}, rates{0.9, 0.5, 0.7}, rates{0.1, 0.5, 0.7}},
	{"the cheapest model is the best throughout", ladder, rates{0.9, 0.7, 0.5}, rates{0.9, 0.7, 0.5}},
}

// The orders of the candidates, as the configuration names them.
const (
	cascade = "declared"
	learned = "learned"
)

// question holds the models that answer it correctly, and the probability with which each model did
// so in the draw.
type question struct {
	right []string
	rates rates
}

// draw draws n questions from a seed: the first half with the rates p.first, the others with
// p.second.
func draw(p portfolio, n int, seed uint64) []question {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]question, n)
	for i := range out {
		out[i].rates = p.first
		if i >= n/2 {
			out[i].rates = p.second
		}
		for k, name := range models {
			if rng.Float64() < out[i].rates[k] {
				out[i].right = append(out[i].right, name)
			}
		}
	}
	return out
}

// figures are the result of one run.
type figures struct {
	asked, accepted, attempts int
	regret, usd               float64
}

// price is the cost of an accepted answer, in thousandths of a dollar.
func (f figures) price() float64 { return 1000 * f.usd / float64(max(1, f.accepted)) }

// count returns the figures of one run. attempts has the models tried for each question, in order.
// The first model determines the regret of a question, the last whether it was accepted.
func count(p portfolio, questions []question, attempts [][]string) figures {
	f := figures{asked: len(questions)}
	for i, q := range questions {
		for k, name := range attempts[i] {
			model := slices.Index(models, name)
			if k == 0 {
				f.regret += q.rates.best() - q.rates[model]
			}
			f.attempts++
			f.usd += p.usd[model]
		}
		if n := len(attempts[i]); n > 0 && slices.Contains(q.right, attempts[i][n-1]) {
			f.accepted++
		}
	}
	return f
}

// result holds the figures of a portfolio by order, one per seed.
type result map[string][]figures

// show runs all portfolios with both orders, prints the results, and returns the figures by
// portfolio. With short it uses fewer seeds and questions.
func show(out io.Writer, bin string, short bool) (map[string]result, error) {
	h, err := newHost(bin)
	if err != nil {
		return nil, err
	}
	defer h.close()
	asked, seeds := 300, 8
	if short {
		asked, seeds = 200, 3
	}
	results := map[string]result{}
	tally := map[string]int{}
	for _, p := range portfolios {
		r := result{}
		for seed := range seeds {
			questions := draw(p, asked, uint64(seed))
			for _, order := range []string{cascade, learned} {
				attempts, err := h.ask(p, questions, order)
				if err != nil {
					return nil, err
				}
				r[order] = append(r[order], count(p, questions, attempts))
			}
		}
		results[p.name] = r
		_, _ = fmt.Fprintf(out, "\n%s; %d questions, %d seeds, mean +- standard deviation\n\n", p.name, asked, seeds)
		table(out, r)
		verdict, text := r.compare()
		tally[verdict]++
		_, _ = fmt.Fprintf(out, "  learned against the cascade: %s (%s)\n", verdict, text)
	}
	_, _ = fmt.Fprintf(out, "\nlearned dispatch wins %d comparisons, loses %d, trades in %d; %d show no difference\n",
		tally[wins], tally[loses], tally[trades], tally[same])
	return results, nil
}

func table(out io.Writer, r result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "  order\tregret\tusd per 1,000 accepted\taccepted\tattempts")
	for _, order := range []string{cascade, learned} {
		cells := []string{order}
		for _, of := range []func(figures) float64{
			func(f figures) float64 { return f.regret }, figures.price,
			func(f figures) float64 { return float64(f.accepted) }, func(f figures) float64 { return float64(f.attempts) },
		} {
			mean, sd := moments(each(r[order], of))
			cells = append(cells, fmt.Sprintf("%.2f +- %.2f", mean, sd))
		}
		_, _ = fmt.Fprintln(w, "  "+strings.Join(cells, "\t"))
	}
	_ = w.Flush()
}

func each(runs []figures, of func(figures) float64) (out []float64) {
	for _, f := range runs {
		out = append(out, of(f))
	}
	return out
}

func moments(xs []float64) (mean, sd float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		sd += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sd / float64(max(1, len(xs)-1)))
}

// The verdicts of a comparison.
const (
	wins   = "wins"
	loses  = "does not win: it loses"
	trades = "does not win: one figure for the other"
	same   = "does not win: no difference beyond chance"
)

// compare compares the orders seed by seed: less regret and a lower price are better.
func (r result) compare() (verdict, text string) {
	var regret, price []float64
	for i, f := range r[learned] {
		regret = append(regret, f.regret-r[cascade][i].regret)
		price = append(price, f.price()-r[cascade][i].price())
	}
	a, b := moments(regret)
	c, d := moments(price)
	text = fmt.Sprintf("regret %+.2f +- %.2f, price %+.2f +- %.2f", a, b, c, d)
	switch x, y := sign(regret), sign(price); {
	case x == 0 && y == 0:
		return same, text
	case x <= 0 && y <= 0:
		return wins, text
	case x >= 0 && y >= 0:
		return loses, text
	}
	return trades, text
}

// sign returns the sign of the mean if the mean is more than two standard errors from zero,
// otherwise 0.
func sign(xs []float64) int {
	const rounding = 1e-9
	mean, sd := moments(xs)
	switch limit := 2*sd/math.Sqrt(float64(len(xs))) + rounding; {
	case mean > limit:
		return 1
	case mean < -limit:
		return -1
	}
	return 0
}
