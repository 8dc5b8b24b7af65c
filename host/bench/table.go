package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	id     string // requirement that sets the goal; empty if not recorded here
	work   string
	ours   string
	peer   string  // name and figure of the peer; empty without a peer
	ratio  float64 // ours / peer, its inverse for rates, or ours / goal without a peer
	goal   string
	aim    float64 // ratio to aim at beyond the goal; 0: none
	within bool
}

// of sets the requirement that sets the goal of a row, and the ratio that it aims at.
func (r row) of(id string, aim float64) row {
	r.id, r.aim = id, aim
	return r
}

// title returns the name of the row, preceded by the requirement.
func (r row) title() string { return strings.TrimSpace(r.id + " " + r.work) }

func print(w io.Writer, rows []row) error {
	head := row{work: "work", ours: "ferment", peer: "peer", goal: "goal"}
	width := [3]int{}
	for _, r := range append([]row{head}, rows...) {
		for i, cell := range []string{r.title(), r.ours, r.peer} {
			width[i] = max(width[i], len(cell))
		}
	}
	line := func(a, b, c, d, e string) error {
		_, err := fmt.Fprintf(w, "| %-*s | %*s | %*s | %7s | %-12s |\n", width[0], a, width[1], b, width[2], c, d, e)
		return err
	}
	if err := line(head.work, head.ours, head.peer, "ratio", head.goal); err != nil {
		return err
	}
	if err := line("---", "---", "---", "---", "---"); err != nil {
		return err
	}
	for _, r := range rows {
		ratio := ""
		if r.peer != "" || r.ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		goal := r.goal
		if goal != "" && !r.within {
			goal += " missed"
		}
		if err := line(r.title(), r.ours, r.peer, ratio, goal); err != nil {
			return err
		}
	}
	return nil
}

// against compares a median with that of a peer; goal is the maximum ratio, 0 for none.
func against(work string, ours time.Duration, peer string, theirs time.Duration, goal float64) row {
	r := row{work: work, ours: figure(ours), peer: peer + " " + figure(theirs), ratio: float64(ours) / float64(theirs), within: true}
	if goal > 0 {
		r.goal, r.within = fmt.Sprintf("<= %.2f", goal), r.ratio <= goal
	}
	return r
}

// atRate compares the time per call of many concurrent callers with that of one; goal is the
// minimum ratio of their rates, 0 for none.
func atRate(work string, many time.Duration, peer string, one time.Duration, goal float64) row {
	r := row{work: work, ours: figure(many), peer: peer + " " + figure(one), ratio: float64(one) / float64(many), within: true}
	if goal > 0 {
		r.goal, r.within = fmt.Sprintf(">= %.2f", goal), r.ratio >= goal
	}
	return r
}

func figure(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f us", float64(d.Nanoseconds())/1e3)
	}
	return fmt.Sprintf("%.1f ms", float64(d.Nanoseconds())/1e6)
}

func median[T int64 | float64 | time.Duration](xs []T) T { return quantile(xs, 0.5) }

func quantile[T int64 | float64 | time.Duration](xs []T, q float64) T {
	s := slices.Sorted(slices.Values(xs))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// alternate runs each function for 40 ms per round, and returns the median time of one call of
// each.
func alternate(p pace, fns ...func()) []time.Duration {
	const spell = 40 * time.Millisecond
	all := make([][]time.Duration, len(fns))
	for range p.rounds {
		for i, fn := range fns {
			n := 0
			began := time.Now()
			for n == 0 || (time.Since(began) < spell && n < p.calls*100) {
				for range 10 {
					fn()
				}
				n += 10
			}
			all[i] = append(all[i], time.Since(began)/time.Duration(n))
		}
	}
	out := make([]time.Duration, len(fns))
	for i := range all {
		out[i] = median(all[i])
	}
	return out
}
