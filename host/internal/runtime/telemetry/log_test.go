package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
)

// written is a log that timers write too.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func lines(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		out = append(out, fields)
	}
	return out
}

// TEL-001: lines that repeat faster than 10/s are folded into one with a
// count; other lines, such as those with another error, and audit lines, are all written.
func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out written
		log, _, flush := telemetry.NewLog(&out, false)
		for i := range 500 { // a plugin whose health flaps
			log.Named("plugin").Info("plugin", "plugin", "a", "from", "ready", "to", "degraded", "error", "no answer", "pid", i)
			log.Named("plugin").Info("plugin", "plugin", "a", "from", "degraded", "to", "ready")
			time.Sleep(time.Millisecond)
		}
		for _, failure := range []string{"no answer", "a full disk"} {
			log.Named("plugin").Info("plugin", "plugin", "b", "from", "ready", "to", "degraded", "error", failure)
		}
		for range 20 {
			log.Named("audit").Info("admin", "action", "admin/reload")
		}
		assert.Len(t, lines(t, out.String()), 10+10+2+20)
		time.Sleep(time.Second)
		synctest.Wait()
		all := lines(t, out.String())
		require.Len(t, all, 10+10+2+20+2)
		for _, last := range all[len(all)-2:] {
			assert.EqualValues(t, 490, last["repeated"], "%v", last)
			assert.Equal(t, "a", last["plugin"])
		}
		for range 12 {
			log.Info("ready")
		}
		flush()
		all = lines(t, out.String())
		assert.EqualValues(t, 2, all[len(all)-1]["repeated"], "what was held back is written at the end")
	})
}

// paused is a reader that reads nothing until it is told to.
type paused struct {
	written
	resume chan struct{}
}

func (p *paused) Write(line []byte) (int, error) {
	<-p.resume
	return p.written.Write(line)
}

// TEL-001, OPS-004: a log whose reader has stopped delays the host once, by a second. What is logged
// until the reader goes on is lost and counted.
func TestAPausedReaderStopsNothing(t *testing.T) {
	for _, text := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			out := paused{resume: make(chan struct{})}
			log, _, flush := telemetry.NewLog(&out, text)
			begun := time.Now()
			for i := range 100 {
				log.Info("step", "of", i)
			}
			assert.Equal(t, time.Second, time.Since(begun))
			out.resume <- struct{}{}
			synctest.Wait()
			log.Info("late again")
			assert.Less(t, time.Since(begun), 1100*time.Millisecond, "a reader that is slow costs no second again")
			close(out.resume)
			synctest.Wait()
			log.Info("after")
			flush()
			all := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Len(t, all, 4, out.String())
			assert.Contains(t, all[0], "step")
			assert.Regexp(t, `lost.*\b99\b`, all[1])
			assert.Contains(t, all[2], "late again")
			assert.Contains(t, all[3], "after")
		})
	}
}

// TEL-001: a module has a level of its own, which can be changed while the log is
// written; audit lines have none.
func TestLevels(t *testing.T) {
	var out bytes.Buffer
	log, levels, flush := telemetry.NewLog(&out, false)
	defer flush()
	say := func() (said []string) {
		out.Reset()
		for _, l := range []hclog.Logger{log, log.Named("http"), log.Named("plugin").Named("x"), log.Named("audit")} {
			l.Trace("trace")
			l.Debug("debug")
			l.Info("info")
			l.Error("error")
		}
		for _, line := range lines(t, out.String()) {
			said = append(said, line["@module"].(string)+" "+line["@message"].(string))
		}
		return said
	}
	audit := []string{"ferment.audit info", "ferment.audit error"}
	assert.Equal(t, append([]string{"ferment info", "ferment error", "ferment.http info", "ferment.http error", "ferment.plugin.x info", "ferment.plugin.x error"}, audit...), say())
	levels.Set("error", map[string]string{"plugin": "debug"})
	audit = append([]string{"ferment.audit debug"}, audit...)
	assert.Equal(t, append([]string{"ferment error", "ferment.http error", "ferment.plugin.x debug", "ferment.plugin.x info", "ferment.plugin.x error"}, audit...), say())
	levels.SetModule("host", "info")
	levels.SetModule("plugin", "error")
	assert.Equal(t, append([]string{"ferment info", "ferment error", "ferment.http error", "ferment.plugin.x error"}, audit[1:]...), say())
	levels.SetModule("", "info")
	assert.Contains(t, say(), "ferment.http info")
	base, by := levels.Now()
	assert.Equal(t, "info", base)
	assert.Equal(t, map[string]string{"host": "info", "plugin": "error"}, by)
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	log, _, flush := telemetry.NewLog(&out, true)
	log.Info("ready", "took", "12ms", "listen", []string{"127.0.0.1:7180"})
	log.Named("plugin").Warn("plugin", "plugin", "chess", "error", "two\nlines \x1b[31m")
	log.Warn("weaker", "prod", `"strict"`, "why", `no "a b"`, "odd", "a`\"b")
	flush()
	var columns [][]string
	for line := range strings.Lines(out.String()) {
		columns = append(columns, strings.Fields(line)[1:])
	}
	assert.Equal(t, [][]string{
		{"info", "host", "ready", `listen=["127.0.0.1:7180"]`, "took=12ms"},
		{"warn", "plugin", "plugin", `error="two\nlines`, `\x1b[31m"`, "plugin=chess"},
		{"warn", "host", "weaker", "odd=\"a`\\\"b\"", "prod=`\"strict\"`", "why=`no", "\"a", "b\"`"},
	}, columns)
}
