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

// TEL-007: a collector that does not receive a signal is one line per signal and minute,
// with what was dropped since the line before, and one line when it receives it again,
// also if that changes all the time.
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
	dropped := int64(0)
	for i := range int64(59) {
		dropped += 2
		o.note("spans", dropped, refused)
		o.note("events", i+1, refused)
		o.note("metrics", 0, refused)
		now = now.Add(time.Second)
	}
	assert.Equal(t, []string{
		"[WARN]  the collector did not receive spans: dropped=2 error=refused",
		"[WARN]  the collector did not receive events: dropped=1 error=refused",
		"[WARN]  the collector did not receive metrics: error=refused",
	}, lines())
	now = now.Add(time.Second)
	o.note("spans", 120, refused)
	assert.Equal(t, []string{"[WARN]  the collector did not receive spans: dropped=118 error=refused"}, lines())
	for range 2 {
		o.note("spans", 200, nil) // 80 found no room meanwhile
		o.note("metrics", 0, nil)
	}
	assert.Equal(t, []string{
		"[INFO]  the collector receives spans again: dropped=80",
		"[INFO]  the collector receives metrics again",
	}, lines())
	for i := range int64(29) {
		now = now.Add(time.Second)
		o.note("spans", 201+i, refused)
		now = now.Add(time.Second)
		o.note("spans", 201+i, nil)
	}
	assert.Empty(t, lines(), "within the minute of the last line")
	now = now.Add(2 * time.Second)
	o.note("spans", 230, refused)
	o.note("spans", 230, nil)
	assert.Equal(t, []string{
		"[WARN]  the collector did not receive spans: dropped=30 error=refused",
		"[INFO]  the collector receives spans again",
	}, lines())
}
