package derive

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-071, WS-110, WS-115: a head of a node that became another kind is gone like one whose path
// is. The directories above it are made again without it, and nothing is left to do. It is
// there again when the node is.
func TestHeadOfAnotherKind(t *testing.T) {
	before := map[string]string{"d/x": "one", "d/y": "two"}
	for name, c := range map[string]struct {
		after     map[string]string
		path, typ string
	}{
		"link":            {map[string]string{"d/x": "link:y", "d/y": "two"}, "d/x", "t"},
		"directory":       {map[string]string{"d/x/z": "one", "d/y": "two"}, "d/x", "t"},
		"file":            {map[string]string{"d": "was a directory"}, "d", "t"},
		"type of folders": {map[string]string{"d": "was a directory"}, "d", "all"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, before)
			w.whole(nil, store.BindsNode)
			every := func(r *SynthesizeRequest) { r.Children, r.Policy = store.ChildrenSkip, edn.K("summarize") }
			w.synthesize("d", store.EveryType, every)
			w.synthesize("", store.EveryType, every)
			was := w.heads()
			w.scan(c.after)
			state, reasons := w.state(c.path, c.typ)
			assert.Equal(t, store.Deleted, state)
			assert.Empty(t, reasons)
			out := w.regenerate("")
			assert.Zero(t, out.Counts.Skipped+out.Counts.Failed, "%v", out.Items)
			for key, h := range w.present() {
				assert.Contains(t, h, string(store.Fresh), key)
			}
			above, _ := w.text("", "all")
			assert.NotContains(t, above, "one")
			assert.Empty(t, w.regenerate("", func(r *RegenerateRequest) { r.Force = true }).AuthoredStale)
			assert.Empty(t, w.regenerate("").Items)
			w.valid("")
			require.Equal(t, 0, w.mark(func(tx *store.Tx) (int, error) { return tx.Invalidate(c.path, false, []string{c.typ}) }))
			w.scan(before)
			w.regenerate("")
			assert.Equal(t, was, w.heads())
		})
	}
}
