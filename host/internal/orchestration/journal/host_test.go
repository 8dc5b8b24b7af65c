package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-009: the stream of the host continues its numbering when it drops
// records, and rejects invalid records.
func TestHostStream(t *testing.T) {
	var h journal.Host
	assert.Empty(t, h.Records())
	at := time.Unix(1, 0)
	require.Error(t, h.Record(at, &journal.HostEvent{Details: edn.MustMap()}))
	for range 2500 {
		require.NoError(t, h.Record(at, &journal.HostEvent{Event: "quality/swap", CapID: "t/a", Intent: "x/y", Details: edn.MustMap()}))
	}
	all := h.Records()
	require.Len(t, all, 1000)
	for i, rec := range all {
		assert.Equal(t, 1501+i, rec.Seq)
	}
	assert.Equal(t, `{:at #inst "1970-01-01T00:00:01.000Z" :cap/id :t/a :details {} :epoch 1 :event :quality/swap :intent :x/y :kind :host/event :run "host" :seq 1501 :v 1}`, all[0].Value().String())
}

// EVAL-061: a remediation is placed after the attempts that caused it.
func TestTranscriptTellsDeeds(t *testing.T) {
	s := &story{records: failover()[:12]}
	s.add("[0]", "n0", &journal.HostEvent{
		Event: "quality/swap", CapID: "a/one", Intent: "a/b",
		Details: edn.MustRead(`{:path [0] :node "n0" :attempt 3 :action :swap :passes 4 :samples 10 :to :a/two}`),
	})
	s.add("[1]", "n1", failover()[12].Body)
	entries := journal.Transcript(s.records)
	require.Equal(t, 4, entries.Len())
	last, _ := entries.Nth(3)
	assert.Equal(t, `{:attempt 3 :cap/id :a/one :input {:action :swap :event :quality/swap :passes 4 :samples 10 :to :a/two} :intent :a/b :node "n0" :op :quality :path [0]}`, last.String())
}

// HTTP-009: a cursor resumes the host stream, a dropped position is
// :stream/gone, and After blocks until the next record.
func TestHostCursor(t *testing.T) {
	const hostKept = 1000
	var h journal.Host
	event := func() {
		require.NoError(t, h.Record(time.Unix(1, 0), &journal.HostEvent{Event: "x", Details: edn.MustMap()}))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	none, at, err := h.After(over, "")
	require.Nil(t, err)
	assert.Empty(t, none)
	assert.Equal(t, "host.0", at)
	go event()
	got, at, err := h.After(t.Context(), at)
	require.Nil(t, err)
	assert.Len(t, got, 1)
	assert.Equal(t, "host.1", at)
	for range hostKept + 1 {
		event()
	}
	got, at, err = h.After(over, "host.1000")
	require.Nil(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, 1001, got[0].Seq)
	assert.Equal(t, h.Cursor(), at)
	got, _, err = h.After(over, "")
	require.Nil(t, err)
	assert.Len(t, got, hostKept)
	for cursor, typ := range map[string]string{
		"host.0":    "stream/gone",
		"host.1":    "stream/gone",
		"host.2000": "stream/cursor-ahead",
		"host.-1":   "stream/bad-cursor",
		"host.01":   "stream/bad-cursor",
		"x":         "stream/bad-cursor",
	} {
		_, _, err := h.After(over, cursor)
		require.NotNil(t, err, cursor)
		assert.Equal(t, typ, err.Type, cursor)
	}
}
