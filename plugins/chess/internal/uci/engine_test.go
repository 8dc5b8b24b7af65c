package uci

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corentings/chess/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

const start4 = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

// The test binary plays an engine on demand: a real process that speaks the
// real protocol, well or badly.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "engine=") {
		linger()
		play(strings.TrimPrefix(os.Args[1], "engine="))
		return
	}
	goleak.VerifyTestMain(m)
}

// linger keeps a role whose goroutines all block alive: without cgo, and
// without a timer that runs, the runtime ends such a process as deadlocked.
func linger() { time.AfterFunc(1<<63-1, func() {}) }

// play answers like an engine with the named behavior.
func play(temper string) {
	in := bufio.NewScanner(os.Stdin)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	searching := false
	for in.Scan() {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "uci":
			switch temper {
			case "silent":
				continue
			case "noise":
				say("%s", strings.Repeat("x", 100<<10))
			}
			say("id name Test %s", temper)
			say("uciok")
		case "setoption":
			if rest != "name Hash value 16" {
				os.Exit(9)
			}
		case "isready":
			say("readyok")
		case "go":
			searching = true
			switch temper {
			case "dies":
				os.Exit(3)
			case "cheats":
				say("bestmove e2e5")
			case "mute", "stubborn":
				continue
			case "mates":
				say("info depth 3 score mate 2 nodes 77 pv e2e4 e7e5 zzzz")
				say("bestmove e2e4")
			default:
				say("info string thinking about %s", rest)
				say("info depth 1 seldepth 1 multipv 1 score cp 12 nodes 20 pv d2d4")
				say("info depth 2 multipv 2 score cp 900 nodes 40 pv a2a3")
				say("info depth 2 score cp 31 lowerbound nodes 50 pv a2a4")
				say("info depth 2 score cp 25 nodes 60 pv e2e4 e7e5")
				say("bestmove e2e4 ponder e7e5")
			}
		case "stop":
			if searching && temper != "stubborn" {
				say("bestmove e2e4")
			}
		case "quit":
			if temper != "stubborn" {
				return
			}
		}
	}
	if temper == "stubborn" {
		select {} // ignores even the end of its input
	}
}

func engine(t *testing.T, temper string) (*Engine, *chess.Position) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	e := New(self, []string{"engine=" + temper}, map[string]string{"Hash": "16"})
	t.Cleanup(e.Close)
	pos, err := board.Parse(start4)
	require.NoError(t, err)
	return e, pos
}

func TestSearchTakesTheMainLine(t *testing.T) {
	e, pos := engine(t, "plain")
	for range 3 { // one process serves all searches
		r, err := e.Search(context.Background(), pos, Limits{Depth: 2})
		require.NoError(t, err)
		assert.Equal(t, "e2e4", board.UCI(r.Best))
		assert.Len(t, r.PV, 2)
		assert.Equal(t, 25, r.Score, "lines of other variations and bounds are not the answer")
		assert.Equal(t, int64(60), r.Nodes)
		assert.Equal(t, 2, r.Depth)
	}

}

func TestSearchMateAndBadLine(t *testing.T) {
	e, pos := engine(t, "mates")
	r, err := e.Search(context.Background(), pos, Limits{MoveTime: time.Second})
	require.NoError(t, err)
	assert.Equal(t, 2, r.Mate)
	assert.Equal(t, 100000-3, r.Score)
	assert.Len(t, r.PV, 2, "the line ends before the move that cannot be")
}

// Each bad engine costs one error, within its deadline, and leaves no process.
func TestSearchSurvivesBadEngines(t *testing.T) {
	for temper, says := range map[string]string{
		"dies":   "engine ended: exit status 3",
		"cheats": `answered the move "e2e5"`,
		"noise":  "token too long",
	} {
		e, pos := engine(t, temper)
		_, err := e.Search(context.Background(), pos, Limits{Depth: 1})
		require.ErrorContains(t, err, says, temper)
	}
	missing := New("/nonexistent/engine", nil, nil)
	t.Cleanup(missing.Close)
	pos, err := board.Parse(start4)
	require.NoError(t, err)
	_, err = missing.Search(context.Background(), pos, Limits{Depth: 1})
	require.ErrorContains(t, err, "no such file")
}

func TestSearchObeysItsContext(t *testing.T) {
	for _, temper := range []string{"mute", "stubborn", "silent"} {
		e, pos := engine(t, temper)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		at := time.Now()
		_, err := e.Search(ctx, pos, Limits{Depth: 30})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, temper)
		assert.Less(t, time.Since(at), handshake-5*time.Second, "%s: the context, not the limit of the handshake", temper)
	}
}

// A waiting call leaves the queue when its context ends.
func TestSearchWaitsForItsTurn(t *testing.T) {
	e, pos := engine(t, "mute")
	first, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := e.Search(first, pos, Limits{Depth: 30})
		done <- err
	}()
	require.Eventually(t, func() bool { return len(e.turn) == 0 }, 30*time.Second, time.Millisecond)
	second, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.Search(second, pos, Limits{Depth: 1})
	require.ErrorIs(t, err, context.Canceled)
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

func FuzzParseInfo(f *testing.F) {
	for _, seed := range []string{"info depth 3 score mate 2 nodes 77 pv e2e4", "info score cp", "info multipv 2", "info string x", "info score mate -3 pv"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if i, ok := parseInfo(line); ok && !strings.Contains(line, "score") {
			t.Fatalf("score out of nowhere: %+v", i)
		}
	})
}
