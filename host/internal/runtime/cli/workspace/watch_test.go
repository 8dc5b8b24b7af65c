package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func delta(text string) edn.Value {
	return edn.MustMap(edn.K("event"), edn.K("delta"), edn.K("value"), edn.MustRead(text))
}

var changes = []edn.Value{
	delta(`{:kind :workspace :seq 1 :event :ready :commit 41}`),
	delta(`{:kind :workspace :seq 2 :event :change :commit 42 :added ["n w.go" "x\u001B[2J"] :modified ["src/a.go"] :removed ["old"] :renamed [{:from "a" :to "b"}] :ancestors ["src" "."] :root "` + node1 + `"}`),
	delta(`{:kind :workspace :seq 3 :event :heartbeat :commit 42}`),
	delta(`{:kind :workspace :seq 4 :event :regenerated :commit 43 :report {:items [{:path "src" :frame/type "digest" :new "` + frame1 + `" :reason :child-changed}]}}`),
	delta(`{:kind :workspace :seq 5 :event :error :error {:type :agent/unknown :message "there is no agent"}}`),
}

// WS-163, WS-182: watch prints one event per change for people, and one value per
// line for programs.
func TestWatch(t *testing.T) {
	e := answers(`{:changes 1}`)
	e.events = changes
	got := newDesk(t).run(e, "text", "workspace", "watch", "--debounce", "1s", "--batch", "20ms", "--after", "40",
		"--regenerate", "digest", "--up", "root", "--on-change", "my/hook", "--max-changes", "1")
	require.NoError(t, got.err)
	assert.Equal(t, []string{`{:after 40 :batch 20 :debounce 1000 :max-changes 1 :on-change {:intent :my/hook} :regenerate {:frame/types ["digest"] :up :root}}`}, e.inputs())
	assert.Equal(t, `watching from transaction 41
change  transaction 42  n1-b3-9c0a51b2c3d4
  + n w.go
  + "x\x1b[2J"
  ~ src/a.go
  - old
  > a -> b
regenerated  transaction 43
path  type    frame               reason
src   digest  f1-b3-51c2d3e4f506  child-changed
error  there is no agent (:agent/unknown)
`, got.stdout)
	assert.Equal(t, "1 change\n", got.stderr)

	e = answers(`{:changes 1}`)
	e.events = changes
	got = newDesk(t).run(e, "json", "workspace", "watch")
	require.NoError(t, got.err)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, len(changes))
	for _, line := range lines {
		v, err := edn.ReadJSON([]byte(line))
		require.NoError(t, err)
		assert.True(t, v.HasKey("event"))
		assert.False(t, v.HasKey("kind"), "of the stream, not of the event")
	}
}

// WS-165: -o lsp prints the notification of the language server protocol with the
// framing of JSON-RPC, and nothing else.
func TestWatchLSP(t *testing.T) {
	e := answers(`{:changes 1}`)
	e.events = changes
	d := newDesk(t)
	got := d.run(e, "text", "workspace", "watch", "-o", "lsp")
	require.NoError(t, got.err)
	var length int
	_, err := fmt.Sscanf(got.stdout, "Content-Length: %d\r\n\r\n", &length)
	require.NoError(t, err)
	_, body, _ := strings.Cut(got.stdout, "\r\n\r\n")
	require.Len(t, body, length, "one notification")
	var n struct {
		JSONRPC, Method string
		ID              any
		Params          struct{ Changes []fileChange }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &n))
	assert.Equal(t, "2.0", n.JSONRPC)
	assert.Equal(t, "workspace/didChangeWatchedFiles", n.Method)
	assert.Nil(t, n.ID)
	root := "file://" + d.root + "/"
	assert.Equal(t, []fileChange{
		{root + "a", fileDeleted}, {root + "b", fileCreated}, {root + "n%20w.go", fileCreated}, {root + "old", fileDeleted},
		{root + "src/a.go", fileChanged}, {root + "x%1B%5B2J", fileCreated},
	}, n.Params.Changes)
}

// WS-165: both paths of a renaming are also listed as added and removed, and each has one
// entry.
func TestWatchLSPOfRenaming(t *testing.T) {
	e := answers(`{:changes 1}`)
	e.events = []edn.Value{delta(`{:kind :workspace :event :change :commit 2 :added ["b"] :removed ["a"] :modified ["."]
		:renamed [{:from "a" :to "b"}]}`)}
	d := newDesk(t)
	got := d.run(e, "text", "workspace", "watch", "-o", "lsp")
	require.NoError(t, got.err)
	_, body, _ := strings.Cut(got.stdout, "\r\n\r\n")
	assert.Equal(t, 1, strings.Count(body, "/a\""), body)
	assert.Equal(t, 1, strings.Count(body, "/b\""), body)
}

// WS-002, WS-165: names that are not text, or look as if they were quoted, are told apart,
// and their URIs name the files.
func TestWatchOfNamesThatAreNotText(t *testing.T) {
	e := answers(`{:changes 1}`)
	e.events = []edn.Value{delta(`{:kind :workspace :event :change :commit 2 :added [{:path/b64 "_iBxIz8lLnR4dA"} "\"\\xfe\""]
		:renamed [{:from {:path/b64 "_w"} :to {:path/b64 "bmwKLnR4dA"}}]}`)}
	d := newDesk(t)
	got := d.run(e, "text", "workspace", "watch", "-o", "lsp")
	require.NoError(t, got.err)
	_, body, _ := strings.Cut(got.stdout, "\r\n\r\n")
	var n struct {
		Params struct{ Changes []fileChange }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &n))
	root := "file://" + d.root + "/"
	assert.Equal(t, []fileChange{
		{root + "%22%5Cxfe%22", fileCreated}, {root + "%FE%20q%23%3F%25.txt", fileCreated},
		{root + "%FF", fileDeleted}, {root + "nl%0A.txt", fileCreated},
	}, n.Params.Changes)
	got = newDesk(t).run(e, "text", "workspace", "watch")
	assert.Equal(t, `change  transaction 2
  + "\xfe q#?%.txt"
  + "\"\\xfe\""
  > "\xff" -> "nl\n.txt"
`, got.stdout)
}

// CLI-004, WS-163: a watch whose call is cut goes on behind the last transaction
// that it has printed, with growing delay, until it is interrupted; an error of the
// workspace ends it.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		e := &engine{events: changes[:2]}
		e.answer = func(string, edn.Value) (edn.Value, *contract.Error) {
			e.events = nil
			if len(e.requests) == 4 {
				cancel(interrupted)
			}
			if len(e.requests) == 2 {
				return edn.Nil(), contract.Errorf("store/locked", "the process before still has the store")
			}
			return edn.Nil(), contract.Errorf("runtime/crashed", "the plugin ended")
		}
		d := newDesk(t)
		got := d.runIn(ctx, e, "text", "workspace", "watch")
		assert.ErrorIs(t, got.err, interrupted)
		assert.Equal(t, []string{`{}`, `{:after 42}`, `{:after 42}`, `{:after 42}`}, e.inputs())
		assert.Equal(t, 1, strings.Count(got.stdout, "change"), "no event twice")
		assert.Contains(t, got.stderr, "goes on in 200 ms")
		assert.Contains(t, got.stderr, "goes on in 400 ms")
	})
	e := fails(contract.Errorf("watch/root-lost", "the directory was removed"))
	e.events = changes
	got := newDesk(t).run(e, "text", "workspace", "watch")
	assert.Equal(t, 3, got.code)
	assert.Len(t, e.requests, 1)
	e = fails(contract.Errorf("store/locked", "another process works on the workspace"))
	e.events = changes
	assert.Equal(t, 6, newDesk(t).run(e, "text", "workspace", "watch").code, "it was not cut before")
	e = fails(contract.Errorf("runtime/crashed", "the plugin ended"))
	assert.Equal(t, 1, newDesk(t).run(e, "text", "workspace", "watch").code, "nothing was watched yet")
}
