package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/edn"
)

// putInput puts the frame of an input by the agent writer.
func putInput(t testing.TB, s *Store, input string, change ...func(*PutRequest)) (*Put, error) {
	t.Helper()
	r, err := PutFrom(edn.MustRead(input))
	if err != nil {
		return nil, err
	}
	r.Agent = "writer"
	for _, c := range change {
		c(&r)
	}
	var p *Put
	_, err = s.Update(background, "tester", func(tx *Tx) (err error) {
		p, err = tx.Put(r)
		return err
	})
	return p, err
}

// WS-084, WS-085, WS-200, WS-220: what a request may contain, and the error for
// what it may not.
func TestPutRequests(t *testing.T) {
	s := open(t, create(t, id.B3))
	typed(t, func() error { _, err := putInput(t, s.Store, `{:path "a" :frame/type "t" :content ""}`); return err }(), "workspace/unscanned")
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1", "gone": ""}))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "2"}))
	base, err := putInput(t, s.Store, `{:path "a" :frame/type "note" :content "base"}`)
	require.NoError(t, err)
	frame := base.Frame.ID.String()
	other := id.B3.Generated("", id.ID{}, "", "", 1).String()
	old := id.B3.Node("b", id.File, id.B3.Bytes([]byte("1"))).String()
	now := id.B3.Node("b", id.File, id.B3.Bytes([]byte("2"))).String()
	entries := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ` "k%d" %d`, i, i)
		}
		return b.String()
	}
	for i, c := range []struct{ input, want string }{
		{`{:path "a" :frame/type "t" :content ""}`, ""},
		{`{:path "a" :frame/type "t" :content/b64 "_w"}`, ""},
		{`{:path "a" :frame/type "t" :content/b64 "/w=="}`, ""},
		{`{:path "a" :frame/type "t" :content "x" :basis :node}`, ""},
		{`{:path "a" :frame/type "t" :content "x" :basis [:frame "` + frame + `"]}`, ""},
		{`{:path "a" :frame/type "t" :content "x" :basis [:both "` + frame + `"] :meta {:ticket "T-9" "n" 1.5 :ok? true}}`, ""},
		{`{:path "a" :frame/type "a.B_9:/-" :content "x" :content/type "text/markdown"}`, ""},
		{`{:node/id "` + now + `" :frame/type "t" :content "x"}`, ""},
		{`{:path "a" :frame/type "t" :content "` + strings.Repeat("x", 100) + `" :meta {` + entries(32) + `}}`, ""},
		// shape
		{`{:frame/type "t" :content "x"}`, "input/invalid"},
		{`{:path "a" :content "x"}`, "input/invalid"},
		{`{:path "a" :frame/type :t :content "x"}`, "input/invalid"},
		{`{:path "a" :frame/type "t"}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :content/b64 "eA"}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content 1}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content/b64 1}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content/b64 "!"}`, "frame/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :content/type 1}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :basis :frame}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :basis [:frame]}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :basis [:both "` + frame + `" 1]}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :basis [:frame "` + now + `"]}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :basis [:child "` + frame + `"]}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :meta []}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :frame/id "x"}`, "input/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :expect/head 1}`, "input/invalid"},
		// node
		{`{:path "none" :frame/type "*" :content "x"}`, "path/not-in-tree"},
		{`{:path "gone" :frame/type "*" :content "x"}`, "node/deleted"},
		{`{:node/id "01234567" :frame/type "*" :content "x"}`, "node/not-found"},
		// type, size, metadata
		{`{:path "a" :frame/type "*" :content "` + strings.Repeat("x", 101) + `"}`, "frame/type-invalid"},
		{`{:path "a" :frame/type "" :content "x"}`, "frame/type-invalid"},
		{`{:path "a" :frame/type "ä" :content "x"}`, "frame/type-invalid"},
		{`{:path "a" :frame/type "t" :content "` + strings.Repeat("x", 101) + `" :meta {:model 1}}`, "frame/too-large"},
		{`{:path "a" :frame/type "t" :content "x" :meta {:agent/id "reader"}}`, "frame/invalid"},
		{`{:path "a" :frame/type "t" :content "x" :meta {:agent/id "writer"}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {"usage" 1} :basis [:frame "` + other + `"]}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {:a [1]}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {:a {}}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {1 2}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {"` + strings.Repeat("k", 65) + `" 1}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {:a "` + strings.Repeat("v", 8<<10) + `"}}`, "frame/metadata-policy"},
		{`{:path "a" :frame/type "t" :content "x" :meta {` + entries(33) + `}}`, "frame/metadata-policy"},
		// basis
		{`{:node/id "` + old + `" :frame/type "t" :content "x" :frame/id "` + other + `"}`, "frame/basis-mismatch"},
		{`{:path "a" :frame/type "t" :content "x" :basis [:both "` + other + `"] :frame/id "` + other + `"}`, "frame/basis-mismatch"},
		// expected ids
		{`{:path "a" :frame/type "t" :content "new" :frame/id "` + other + `" :expect/head "` + other + `"}`, "frame/id-mismatch"},
		{`{:path "a" :frame/type "t" :content "new" :frame/id "` + frame + `"}`, "frame/immutable"},
		{`{:path "a" :frame/type "note" :content "new" :expect/head "` + other + `"}`, "head/conflict"},
		{`{:path "a" :frame/type "note" :content "new" :expect/head nil}`, "head/conflict"},
		{`{:path "a" :frame/type "note" :content "new" :expect/head "` + frame + `"}`, ""},
	} {
		_, err := putInput(t, s.Store, c.input, func(r *PutRequest) { r.MaxFrame = 100 })
		assert.Equal(t, c.want, errorType(err), "%d %.120s: %v", i, c.input, err)
	}
}

// WS-063, WS-074: the agent and the media type are part of the metadata.
func TestMetadataOfFrames(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	p, err := putInput(t, s.Store, `{:path "a" :frame/type "t" :content "x" :content/type "text/markdown" :meta {:ticket "T-9"}}`)
	require.NoError(t, err)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		f, err := v.Frame(background, p.Frame.ID)
		require.NoError(t, err)
		assert.Equal(t, `{:agent/id "writer" :content/type "text/markdown" :ticket "T-9"}`, f.Meta.String())
		return nil
	}))
}

// WS-073: the head that is expected can be that of an earlier state, which is
// what a reader by path was given.
func TestExpectedHeadOfAnEarlierState(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	first, err := putInput(t, s.Store, `{:path "a" :frame/type "t" :content "1"}`)
	require.NoError(t, err)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2"}))
	expecting := `{:path "a" :frame/type "t" :content "%s" :expect/head "` + first.Frame.ID.String() + `"}`
	_, err = putInput(t, s.Store, fmt.Sprintf(expecting, "2"))
	require.NoError(t, err)
	_, err = putInput(t, s.Store, fmt.Sprintf(expecting, "3"))
	typed(t, err, "head/conflict")
}

// WS-230: a text has 1 MiB at the most unless the configuration says more. The schemas of
// the plugin have the hard caps.
func TestLargestFrame(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	large := strings.Repeat("x", 1<<20+1)
	_, err := putInput(t, s.Store, `{:path "a" :frame/type "t" :content "`+large+`"}`)
	typed(t, err, "frame/too-large")
	_, err = putInput(t, s.Store, `{:path "a" :frame/type "t" :content "`+large+`"}`,
		func(r *PutRequest) { r.MaxFrame = 2 << 20 })
	require.NoError(t, err)
}
