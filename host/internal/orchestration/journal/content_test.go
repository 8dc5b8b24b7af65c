package journal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TEL-001, EVAL-061: a transcript has the inputs and outputs of attempts, their hashes, or
// neither; everything else is the same. Remediations have no content.
func TestContentOfTranscripts(t *testing.T) {
	records := failover()
	whole := journal.ContentFull.Transcript(records)
	assert.Equal(t, journal.Transcript(records).String(), whole.String())
	hashed, off := journal.ContentHash.Transcript(records), journal.ContentOff.Transcript(records)
	require.Equal(t, whole.Len(), hashed.Len())
	require.Equal(t, whole.Len(), off.Len())
	contents := 0
	for i := range whole.Len() {
		w, _ := whole.Nth(i)
		h, _ := hashed.Nth(i)
		o, _ := off.Nth(i)
		for _, key := range []string{"input", "out"} {
			v, ok := w.Get(edn.K(key))
			assert.False(t, o.HasKey(key), key)
			if !ok {
				assert.False(t, h.HasKey(key), key)
				continue
			}
			contents++
			assert.Equal(t, edn.Text(edn.Hash(v)).String(), h.Key(key).String(), key)
		}
		rest := func(v edn.Value) string { return v.Dissoc(edn.K("input"), edn.K("out")).String() }
		assert.Equal(t, rest(w), rest(h))
		assert.Equal(t, rest(w), rest(o))
	}
	assert.Positive(t, contents)

	s := &story{records: failover()[:12]}
	s.add("[0]", "n0", &journal.HostEvent{
		Event: "quality/swap", CapID: "a/one", Intent: "a/b",
		Details: edn.MustRead(`{:path [0] :node "n0" :attempt 3 :action :swap}`),
	})
	for _, c := range []journal.Content{journal.ContentHash, journal.ContentOff} {
		kept := 0
		for e := range c.Transcript(s.records).Elems() {
			if e.Key("op").String() == ":quality" {
				assert.True(t, e.Key("input").IsMap(), "%s", e)
				kept++
			}
		}
		assert.Positive(t, kept)
	}
}
