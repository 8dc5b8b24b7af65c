package otlp

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// TEL-007: a collector that receives nothing is one line per signal and minute, with what
// was lost since the line before, and one line when it is back.
func TestOutageIsOneLineAMinute(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1760000000, 0)
	o := outage{log: hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true}), now: func() time.Time { return now }}
	lines := func() (all []string) {
		for line := range strings.Lines(log.String()) {
			all = append(all, strings.TrimSpace(line))
		}
		log.Reset()
		return all
	}
	refused := errors.New("refused")
	for range 59 {
		o.note("spans", 2, refused)
		o.note("events", 1, refused)
		now = now.Add(time.Second)
	}
	assert.Equal(t, []string{
		"[WARN]  the collector did not receive spans: count=2 error=refused",
		"[WARN]  the collector did not receive events: count=1 error=refused",
	}, lines())
	now = now.Add(time.Second)
	o.note("spans", 2, refused)
	assert.Equal(t, []string{"[WARN]  the collector did not receive spans: count=118 error=refused"}, lines())
	for range 2 {
		o.note("spans", 2, nil)
	}
	assert.Equal(t, []string{"[INFO]  the collector receives spans again: lost=120"}, lines())
	o.note("spans", 3, refused)
	assert.Equal(t, []string{"[WARN]  the collector did not receive spans: count=3 error=refused"}, lines())
}
