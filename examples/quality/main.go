package main

import (
	_ "embed" // for the positions
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
)

// corpus holds positions, each behind what kind it is: with a mate in two, which
// any engine proves, or quiet, where only depth helps.
//
//go:embed positions.txt
var corpus string

func main() {
	short := flag.Bool("short", false, "ask fewer questions")
	bin := flag.String("bin", "bin", "directory of ferment and its plugins")
	flag.Parse()
	if _, err := show(os.Stdout, *bin, *short); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// findings are the figures of all runs.
type findings struct {
	chess, sat comparison
	fixed      figures // of the questions that become harder
	swapped    figures
}

// comparison is the same questions in two orders of the candidates.
type comparison struct{ fixed, aware figures }

// better holds a comparison against what this example is there to show.
func (c comparison) better(what string) error {
	if c.aware.rate() <= c.fixed.rate() || c.aware.cost >= c.fixed.cost {
		return fmt.Errorf("%s: quality-aware dispatch accepted %.2f of the answers for %.4f usd, the fixed cascade %.2f for %.4f: it was to be more for less",
			what, c.aware.rate(), c.aware.cost, c.fixed.rate(), c.fixed.cost)
	}
	return nil
}

// show asks everything and prints what came out.
func show(out io.Writer, bin string, short bool) (findings, error) {
	var f findings
	h, err := newHost(bin)
	if err != nil {
		return f, err
	}
	defer h.close()
	easy, hard := positions("mate"), positions("quiet")
	questions := 54
	if short {
		questions = 24
	}
	// One position in three is easy.
	boards := mixed(easy[:questions/3], hard[:questions-questions/3])
	if f.chess, err = h.compare(out, "chess", fmt.Sprintf("%d positions, each to be proven or searched three plies deep", questions), "chess/best-move", ":fen", boards); err != nil {
		return f, err
	}
	if f.sat, err = h.compare(out, "satisfiability", fmt.Sprintf("%d formulas, to be decided", questions), "sat/solve", ":dimacs", formulas(questions)); err != nil {
		return f, err
	}
	// The first third of the questions is easy, the rest is hard.
	boards = append(append([]string(nil), easy[:questions/3]...), hard[:questions-questions/3]...)
	_, _ = fmt.Fprintf(out, "\nchess, while the questions become harder: a mate in two %d times, then a quiet position %d times\n\n", questions/3, questions-questions/3)
	order := []string{"chess/quick", "chess/deep"}
	if f.fixed, err = h.ask("chess/best-move", ":fen", boards, "declared", order, "0"); err != nil {
		return f, err
	}
	if f.swapped, err = h.ask("chess/best-move", ":fen", boards, "declared", order, "0.6"); err != nil {
		return f, err
	}
	table(out, row{"no floor", f.fixed}, row{"floor of 0.6", f.swapped})
	_, _ = fmt.Fprintf(out, "\n%s\n", strings.Join(f.swapped.deeds, "\n"))
	return f, f.check(questions)
}

// check fails if the figures do not show what the example promises.
func (f findings) check(questions int) error {
	if err := f.chess.better("chess"); err != nil {
		return err
	}
	if err := f.sat.better("satisfiability"); err != nil {
		return err
	}
	switch {
	case len(f.swapped.deeds) == 0:
		return fmt.Errorf("the engine that answers badly was not swapped")
	case f.swapped.accepted < f.fixed.accepted:
		return fmt.Errorf("%d of %d questions were answered with a swap and %d without: none was to fail for it", f.swapped.accepted, questions, f.fixed.accepted)
	case f.swapped.cost >= f.fixed.cost:
		return fmt.Errorf("the swap saved nothing: %.4f usd, without it %.4f", f.swapped.cost, f.fixed.cost)
	}
	return nil
}

// compare asks the same questions in the declared order and in that of quality.
func (h *host) compare(out io.Writer, name, what, intent, key string, inputs []string) (c comparison, err error) {
	_, _ = fmt.Fprintf(out, "\n%s: %s, two candidates each\n\n", name, what)
	if c.fixed, err = h.ask(intent, key, inputs, "declared", nil, "0"); err != nil {
		return c, err
	}
	if c.aware, err = h.ask(intent, key, inputs, "quality-aware", nil, "0"); err != nil {
		return c, err
	}
	table(out, row{"fixed cascade", c.fixed}, row{"quality-aware", c.aware})
	return c, nil
}

type row struct {
	name string
	figures
}

func table(out io.Writer, rows ...row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "  dispatch\taccepted\trate\tattempts\tusd\tusd per accepted\tasked")
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "  %s\t%d of %d\t%.2f\t%d\t%.4f\t%.5f\t%s\n", r.name, r.accepted, r.asked, r.rate(), r.attempts, r.cost, r.cost/float64(max(1, r.accepted)), r.whom())
	}
	_ = w.Flush()
}

// positions are those of a kind.
func positions(kind string) []string {
	var out []string
	for line := range strings.Lines(corpus) {
		if k, fen, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == kind {
			out = append(out, fen)
		}
	}
	return out
}

// mixed shuffles questions, the same way each time.
func mixed(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// formulas are random, with three literals in a clause and about as many
// clauses as make them hard to decide.
func formulas(n int) []string {
	const vars, clauses = 60, 256
	r := rand.New(rand.NewPCG(3, 4))
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		fmt.Fprintf(&b, "p cnf %d %d\n", vars, clauses)
		for range clauses {
			for _, v := range r.Perm(vars)[:3] {
				if r.IntN(2) == 0 {
					v = -v - 1
				} else {
					v++
				}
				fmt.Fprintf(&b, "%d ", v)
			}
			b.WriteString("0\n")
		}
		out[i] = b.String()
	}
	return out
}
