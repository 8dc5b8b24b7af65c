package view

import (
	"fmt"
	"strings"
)

const diffContext = 3

// Diff returns the change as a unified diff; empty if the file is not changed.
func (f Formatted) Diff() string {
	if !f.Changed() {
		return ""
	}
	a, b := splitLines(string(f.Before)), splitLines(string(f.After))
	edits := lineEdits(a, b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", f.Name, f.Name)
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i++
			continue
		}
		from := max(0, i-diffContext)
		to := i
		for n := i; n < len(edits) && n-to <= 2*diffContext; n++ {
			if edits[n].op != ' ' {
				to = n
			}
		}
		i = min(len(edits), to+1+diffContext)
		hunk(&out, edits[from:i])
	}
	return out.String()
}

func hunk(out *strings.Builder, edits []edit) {
	old, now := 0, 0
	for _, e := range edits {
		if e.op != '+' {
			old++
		}
		if e.op != '-' {
			now++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", extent(edits[0].old, old), extent(edits[0].now, now))
	for _, e := range edits {
		fmt.Fprintf(out, "%c%s\n", e.op, strings.TrimSuffix(e.text, "\n"))
		if !strings.HasSuffix(e.text, "\n") {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
}

func extent(start, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}

func splitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// edit is a line that is kept (' '), removed ('-') or added ('+'); old and now are the numbers of
// lines before it in both texts.
type edit struct {
	op       byte
	text     string
	old, now int
}

// lineEdits returns the edits from a to b. It matches lines greedily: formatting keeps the order of
// lines, so the next equal line is close.
func lineEdits(a, b []string) []edit {
	var out []edit
	i, j := 0, 0
	drop := func() { out, i = append(out, edit{'-', a[i], i, j}), i+1 }
	add := func() { out, j = append(out, edit{'+', b[j], i, j}), j+1 }
	for i < len(a) && j < len(b) {
		if a[i] == b[j] {
			out = append(out, edit{' ', a[i], i, j})
			i, j = i+1, j+1
			continue
		}
		di, dj := resync(a[i:], b[j:])
		for range di {
			drop()
		}
		for range dj {
			add()
		}
	}
	for i < len(a) {
		drop()
	}
	for j < len(b) {
		add()
	}
	return out
}

// resync returns the nearest pair of equal lines that are not blank.
func resync(a, b []string) (int, int) {
	const window = 64
	for sum := 1; sum < 2*window; sum++ {
		for i := max(0, sum-len(b)+1); i <= sum && i < len(a); i++ {
			if j := sum - i; a[i] == b[j] && strings.TrimSpace(a[i]) != "" {
				return i, j
			}
		}
	}
	return 1, min(1, len(b))
}
