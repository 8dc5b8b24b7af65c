package dimacs

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReadAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Formula
	}{
		"plain":              {"p cnf 3 2\n1 -2 0\n2 3 0\n", Formula{3, [][]int{{1, -2}, {2, 3}}}},
		"comments":           {"c first\nc\np cnf 2 1\nc in between\n1 2 0\nc last", Formula{2, [][]int{{1, 2}}}},
		"clause over lines":  {"p cnf 3 1\n1\n2\n3\n0", Formula{3, [][]int{{1, 2, 3}}}},
		"clauses on a line":  {"p cnf 2 2\n1 0 2 0", Formula{2, [][]int{{1}, {2}}}},
		"tabs and CRLF":      {"p cnf 2 1\r\n1\t-2 0\r\n", Formula{2, [][]int{{1, -2}}}},
		"empty clause":       {"p cnf 1 1\n0\n", Formula{1, [][]int{nil}}},
		"no clause":          {"p cnf 4 0\n", Formula{4, [][]int{}}},
		"repeated literals":  {"p cnf 1 1\n1 1 -1 0", Formula{1, [][]int{{1, 1, -1}}}},
		"unused variables":   {"p cnf 9 1\n1 0", Formula{9, [][]int{{1}}}},
		"no line at the end": {"p cnf 1 1\n1 0", Formula{1, [][]int{{1}}}},
	} {
		f, err := Read(c.text)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, *f, name)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		at   [2]int
		says string
	}{
		"empty":                    {"", [2]int{1, 1}, "no header"},
		"no header":                {"1 2 0", [2]int{1, 1}, "before the header"},
		"other format":             {"p sat 1 1", [2]int{1, 3}, `format "sat"`},
		"header cut":               {"p cnf 3", [2]int{1, 8}, "no number of clauses"},
		"header over lines":        {"p cnf\n3 1\n", [2]int{2, 1}, "no number of variables"},
		"negative count":           {"p cnf -3 1\n", [2]int{1, 7}, "not a number of variables"},
		"too many variables":       {"p cnf 99999999 1\n", [2]int{1, 7}, "not a number of variables"},
		"undeclared variable":      {"p cnf 2 1\n1 3 0", [2]int{2, 3}, "does not declare"},
		"no number":                {"p cnf 2 1\n1 x 0", [2]int{2, 3}, "not a literal"},
		"minus zero":               {"p cnf 2 1\n1 -0", [2]int{2, 3}, "-0"},
		"fraction":                 {"p cnf 2 1\n1.5 0", [2]int{2, 1}, "not a literal"},
		"open clause":              {"p cnf 2 1\n1 2\n", [2]int{3, 1}, "not closed"},
		"too few clauses":          {"p cnf 2 2\n1 0\n", [2]int{3, 1}, "1 clauses"},
		"too many clauses":         {"p cnf 2 1\n1 0\n2 0\n", [2]int{3, 1}, "after the last clause"},
		"trailer of old libraries": {"p cnf 1 1\n1 0\n%\n0\n", [2]int{3, 1}, "trailer"},
		"NUL":                      {"p cnf 1 1\n\x001 0", [2]int{2, 1}, "not a literal"},
		"huge literal":             {"p cnf 1 1\n99999999999999999999 0", [2]int{2, 1}, "not a literal"},
	} {
		_, err := Read(c.text)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, c.at, [2]int{e.Line, e.Column}, "%s: %v", name, err)
		assert.Contains(t, err.Error(), c.says, name)
	}
	_, err := Read(strings.Repeat("c\n", MaxBytes))
	require.ErrorContains(t, err, "bytes")
}

func TestFromClausesRefuses(t *testing.T) {
	_, err := FromClauses([][]int{{1}, {2, 0}})
	require.ErrorContains(t, err, "clause 2: literal 0")
	_, err = FromClauses([][]int{{MaxVars + 1}})
	require.ErrorContains(t, err, "clause 1")
	f, err := FromClauses([][]int{{1, -7}})
	require.NoError(t, err)
	assert.Equal(t, 7, f.Vars)
}

func TestCheck(t *testing.T) {
	f := &Formula{Vars: 3, Clauses: [][]int{{1, -2}, {2, 3}, {-3}}}
	for _, c := range []struct {
		model []int
		want  int
		fault string
	}{
		{[]int{1, 2, -3}, 0, ""},
		{[]int{-1, 2, -3}, 1, ""},
		{[]int{1, -2, -3}, 2, ""},
		{[]int{1, 2, 3}, 3, ""},
		{[]int{1}, 2, ""},
		{nil, 1, ""},
		{[]int{1, 4}, 0, "the model names 4"},
		{[]int{0}, 0, "the model names 0"},
		{[]int{1, -1}, 0, "variable 1 twice"},
	} {
		got, err := f.Check(c.model)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%v", c.model)
	}
}

func TestNormalKeepsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vars := rapid.IntRange(1, 5).Draw(t, "vars")
		clause := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int {
			v := rapid.IntRange(1, vars).Draw(t, "v")
			if rapid.Bool().Draw(t, "negative") {
				return -v
			}
			return v
		}), 0, 6)
		f := &Formula{Vars: vars, Clauses: rapid.SliceOfN(clause, 0, 6).Draw(t, "clauses")}
		read, err := Read(string(f.Text()))
		require.NoError(t, err)
		require.Equal(t, len(f.Clauses), len(read.Clauses))
		normal, empty := f.Normal()
		for bits := range 1 << vars {
			model := make([]int, vars)
			for i := range model {
				model[i] = i + 1
				if bits>>i&1 == 0 {
					model[i] = -(i + 1)
				}
			}
			bad, err := f.Check(model)
			require.NoError(t, err)
			if empty > 0 {
				require.NotZero(t, bad)
				continue
			}
			badNormal, err := normal.Check(model)
			require.NoError(t, err)
			require.Equal(t, bad == 0, badNormal == 0)
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"p cnf 3 2\n1 -2 0\n2 3 0\n", "c x\np cnf 0 0", "p cnf 1 1\n%\n0", "p  cnf\t1 1\n1 0 c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := Read(string(got.Text()))
		if err != nil || again.Vars != got.Vars || len(again.Clauses) != len(got.Clauses) {
			t.Fatalf("own text is read as %v, %v", again, err)
		}
	})
}
