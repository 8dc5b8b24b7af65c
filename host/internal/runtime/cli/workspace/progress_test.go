package workspace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// shownBy returns what a form of progress prints for 1,000 events in 10 s.
func shownBy(form string, d time.Duration, n int) string {
	now := time.Unix(1000, 0)
	var out bytes.Buffer
	p := newProgress(form, &out, "scan", func() time.Time { return now })
	for i := range n {
		now = now.Add(d / time.Duration(n))
		p.show(edn.MustMap(edn.K("phase"), edn.K("hash"), edn.K("done"), edn.Int(int64(i+1)), edn.K("total"), edn.Int(int64(n)), edn.K("unit"), edn.K("files")))
	}
	p.end()
	return out.String()
}

// WS-183: a bar is redrawn at most 10 times a second and is removed at the end; plain
// progress is one line per 5 s; both end with the totals. Work that is over before
// that shows nothing off a terminal.
func TestProgress(t *testing.T) {
	bar := shownBy(progressBar, 10*time.Second, 1000)
	redraws := strings.Count(bar, "\r\x1b[Khash")
	assert.LessOrEqual(t, redraws, 100)
	assert.GreaterOrEqual(t, redraws, 90)
	assert.Contains(t, bar, "hash  [############------------]  501/1,000 files  100/s  5s left")
	assert.True(t, strings.HasSuffix(bar, "\r\x1b[Kscan: hash 1,000 of 1,000 files in 10.0 s\n"), "%q", bar[len(bar)-80:])

	assert.Equal(t, "scan: hash 500 of 1,000 files\nscan: hash 1,000 of 1,000 files\nscan: hash 1,000 of 1,000 files in 10.0 s\n", shownBy(progressPlain, 10*time.Second, 1000))
	assert.Empty(t, shownBy(progressPlain, 4*time.Second, 100))
	assert.Empty(t, shownBy(progressNone, time.Hour, 100))
	lines := strings.Split(strings.TrimSpace(shownBy(progressJSON, time.Second, 5)), "\n")
	require.Len(t, lines, 5)
	assert.JSONEq(t, `{"phase":"hash","done":1,"total":5,"unit":"files"}`, lines[0])
}

// WS-183: progress comes from the events of the call only, and goes to standard
// error; --quiet and --progress none print nothing.
func TestProgressOfCalls(t *testing.T) {
	e := func() *engine {
		e := answers(`{:valid? true}`)
		e.events = []edn.Value{edn.MustRead(`{:event :progress :value {:phase :records :done 7}}`)}
		return e
	}
	got := newDesk(t).run(e(), "text", "workspace", "validate", "--progress", "json")
	assert.JSONEq(t, `{"phase":"records","done":7}`, got.stderr)
	for _, flag := range []string{"--progress=none", "--progress=plain", "--quiet"} {
		assert.Empty(t, newDesk(t).run(e(), "text", "workspace", "validate", flag).stderr, flag)
	}
}
