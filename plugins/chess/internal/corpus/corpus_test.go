package corpus

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/corentings/chess/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

var update = flag.Bool("update", false, "make the list of mates again")

// The list holds 200 different positions, each with its shortest mate, proved
// by the plain search.
func TestMatesAreProved(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile("mates.txt", []byte(generate(20, map[int]int{1: 67, 2: 67, 3: 66})), 0o644))
		t.Log("written; run again to verify")
		return
	}
	all, err := Mates()
	require.NoError(t, err)
	seen, count := map[string]bool{}, map[int]int{}
	for _, m := range all {
		pos, err := board.Parse(m.FEN)
		require.NoError(t, err, m.FEN)
		assert.False(t, seen[m.FEN], "%s is listed twice", m.FEN)
		seen[m.FEN] = true
		count[m.Moves]++
		assert.True(t, Forced(pos, m.Moves), "%s: no mate in %d", m.FEN, m.Moves)
		if m.Moves > 1 {
			assert.False(t, Forced(pos, m.Moves-1), "%s: a shorter mate than %d", m.FEN, m.Moves)
		}
	}
	assert.Equal(t, map[int]int{1: 67, 2: 67, 3: 66}, count)
}

// generate plays random games and keeps positions with a mate of each length.
// For mates in three it skips positions with much material, whose proof would
// take minutes.
func generate(seed uint64, want map[int]int) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out strings.Builder
	for want[1]+want[2]+want[3] > 0 {
		pos := chess.StartingPosition()
		last := -10
		for ply := 0; ply < 200; ply++ {
			moves := pos.ValidMoves()
			if len(moves) == 0 {
				break
			}
			_, err := board.Parse(pos.String())
			if err == nil && ply > last+6 && ply > 20 {
				for n := 1; n <= 3; n++ {
					if n == 3 && len(moves) > 22 {
						break
					}
					if want[n] > 0 && Forced(pos, n) {
						fmt.Fprintf(&out, "%d %s\n", n, pos.String())
						want[n]--
						last = ply
						break
					}
					if want[n] == 0 && Forced(pos, n) {
						break
					}
				}
			}
			pick := rng.IntN(len(moves))
			for range 2 { // prefer captures to reduce the material
				if !moves[pick].HasTag(chess.Capture) {
					pick = rng.IntN(len(moves))
				}
			}
			pos = pos.Update(&moves[pick])
		}
	}
	return out.String()
}

func TestWalkIsPlayable(t *testing.T) {
	fens := Walk(7, 1000)
	require.Len(t, fens, 1000)
	for _, fen := range fens {
		_, err := board.Parse(fen)
		require.NoError(t, err, fen)
	}
}
