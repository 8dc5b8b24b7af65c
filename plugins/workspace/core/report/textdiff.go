package report

import (
	"fmt"
	"slices"
	"strings"
)

const (
	contextLines = 3
	// maxEdits bounds the search for the shortest difference: texts that differ
	// more are shown as removed and added as a whole.
	maxEdits = 1000
)

// edit is a run of lines: those from a to b of the old text became those from c
// to d of the new one.
type edit struct{ a, b, c, d int }

// unified returns the difference between two texts, empty if they are equal.
func unified(name, before, after string) string {
	if before == after {
		return ""
	}
	old, now := lines(before), lines(after)
	edits := changedRuns(old, now)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a-edits[n-1].b <= 2*contextLines {
			n++
		}
		hunk(&out, old, now, edits[:n])
		edits = edits[n:]
	}
	return out.String()
}

// lines splits a text after each end of line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

func hunk(out *strings.Builder, old, now []string, edits []edit) {
	first, last := edits[0], edits[len(edits)-1]
	a, b := max(first.a-contextLines, 0), min(last.b+contextLines, len(old))
	c, d := first.c-(first.a-a), last.d+(b-last.b)
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(a, b), span(c, d))
	at := a
	for _, e := range edits {
		write(out, ' ', old[at:e.a])
		write(out, '-', old[e.a:e.b])
		write(out, '+', now[e.c:e.d])
		at = e.b
	}
	write(out, ' ', old[at:b])
}

// span is the position of a hunk: the first line, from 1, and their number.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func write(out *strings.Builder, sign byte, list []string) {
	for _, l := range list {
		out.WriteByte(sign)
		out.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// changedRuns returns the runs that differ, in order.
func changedRuns(old, now []string) []edit {
	head := 0
	for head < len(old) && head < len(now) && old[head] == now[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(now)-head && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	a, b := old[head:len(old)-tail], now[head:len(now)-tail]
	keep, ok := common(a, b)
	if !ok {
		return []edit{{head, head + len(a), head, head + len(b)}}
	}
	var list []edit
	x, y := 0, 0
	for _, k := range append(keep, [2]int{len(a), len(b)}) {
		if k[0] > x || k[1] > y {
			list = append(list, edit{head + x, head + k[0], head + y, head + k[1]})
		}
		x, y = k[0]+1, k[1]+1
	}
	return list
}

// common returns the positions of a longest common subsequence, with the greedy
// search of Myers. It fails if the texts differ by more than maxEdits lines.
func common(a, b []string) (keep [][2]int, ok bool) {
	limit := min(len(a)+len(b), maxEdits)
	furthest := make([]int, 2*limit+2)
	at := func(k int) *int { return &furthest[(k+len(furthest))%len(furthest)] }
	var trace [][]int
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				if k == -d || k != d && *at(k - 1) < *at(k + 1) {
					x = *at(k + 1)
				} else {
					x = *at(k - 1) + 1
				}
			}
			for x < len(a) && x-k >= 0 && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			*at(k) = x
			if x >= len(a) && x-k >= len(b) {
				return walkBack(a, b, trace, d, k), true
			}
		}
		row := make([]int, 2*d+1) // of the diagonals -d to d
		for k := -d; k <= d; k++ {
			row[k+d] = *at(k)
		}
		trace = append(trace, row)
	}
	return nil, false
}

// walkBack follows a search from its end back to its start.
func walkBack(a, b []string, trace [][]int, d, k int) [][2]int {
	x, y := len(a), len(b)
	var keep [][2]int
	for ; d > 0; d-- {
		row := trace[d-1]
		get := func(k int) int {
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return row[k+d-1]
		}
		down := k == -d || k != d && get(k-1) < get(k+1)
		from := k - 1
		if down {
			from = k + 1
		}
		px := get(from)
		behind := px // where the run of equal lines behind the edit begins
		if !down {
			behind++
		}
		for x > behind {
			x, y = x-1, y-1
			keep = append(keep, [2]int{x, y})
		}
		x, y, k = px, px-from, from
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		keep = append(keep, [2]int{x, y})
	}
	slices.Reverse(keep)
	return keep
}
