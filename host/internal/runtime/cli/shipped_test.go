package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corentings/chess/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// workshop is a world with the shipped plugins, and a chess engine with a
// search depth in plies.
func workshop(t testing.TB, depth int) *world {
	w := newWorld(t)
	w.write("ferment.hcl", shipped("chess", "chess", fmt.Sprintf("config {\n  engine = \"builtin\"\n  depth  = %d\n}", depth))+
		shipped("sat", "sat")+shipped("text", "text")+testrunner(w.dir)+`
check "legal-move" {
  intent = "chess/verify-move"
}
intent "chess/best-move" {
  in  = "req/chess.position"
  out = "res/chess.move+pv+eval"

  done { must = ["schema-valid", "legal-move"] }
}
`)
	return w
}

// moves requests a move in each position, in one plan with a map; rest are
// further keys of the input.
func (w *world) moves(fens []string, rest string) []edn.Value {
	w.t.Helper()
	over := make([]edn.Value, len(fens))
	for i, fen := range fens {
		over[i] = edn.Text(fen)
	}
	w.write("moves.edn", fmt.Sprintf(`{:nodes [{:op :map :over %s :item :fen :as :moves :max-parallel 4
  :body [{:op :call :intent :chess/best-move :input {:fen {:slot/id :fen} `+rest+`} :as :m} {:op :emit :input {:slot/path [:m :out]}}]}
 {:op :emit :input {:moves {:slot/path [:moves :out]}}}]}`, edn.Vector(over...)))
	got := w.launchLimit(time.Hour, "", built.ferment, "run", "moves.edn", "-o", "edn", "--deadline", "1h").wait()
	require.Equal(w.t, 0, got.code, "%s%s", tail(got.stdout, 5), tail(got.stderr, 20))
	moves := slices.Collect(got.value(w.t).Key("result").Key("out").Key("moves").Elems())
	require.Len(w.t, moves, len(fens))
	return moves
}

// walk plays random games and returns positions in which a move is possible.
func walk(seed uint64, n int) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	var fens []string
	for len(fens) < n {
		at := chess.StartingPosition()
		for ply := 0; ply < 150 && len(fens) < n; ply++ {
			moves := at.ValidMoves()
			if len(moves) == 0 {
				break
			}
			if random.IntN(5) == 0 {
				fens = append(fens, at.String())
			}
			at = at.Update(&moves[random.IntN(len(moves))])
		}
	}
	return fens
}

// legal reports whether a move is legal according to an independent library.
func legal(t testing.TB, fen, move string) bool {
	t.Helper()
	set, err := chess.FEN(fen)
	require.NoError(t, err, fen)
	return slices.ContainsFunc(chess.NewGame(set).Position().ValidMoves(), func(m chess.Move) bool { return m.String() == move })
}

func text(t testing.TB, v edn.Value) string {
	t.Helper()
	s, ok := v.AsString()
	require.True(t, ok, "%s", v)
	return s
}

// TestMates: of 200 mates in one to three, found in random games and proved by
// a full search, at least 190 are found through the program.
func TestMates(t *testing.T) {
	t.Parallel()
	corpus, err := os.ReadFile(filepath.Join(built.module, "plugins", "chess", "internal", "corpus", "mates.txt"))
	require.NoError(t, err)
	var fens []string
	var want []int64
	for line := range strings.Lines(string(corpus)) {
		moves, fen, ok := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, ok, line)
		var n int64
		_, err := fmt.Sscan(moves, &n)
		require.NoError(t, err)
		fens, want = append(fens, fen), append(want, n)
	}
	require.Len(t, fens, 200)
	found := 0
	for i, out := range workshop(t, 4).moves(fens, "") {
		require.True(t, legal(t, fens[i], text(t, out.Key("move"))))
		if n, ok := out.Key("mate").AsInt(); ok && n == want[i] {
			found++
			score, _ := out.Key("eval").AsInt()
			assert.Equal(t, 100_000-(2*n-1), score, "%s: %s", fens[i], out)
		}
	}
	t.Logf("%d of 200 mates", found)
	assert.GreaterOrEqual(t, found, 190)
}

const start = `:fen "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"`

// board returns a start position with a change.
func board(from, to string) string { return "{" + strings.Replace(start, from, to, 1) + "}" }

// malformed are inputs that the shipped intents reject, with the type of the
// error and the field that it names.
var malformed = []struct{ intent, input, typ, field string }{
	{"chess/best-move", `{}`, "input/invalid", "fen"},
	{"chess/best-move", `{:fen 7}`, "input/invalid", "fen"},
	{"chess/best-move", `{:fen ""}`, "input/invalid", "fen"},
	{"chess/best-move", `{:fen "not a position at all really"}`, "input/invalid", "fen"},
	{"chess/best-move", `{:fen "` + strings.Repeat("k", 4000) + `"}`, "input/invalid", "fen"},
	{"chess/best-move", board("RNBQKBNR", "RNBQQBNR"), "input/invalid", "fen"},
	{"chess/best-move", board("RNBQKBNR", "RNBKKBNR"), "input/invalid", "fen"},
	{"chess/best-move", board("8/8/8/8", "8/8/8/9"), "input/invalid", "fen"},
	{"chess/best-move", board("8/8/8/8", "8/8/8"), "input/invalid", "fen"},
	{"chess/best-move", board(" w ", " x "), "input/invalid", "fen"},
	{"chess/best-move", board("RNBQKBNR", "1NBQKBNR"), "input/invalid", "fen"},
	{"chess/best-move", board(" - ", " e3 "), "input/invalid", "fen"},
	{"chess/best-move", board("0 1", "-1 1"), "input/invalid", "fen"},
	{"chess/best-move", board("0 1", "0"), "input/invalid", "fen"},
	{"chess/best-move", `{` + start + ` :depth 0}`, "input/invalid", "depth"},
	{"chess/best-move", `{` + start + ` :depth "4"}`, "input/invalid", "depth"},
	{"chess/best-move", `{` + start + ` :movetime-ms -5}`, "input/invalid", "movetime-ms"},
	{"chess/best-move", `{` + start + ` :want {:pv -1}}`, "input/invalid", "pv"},
	{"chess/best-move", `{` + start + ` :want 3}`, "input/invalid", "want"},
	{"chess/best-move", `{:fen "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"}`, "chess/game-over", "stalemate"},
	{"chess/verify-move", `{` + start + `}`, "input/invalid", "move"},
	{"chess/verify-move", `{:move "e2e4"}`, "input/invalid", "fen"},
	{"chess/verify-move", `{` + start + ` :move ""}`, "input/invalid", "move"},
	{"chess/verify-move", `{` + start + ` :move "e2e4" :pv "e2e4"}`, "input/invalid", "pv"},
	{"chess/perft", `{` + start + `}`, "input/invalid", "depth"},
	{"chess/perft", `{` + start + ` :depth 7}`, "input/invalid", "depth"},
	{"chess/perft", `{:depth 2}`, "input/invalid", "fen"},

	{"sat/solve", `{}`, "input/invalid", "dimacs"},
	{"sat/solve", `{:dimacs ""}`, "input/invalid", "dimacs"},
	{"sat/solve", `{:dimacs 7}`, "input/invalid", "dimacs"},
	{"sat/solve", `{:dimacs "p cnf 1 1\n2 0"}`, "input/invalid", "dimacs"},
	{"sat/solve", `{:dimacs "p cnf 1 2\n1 0"}`, "input/invalid", "dimacs"},
	{"sat/solve", `{:clauses [[1 0]]}`, "input/invalid", "clauses"},
	{"sat/solve", `{:clauses [[1 "x"]]}`, "input/invalid", "clauses"},
	{"sat/solve", `{:clauses {1 2}}`, "input/invalid", "clauses"},
	{"sat/solve", `{:clauses [[1]] :dimacs "p cnf 1 1\n1 0"}`, "input/invalid", "clauses"},
	{"sat/solve", `{:clauses [[1]] :timeout-ms 0}`, "input/invalid", "timeout-ms"},
	{"sat/verify", `{:clauses [[1]]}`, "input/invalid", "model"},
	{"sat/verify", `{:clauses [[1]] :model [2]}`, "input/invalid", "model"},
	{"sat/verify", `{:clauses [[1]] :model [1 -1]}`, "input/invalid", "model"},
	{"sat/verify", `{:model [1]}`, "input/invalid", "dimacs"},

	{"context/summarize", `{}`, "input/invalid", "text"},
	{"context/summarize", `{:text 7}`, "input/invalid", "text"},
	{"context/summarize", `{:text "  "}`, "input/invalid", "text"},
	{"context/summarize", `{:frames []}`, "input/invalid", "frames"},
	{"context/summarize", `{:text "a." :frames ["b."]}`, "input/invalid", "frames"},
	{"context/summarize", `{:text "a." :max-sentences 0}`, "input/invalid", "max-sentences"},
	{"context/summarize", `{:text "a." :language 7}`, "input/invalid", "language"},
	{"text/render", `{}`, "input/invalid", "template"},
	{"text/render", `{:template "{{a}}" :data 7}`, "input/invalid", "data"},
	{"text/render", `{:template "{{a}}"}`, "render/missing", "template"},
	{"text/render", `{:template "{{#a}}"}`, "render/syntax", "template"},
	{"text/render", `{:template "x" :escape :xml}`, "input/invalid", "escape"},
	{"route/classify", `{}`, "input/invalid", "text"},
	{"route/classify", `{:text 1}`, "input/invalid", "text"},
	{"route/decide", `{}`, "input/invalid", "request"},
	{"route/decide", `{:request {}}`, "input/invalid", "request"},

	{"code/test", `{}`, "input/invalid", "dir"},
	{"code/test", `{:dir 7}`, "input/invalid", "dir"},
	{"code/test", `{:dir "/does/not/exist"}`, "input/invalid", "dir"},
	{"code/test", `{:dir "bare"}`, "input/invalid", "command"},
	{"code/test", `{:dir "bare" :command []}`, "input/invalid", "command"},
	{"code/test", `{:dir "bare" :command ["no-such-program"]}`, "input/invalid", "command"},
	{"code/test", `{:dir "bare" :command ["true"] :timeout-ms 0}`, "input/invalid", "timeout-ms"},
	{"code/test", `{:dir "bare" :command ["true"] :memory "lots"}`, "input/invalid", "memory"},
	{"code/apply-patch", `{:dir "bare"}`, "input/invalid", "patch"},
	{"code/apply-patch", `{:dir "bare" :patch "  "}`, "input/invalid", "patch"},
	{"code/apply-patch", `{:patch "x"}`, "input/invalid", "dir"},
	{"code/apply-patch", `{:dir "bare" :patch "x" :strip 11}`, "input/invalid", "strip"},
	{"code/patch-verdict", `{:dir "bare"}`, "input/invalid", "patch"},
	{"code/patch-verdict", `{:patch "x"}`, "input/invalid", "dir"},
}

// TestMalformed: every shipped intent rejects each of its malformed inputs
// with one typed error that names the field, as an item of a plan and as an
// act.
func TestMalformed(t *testing.T) {
	t.Parallel()
	w := workshop(t, 1)
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "bare"), 0o755))
	intents := map[string][]int{}
	for i, row := range malformed {
		intents[row.intent] = append(intents[row.intent], i)
	}
	// The inputs are bindings, which the static check does not follow.
	var bindings, nodes, emits strings.Builder
	for intent, rows := range intents {
		slot := strings.ReplaceAll(intent, "/", ".")
		var inputs []string
		for _, i := range rows {
			inputs = append(inputs, malformed[i].input)
		}
		fmt.Fprintf(&bindings, " :in.%s [%s]\n", slot, strings.Join(inputs, "\n  "))
		fmt.Fprintf(&nodes, " {:op :map :over :in.%s :item :in :as :%s :on-item-error :keep\n", slot, slot)
		fmt.Fprintf(&nodes, "  :body [{:op :call :intent :%s :input {:slot/id :in} :as :x} {:op :emit :input :x}]}\n", intent)
		fmt.Fprintf(&emits, " :%s {:slot/path [:%s :out]}", slot, slot)
	}
	w.write("malformed.edn", "{:bindings {"+bindings.String()+"}\n :nodes [\n"+nodes.String()+" {:op :emit :input {"+emits.String()+"}}]}\n")
	got := w.run("run", "malformed.edn", "-o", "edn")
	require.Equal(t, 0, got.code, "%s%s", got.stdout, got.stderr)
	out := got.value(t).Key("result").Key("out")
	for intent, rows := range intents {
		answers := slices.Collect(out.Key(strings.ReplaceAll(intent, "/", ".")).Elems())
		require.Len(t, answers, len(rows), intent)
		for k, i := range rows {
			row, problem := malformed[i], answers[k].Key("error")
			assert.Equal(t, row.typ, word(problem.Key("type")), "%s %s: %s", row.intent, row.input, answers[k])
			named := text(t, problem.Key("message")) + problem.Key("details").String()
			assert.Contains(t, named, row.field, "%s %s: %s", row.intent, row.input, problem)
			assert.Equal(t, "request", word(problem.Key("source")), "%s %s: %s", row.intent, row.input, problem)
		}
		t.Run(intent, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: w.dir, env: w.env}
			row := malformed[rows[0]]
			got := w.run("act", row.intent, row.input)
			assert.Equal(t, 2, got.code)
			assert.Empty(t, got.stdout)
			assert.Contains(t, got.stderr, row.field)
			assert.Equal(t, 1, strings.Count(got.stderr, "error: "), "one error: %s", got.stderr)
		})
	}
}

// plugins.md 7.0: a directory that the sandbox hides from a plugin is reported
// as that, with the setting that opens it, and not as a failed suite.
func TestHiddenDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ferment.hcl", testProfile+testrunner(filepath.Join(w.dir, "open")))
	for _, dir := range []string{"open", "hidden"} {
		w.write(dir+"/go.mod", "module m\n")
	}
	w.mustLock()
	const patch = `"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+text\n"`
	for _, intent := range []string{"code/test", "code/apply-patch"} {
		got := w.run("act", intent, fmt.Sprintf(`{:dir "hidden" :patch %s}`, patch))
		assert.Equal(t, 4, got.code, got.stderr)
		assert.Contains(t, got.stderr, ":effects/scope-denied")
		assert.Contains(t, got.stderr, "read_paths")
	}
	got := w.run("act", "code/apply-patch", fmt.Sprintf(`{:dir "open" :patch %s}`, patch), "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	file, _ := got.value(t).Key("result").Key("out").Key("files").Nth(0)
	assert.Equal(t, `"text\n"`, file.Key("content").String(), "what outlives the run")
}
