package main

import (
	_ "embed" // for the positions
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
)

// corpus holds positions, each after the move that a search of five plies prefers.
//
//go:embed positions.txt
var corpus string

func main() {
	short := flag.Bool("short", false, "fewer questions, seeds and orders")
	bin := flag.String("bin", "bin", "directory of ferment and its plugins")
	flag.Parse()
	if _, err := show(os.Stdout, *bin, *short); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

type question struct{ fen, solution string }

// engine is a candidate: how deep it searches and what a call costs.
type engine struct {
	depth int
	usd   float64
}

// names are the names of the engines of a portfolio, in the declared order.
var names = []string{"a", "b", "c"}

type portfolio struct {
	name    string
	engines [3]engine
}

var portfolios = []portfolio{
	{"ladder: the deeper, the dearer", [3]engine{{1, 0.001}, {2, 0.002}, {3, 0.004}}},
	{"mispriced: the deepest is the cheapest and listed last", [3]engine{{1, 0.004}, {2, 0.002}, {3, 0.001}}},
	{"alike: nothing to learn", [3]engine{{2, 0.002}, {2, 0.002}, {2, 0.002}}},
}

// policy is an order of the candidates.
type policy struct {
	name     string
	order    string
	reversed bool
}

// aware is compared with the baselines.
var (
	aware     = policy{"quality-aware", "quality-aware", false}
	baselines = []policy{
		{"as declared", "declared", false},
		{"cost first", "cost-first", false},
		{"reversed", "declared", true},
	}
)

// result holds the figures of a portfolio by policy, one per seed.
type result map[string][]figures

// show runs all portfolios with all policies, prints the results, and returns the figures by
// portfolio. With short it uses fewer seeds, questions and baselines.
func show(out io.Writer, bin string, short bool) (map[string]result, error) {
	h, err := newHost(bin)
	if err != nil {
		return nil, err
	}
	defer h.close()
	all := questions()
	asked, seeds, rivals := 40, 5, baselines
	if short {
		asked, seeds, rivals = 12, 2, baselines[:2]
	}
	results := map[string]result{}
	tally := map[string]int{}
	for _, p := range portfolios {
		r := result{}
		for seed := range seeds {
			chosen := append([]question(nil), all...)
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			rng.Shuffle(len(chosen), func(i, k int) { chosen[i], chosen[k] = chosen[k], chosen[i] })
			for _, b := range append(append([]policy(nil), rivals...), aware) {
				f, err := h.ask(p, b, chosen[:asked])
				if err != nil {
					return nil, err
				}
				r[b.name] = append(r[b.name], f)
			}
		}
		results[p.name] = r
		_, _ = fmt.Fprintf(out, "\n%s; %d questions, %d seeds, mean +- standard deviation\n\n", p.name, asked, seeds)
		table(out, r, rivals)
		for _, b := range rivals {
			v, text := r.against(b.name)
			tally[v]++
			_, _ = fmt.Fprintf(out, "  %s against %s: %s (%s)\n", aware.name, b.name, v, text)
		}
	}
	_, _ = fmt.Fprintf(out, "\nquality-aware dispatch wins %d comparisons, loses %d, trades in %d; %d show no difference\n",
		tally[wins], tally[loses], tally[trades], tally[same])
	return results, nil
}

func table(out io.Writer, r result, rivals []policy) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "  order\taccepted\tusd per 1,000 accepted\tattempts")
	for _, b := range append(append([]policy(nil), rivals...), aware) {
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", b.name,
			spread(r[b.name], figures.rate), spread(r[b.name], figures.price),
			spread(r[b.name], func(f figures) float64 { return float64(f.attempts) }))
	}
	_ = w.Flush()
}

// spread returns the mean of a figure over several runs with its standard deviation, as text.
func spread(runs []figures, of func(figures) float64) string {
	var xs []float64
	for _, f := range runs {
		xs = append(xs, of(f))
	}
	mean, sd := moments(xs)
	return fmt.Sprintf("%.2f +- %.2f", mean, sd)
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

// against compares quality-aware dispatch with a baseline, seed by seed.
func (r result) against(baseline string) (verdict, text string) {
	var accepted, price []float64
	for i, f := range r[aware.name] {
		accepted = append(accepted, f.rate()-r[baseline][i].rate())
		price = append(price, f.price()-r[baseline][i].price())
	}
	text = fmt.Sprintf("accepted %s, price %s", difference(accepted), difference(price))
	return judge(sign(accepted), -sign(price)), text
}

func difference(xs []float64) string {
	mean, sd := moments(xs)
	return fmt.Sprintf("%+.2f +- %.2f", mean, sd)
}

// judge returns the verdict of two comparisons, each 1 for better, 0 for no clear difference and -1
// for worse.
func judge(accepted, price int) string {
	switch better, worse := max(accepted, price) > 0, min(accepted, price) < 0; {
	case better && worse:
		return trades
	case better:
		return wins
	case worse:
		return loses
	}
	return same
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

func questions() []question {
	var out []question
	for line := range strings.Lines(corpus) {
		if move, fen, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			out = append(out, question{fen, move})
		}
	}
	return out
}
