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
	assert.Empty(t, kept(t, &h))
	at := time.Unix(1, 0)
	_, err := h.Record(t.Context(), at, &journal.HostEvent{Details: edn.MustMap()})
	require.Error(t, err)
	for range 2500 {
		_, err := h.Record(t.Context(), at, &journal.HostEvent{Event: "quality/swap", CapID: "t/a", Intent: "x/y", Details: edn.MustMap()})
		require.NoError(t, err)
	}
	all := kept(t, &h)
	require.Len(t, all, 1000)
	for i, rec := range all {
		assert.Equal(t, 1501+i, rec.Seq)
	}
	assert.Equal(t, `{:at #inst "1970-01-01T00:00:01.000Z" :cap/id :t/a :details {} :epoch 1 :event :quality/swap :intent :x/y :kind :host/event :run "host" :seq 1501 :v 1}`, all[0].Value().String())
}

// kept returns the events that a stream has.
func kept(t *testing.T, h journal.HostStream) []journal.Record {
	t.Helper()
	records, err := h.Read(t.Context(), journal.HostQuery{View: journal.ViewEvents, After: -1, Limit: 5000})
	require.NoError(t, err)
	return records
}

// AUTH-011: the events, which diag/read permits, have no record of the audit trail, for which
// admin/audit is needed.
func TestEventsHaveNoAuditRecords(t *testing.T) {
	for _, b := range []journal.Body{
		&journal.AuthEvent{Event: "auth/denied"}, &journal.AuthEvent{Event: "auth/login"}, &journal.ConfigReloaded{},
		&journal.AdminAction{}, &journal.SessionAction{}, &journal.ActRejected{}, &journal.ActFinished{},
	} {
		assert.Equal(t, []bool{false, true}, []bool{journal.ViewEvents.Has(b), journal.ViewAudit.Has(b)}, "%T", b)
	}
	for _, b := range []journal.Body{&journal.HostEvent{}, &journal.PluginTransition{}} {
		assert.Equal(t, []bool{true, false}, []bool{journal.ViewEvents.Has(b), journal.ViewAudit.Has(b)}, "%T", b)
	}
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

// HTTP-009: a position that the stream has dropped is :stream/gone.
func TestHostCursorThatIsGone(t *testing.T) {
	const hostKept = 1000
	var h journal.Host
	for range hostKept + 2 {
		_, err := h.Record(t.Context(), time.Unix(1, 0), &journal.HostEvent{Event: "x", Details: edn.MustMap()})
		require.NoError(t, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := journal.HostAfter(over, &h, journal.ViewEvents, "host.1000", 10)
	require.Nil(t, err)
	require.Len(t, got.Records, 2)
	assert.Equal(t, 1001, got.Records[0].Seq)
	assert.Equal(t, journal.HostPage{Records: got.Records, Cursor: "host.1002"}, got)
	for _, cursor := range []string{"host.0", "host.1"} {
		_, err := journal.HostAfter(over, &h, journal.ViewEvents, cursor, 10)
		require.NotNil(t, err, cursor)
		assert.Equal(t, "stream/gone", err.Type, cursor)
	}
}
