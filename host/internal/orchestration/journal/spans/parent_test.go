package spans_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/edn"
)

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// HTTP-011: what a trace context of a caller is; one that is not in the form of the
// recommendation is none.
func TestParseTraceParent(t *testing.T) {
	p, ok := spans.ParseTraceParent(caller)
	require.True(t, ok)
	assert.Equal(t, caller, p.TraceParent(p.Sampled))
	for text, sampled := range map[string]bool{
		strings.TrimSuffix(caller, "1") + "0":     false,
		strings.TrimSuffix(caller, "01") + "fe":   false,
		"cc" + caller[2:]:                         true,
		"cc" + caller[2:] + "-of a later version": true,
	} {
		p, ok := spans.ParseTraceParent(text)
		assert.True(t, ok, text)
		assert.Equal(t, sampled, p.Sampled, text)
	}
	zero := strings.Repeat("0", 32)
	for _, text := range []string{
		"", "00", caller[1:], caller + "-x", "ff" + caller[2:], "cc" + caller[2:] + "x", strings.ToUpper(caller),
		"00-" + zero + caller[35:], caller[:36] + zero[:16] + caller[52:], strings.Replace(caller, "-", "_", 1), strings.Replace(caller, "a", "g", 1),
	} {
		_, ok := spans.ParseTraceParent(text)
		assert.False(t, ok, text)
	}
	rapid.Check(t, func(t *rapid.T) { // no text panics, and one that is accepted means the same again
		text := rapid.StringMatching(`[0-9a-f]{2}-[0-9a-fA-F]{30,33}-[0-9a-f]{16}-[0-9a-f]{2}(-x)?`).Draw(t, "text")
		if p, ok := spans.ParseTraceParent(text); ok {
			again, ok := spans.ParseTraceParent(p.TraceParent(p.Sampled))
			if !ok || again != p {
				t.Fatalf("%s is read as %v, then as %v", text, p, again)
			}
		}
	})
}

// HTTP-011, TEL-007: a run is in the trace of its caller, below its span, and so is all
// that it does; plugins get the same contexts. An epoch that resumes it has a trace of
// its own, with a link.
func TestARunJoinsTheTraceOfItsCaller(t *testing.T) {
	p, _ := spans.ParseTraceParent(caller)
	s := newStory()
	s.accept()
	trace := edn.MustMap(edn.K("parent"), edn.Text(caller))
	s.records[0].Body.(*journal.RunAccepted).Trace = trace
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.epoch++
	s.put("", &journal.RunResumed{Host: "h", Boot: "b", Why: journal.ResumedCrash})
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.finish("[0]", 1, "ok", "")
	s.put("", &journal.RunFinished{Status: "completed"})
	all := read(s.records, journal.ContentHash).Spans
	require.Len(t, all, 6)
	path := edn.MustRead("[0]")
	for i, span := range all {
		epoch := 1 + i/3
		switch {
		case strings.HasPrefix(span.Name, "invoke_workflow"):
			assert.Equal(t, spans.CallContext("run_1", epoch, trace, edn.Vector(), 0), span.Context, span.Name)
			assert.Equal(t, epoch == 1, span.Parent == p.Span)
			assert.Len(t, span.Links, epoch-1)
		case strings.HasPrefix(span.Name, "chat"):
			assert.Equal(t, spans.CallContext("run_1", epoch, trace, path, 1), span.Context, span.Name)
		}
		assert.Equal(t, epoch == 1, span.Trace == p.Trace, span.Name)
	}
}
