//go:build external

package main

import (
	"context"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/program"
	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/plugins/sat/internal/solve"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// The tests of this file require cadical, minisat and picosat.

var programs = []string{"cadical", "minisat", "picosat"}

// Checks of answers and cancellation run for each program; the code of the
// others does not depend on the program.
var ofPrograms = regexp.MustCompile(`^(solver|core/(cancel/(stops|slots|burns)|deadline|drain|fault|invoke|load/processes|shutdown))/?`)

func TestProgramsConform(t *testing.T) {
	for i, name := range programs {
		t.Run(name, func(t *testing.T) {
			o := sdktest.Samples(t, "conformance.edn")
			o.Patience = 10 // each call starts a program, which takes long on a busy machine
			if i > 0 {
				o.Only = ofPrograms
			}
			o.Config = edn.MustMap(edn.K("solver"), edn.Text(name))
			sdktest.Conform(t, shipped(), o)
		})
	}
}

// The programs and the built-in solver agree on 300 random formulas near the
// ratio at which half of them have a model.
func TestProgramsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	var engines []solve.External
	for _, name := range programs {
		path, err := program.Locate(name)
		require.NoError(t, err)
		e := solve.External{Path: path, Args: quiet[name], Style: solve.Competition, Dir: t.TempDir()}
		if name == "minisat" {
			e.Style = solve.MiniSat
		}
		engines = append(engines, e)
	}
	seen := map[solve.Status]int{}
	for range 300 {
		f := &dimacs.Formula{Vars: 30}
		for range 128 {
			var clause []int
			for range 3 {
				clause = append(clause, (random.IntN(f.Vars)+1)*(1-2*random.IntN(2)))
			}
			f.Clauses = append(f.Clauses, clause)
		}
		verdict := solve.Status("")
		for i, e := range engines {
			a, err := e.Run(context.Background(), f, time.Minute)
			require.NoError(t, err, programs[i])
			if verdict == "" {
				verdict = a.Status
			}
			require.Equal(t, verdict, a.Status, programs[i])
		}
		seen[verdict]++
	}
	assert.Greater(t, seen[solve.Sat], 20)
	assert.Greater(t, seen[solve.Unsat], 20)
}
