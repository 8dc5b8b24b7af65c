package derive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-147: a ticket carries everything between prepare and commit; a commit is
// refused if the basis is another one, and may be repeated.
func TestPlanMode(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "b": "1"})
	request := func(path string) GenerateRequest {
		return GenerateRequest{Caller: writer, Targets: []Target{{Path: path}}, Type: "t", Model: "m/x"}
	}
	all := request("")
	all.Recursive = true
	plan, err := w.Plan(background, all, edn.MustRead(`{:workspace "/w" :agent/id "writer"}`), func(in edn.Value, path string) edn.Value {
		return in.AssocKey("path", edn.Text(store.Shown(path)))
	})
	require.NoError(t, err)
	nodes := slices.Collect(plan.Key("nodes").Elems())
	require.Len(t, nodes, 4*3+1)
	var order []string
	for _, n := range nodes {
		if p, ok := n.Key("input").Key("path").AsString(); ok && n.Key("input").Key("phase").Equal(edn.K("prepare")) {
			order = append(order, p)
		}
	}
	assert.Equal(t, []string{"d/a", "b", "d", "."}, order)
	assert.Equal(t, `["commit-0"]`, nodes[6].Key("needs").String(), "d needs what is in it")
	assert.Equal(t, `["commit-1" "commit-2"]`, nodes[9].Key("needs").String())
	assert.Equal(t, `{:as :call-0 :cap/id :m/x :id "call-0" :input {:slot/path [:prepare-0 :input] :slot/system? true} :intent :context/summarize :op :call :requires {:result/type :value} :when {:not {:slot/path [:prepare-0 :frame/existing?]}}}`, nodes[1].String())
	assert.Empty(t, w.heads())
	assert.Empty(t, w.calls)

	p, err := w.Prepare(background, request("d/a"))
	require.NoError(t, err)
	assert.Nil(t, p.Existing)
	assert.Contains(t, first(p.Input.Key("text").AsString()), "Describe d/a: \n<data-")
	v, err := edn.Encode(p.Ticket)
	require.NoError(t, err)
	var ticket Ticket
	require.NoError(t, edn.Decode(edn.MustRead(v.String()), &ticket))
	ticket.Path = "d/a"
	commit := func(text string) (*store.Put, error) {
		put, _, err := w.Commit(background, CommitRequest{Caller: writer, Ticket: ticket, Text: text, Attribution: edn.MustRead(`{:cap/id :m/x :finish :stop :other 1}`)})
		return put, err
	}
	put, err := commit("an answer")
	require.NoError(t, err)
	assert.Equal(t, `{:attribution/source :caller :cap/id :m/x :finish :stop}`, attributionOf(put.Frame.Meta).String())
	is(t, "an answer|fresh", first(w.text("d/a", "t")), "fresh")
	again, err := commit("an answer")
	require.NoError(t, err)
	assert.Equal(t, []any{true, put.Frame.ID}, []any{again.Existing, again.Frame.ID})
	p, err = w.Prepare(background, request("d/a"))
	require.NoError(t, err)
	assert.Equal(t, put.Frame.ID, p.Existing.ID)
	w.edit("d/a", "2")
	_, err = commit("too late")
	typed(t, err, "frame/basis-mismatch")
	for _, change := range []func(*Ticket){func(t *Ticket) { t.Agent = "reader" }, func(t *Ticket) { t.Recipe = edn.Nil() }, func(t *Ticket) { t.Prompt = "x" }} {
		bad := ticket
		change(&bad)
		_, _, err := w.Commit(background, CommitRequest{Caller: writer, Ticket: bad, Text: "x"})
		typed(t, err, "input/invalid")
	}
	files := map[string]string{}
	for i := range MaxPlanTargets + 1 {
		files[fmt.Sprint("f", i)] = ""
	}
	w.scan(files)
	_, err = w.Plan(background, all, edn.MustMap(), func(in edn.Value, _ string) edn.Value { return in })
	typed(t, err, "limit/exceeded")
}

// WS-148: agents with different models work at the same time.
func TestTwoModelsAtOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "d/b": "1"})
	prompts := agent.BuiltIn()[0].Prompts
	w.agents = []agent.Agent{{ID: "one", Role: agent.Writer, Model: "p/one", Prompts: prompts}, {ID: "two", Role: agent.Writer, Model: "q/two", Prompts: prompts}}
	both := make(chan struct{}, 2)
	go2 := make(chan struct{})
	w.model = func(_ context.Context, c Call) (*Answer, error) {
		both <- struct{}{}
		if len(both) == 2 {
			close(go2)
		}
		<-go2
		return answer("by "+c.CapID, ""), nil
	}
	var all sync.WaitGroup
	for _, who := range []string{"one", "two"} {
		all.Go(func() {
			_, err := w.generate(func(r *GenerateRequest) { r.Caller, r.Model, r.Type = Caller{Agent: who}, "", "" })
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, []string{"by p/one", "by q/two"}, []string{first(w.text("d/a", "context-one")), first(w.text("d/a", "context-two"))})
}

// WS-144: without store_prompts no text of a prompt is in the log.
func TestDropPrompts(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1"})
	w.settings.DropPrompts = true
	w.mustGenerate(func(r *GenerateRequest) { r.Prompt = "SECRET PROMPT {content}" })
	b, err := os.ReadFile(filepath.Join(w.dir, "log", "00000001.seg"))
	require.NoError(t, err)
	assert.NotContains(t, string(b), "SECRET PROMPT")
	w.edit("d/a", "2")
	out := w.regenerate("")
	assert.Equal(t, "agent/prompt-missing", out.Items[0].Err.Type)
}
