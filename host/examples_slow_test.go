//go:build slow

package host_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// What each plan of examples/plans answers; the test knows all of them.
func TestExamplePlans(t *testing.T) {
	answers := map[string]string{
		"hello.edn":    `{:text "Hello, world!"}`,
		"slots.edn":    `{:text "In short: Bees dance to tell where food is. Other bees read the dance in the dark hive."}`,
		"parallel.edn": `{:model [1 2] :move "h5f7" :positions 8902}`,
		"gates.edn":    `{:mate 1 :move "d1d8"}`,
		"failure.edn":  `{:text "No move: no move can be played: 1/2-1/2 by stalemate"}`,
		"map.edn":      "", // below
		"nested.edn":   `{:text "Dear reader, this is about the sun, the angle and the distance."}`,
		"handles.edn":  `{:all [{:status :unsat} {:model [1 2] :status :sat}] :one :sat}`,
		"proof.edn":    `{:status :sat :valid true}`,
		"tests.edn":    `{:failed 0 :passed 6}`,
	}
	files, err := filepath.Glob("../examples/plans/*.edn")
	require.NoError(t, err)
	require.Len(t, files, len(answers))
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			out, problems, code := ferment(t, "run", "examples/plans/"+name, "--edn")
			require.Zero(t, code, "%s%s", out, problems)
			response, err := edn.ReadString(out)
			require.NoError(t, err)
			answer := response.Key("result").Key("out")
			if name != "map.edn" {
				assert.Equal(t, answers[name], answer.String())
				return
			}
			moves := answer.Key("moves")
			require.Equal(t, 3, moves.Len())
			second, _ := moves.Nth(1)
			assert.True(t, edn.Equal(edn.K("input/invalid"), second.Key("failure/type")), "%s", second)
			for i, want := range map[int]string{0: `{:board 0 :move "d1d8"}`, 2: `{:board 2 :move "a7a8"}`} {
				got, _ := moves.Nth(i)
				assert.Equal(t, want, got.String())
			}
		})
	}
}

// TXT-006: examples/languages. With the pack each bad answer is refused by the
// check that knows the language; without it a talker that knows nothing is taken. A summary
// has whole sentences of the language.
func TestExampleLanguages(t *testing.T) {
	const dir = "../examples/languages"
	out, problems, code := within(t, dir, nil, "run", "moon.edn", "--transcript")
	require.Zero(t, code, problems)
	assert.Equal(t, "La luna gira intorno alla Terra e il Sole ne illumina sempre la metà. Per esempio, al primo quarto vediamo di lato la parte che è chiara.\n", out)
	for _, refused := range []string{"the text ends with the word ma", "the text is in Spanish, not in Italian", "the text says no more than that it does not know", "the text has become a list"} {
		assert.Contains(t, problems, refused)
	}
	out, problems, code = within(t, dir, nil, "run", "bees.edn")
	require.Zero(t, code, problems)
	assert.Equal(t, "Il sig. Rossi alleva api da molti anni e ne è molto contento.\n", out)
	out, problems, code = within(t, dir, nil, "doctor")
	require.Zero(t, code, "%s%s", out, problems)
	assert.Regexp(t, `language it +ok +from it\.edn`, out)

	without := t.TempDir()
	bin, err := filepath.Abs("../bin")
	require.NoError(t, err)
	for _, name := range []string{"ferment.hcl", "moon.edn", "bees.edn", "talkers.edn"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte(`language_packs = ["it.edn"]`), nil)
		require.NoError(t, os.WriteFile(filepath.Join(without, name), text, 0o600))
	}
	out, problems, code = within(t, without, []string{"FERMENT_EXAMPLE_BIN=" + bin}, "run", "moon.edn")
	require.Zero(t, code, problems)
	assert.Equal(t, "Mi dispiace, non lo so.\n", out)
	out, problems, code = within(t, without, []string{"FERMENT_EXAMPLE_BIN=" + bin}, "run", "bees.edn")
	require.Zero(t, code, problems)
	assert.Equal(t, "Rossi alleva api da molti anni e ne è molto contento.\n", out)
}

// EMB-002, EMB-009, RTE-002: examples/models without a server and an empty
// environment.
func TestExampleModels(t *testing.T) {
	for name, want := range map[string]struct{ answer, report string }{
		"solve.edn":   {"It takes 17 boxes: 100 / 6 is 16 with 4 left over, and those need a box too.\n", "model/voice"},
		"summary.edn": {extracted, "model/hasty: eval/must-failed"},
		"grade.edn":   {"{:criteria {:right 1M :short 1M :why 1M} :score 1M}\n", "judge/rules"},
	} {
		out, problems, code := inModels(t, nil, "run", name, "--report")
		assert.Zero(t, code, problems)
		assert.Equal(t, want.answer, out, name)
		assert.Contains(t, strings.Join(strings.Fields(problems), " "), want.report, name)
	}
	out, problems, code := inModels(t, nil, "validate")
	assert.Zero(t, code, "%s%s", out, problems)
}

// The same plans with a server, which has the key and answers each of them; then
// with one that is gone.
func TestExampleModelsWithAServer(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/ps" { // asks a server like Ollama for its window
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		text := "It takes 17 boxes."
		if bytes.Contains(body, []byte("criteria")) {
			asked := regexp.MustCompile(`the score is (\d+)\..*"verdict": "([0-9a-f]+)"`).FindSubmatch(bytes.ReplaceAll(body, []byte(`\"`), []byte(`"`)))
			if asked != nil {
				text = fmt.Sprintf(`{"verdict":%q,"criteria":{"right":{"reason":"it is","score":10},"why":{"reason":"almost","score":9},"attention-check":{"reason":"as asked","score":%s}}}`, asked[2], asked[1])
			}
		}
		piece, _ := json.Marshal(text)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", piece)
	}))
	defer server.Close()
	env := []string{"MODEL_URL=" + server.URL + "/v1", "MODEL_NAME=sample", "MODEL_KEY=the-key"}
	for _, want := range []struct{ name, answer, report string }{
		{"solve.edn", "It takes 17 boxes.\n", "compatible/any"},
		{"summary.edn", extracted, "compatible/any: eval/must-failed"}, // the source has no 17
		{"grade.edn", "{:criteria {:right 1M :short 1M :why 0.9M} :score 0.98M}\n", "judge/rubric"},
	} {
		out, problems, code := inModels(t, env, "run", want.name, "--report")
		assert.Zero(t, code, problems)
		assert.Equal(t, want.answer, out, want.name)
		assert.Contains(t, problems, want.report, want.name)
	}
	assert.Equal(t, slices.Repeat([]string{"/v1/chat/completions Bearer the-key"}, 4), asked)

	server.Close()
	out, problems, code := inModels(t, env, "run", "summary.edn", "--report")
	assert.Zero(t, code, problems)
	assert.Equal(t, extracted, out)
	assert.Contains(t, problems, "compatible/any: provider/unavailable")
	out, problems, code = inModels(t, env, "run", "solve.edn")
	assert.Equal(t, 1, code, "nothing pretends to be a model: %s%s", out, problems)
	assert.Contains(t, problems, "provider/unavailable")
}

// CNV-013: examples/chat without a server. The answer has what the engine, the solver and
// the rules that check the move returned.
func TestExampleChat(t *testing.T) {
	const dir = "../examples/chat"
	out, problems, code := within(t, dir, nil, "run", "chat.edn", "--effects", "db/read,db/write", "--report")
	require.Zero(t, code, problems)
	assert.Contains(t, out, `"move":"d1d8"`)
	assert.Contains(t, out, `{"model":[-1,2],"status":"sat"}`)
	for _, row := range []string{"chess/engine schema-valid ok, legal-move ok", "sat/solver", "context/get-node"} {
		assert.Contains(t, strings.Join(strings.Fields(problems), " "), row)
	}
	for _, name := range []string{"validate", "doctor"} {
		out, problems, code := within(t, dir, nil, name)
		assert.Zero(t, code, "%s%s", out, problems)
	}
	out, problems, code = within(t, dir, nil, "fmt", "--check", "--diff", "ferment.hcl")
	assert.Zero(t, code, "%s%s", out, problems)
}
