package workspace

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Forms of progress (WS-183).
const (
	progressBar   = "bar"
	progressPlain = "plain"
	progressJSON  = "json"
	progressNone  = "none"
)

const (
	redrawEvery = 100 * time.Millisecond // of the bar
	lineEvery   = 5 * time.Second        // of plain progress
	barWidth    = 24
)

// progress prints the progress events of a call to standard error. The output depends only on the
// events.
type progress struct {
	form  string
	out   io.Writer
	verb  string
	now   func() time.Time
	begun time.Time

	mu    sync.Mutex
	shown time.Time // time of the last line or drawing; zero: nothing was printed
	phase string
	since time.Time // begin of the phase
	last  edn.Value
	dirty bool // the bar is on the screen
}

func newProgress(form string, out io.Writer, verb string, now func() time.Time) *progress {
	return &progress{form: form, out: out, verb: verb, now: now, begun: now()}
}

// show takes one progress event.
func (p *progress) show(v edn.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.form == progressNone || !v.IsMap() {
		return
	}
	if p.form == progressJSON {
		if line, err := edn.WriteJSON(v); err == nil {
			_, _ = fmt.Fprintf(p.out, "%s\n", line)
		}
		return
	}
	now := p.now()
	switch phase := plain(v.Key("phase")); {
	case p.last.IsNil():
		p.phase, p.since = phase, p.begun
	case phase != p.phase:
		p.phase, p.since = phase, now
	}
	p.last = v
	every, from := redrawEvery, p.shown
	if p.form == progressPlain {
		every = lineEvery
		if from.IsZero() {
			from = p.begun
		}
	}
	if now.Sub(from) < every {
		return
	}
	p.shown = now
	if p.form == progressBar {
		p.dirty = true
		_, _ = io.WriteString(p.out, "\r\x1b[K"+p.bar(now))
		return
	}
	_, _ = fmt.Fprintf(p.out, "%s: %s\n", p.verb, p.amount())
}

// clear removes the bar, so that other text can be printed.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		p.dirty = false
		_, _ = io.WriteString(p.out, "\r\x1b[K")
	}
}

// end prints a line with the totals if progress was shown.
func (p *progress) end() {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown.IsZero() || p.last.IsNil() || p.form == progressJSON || p.form == progressNone {
		return
	}
	_, _ = fmt.Fprintf(p.out, "%s: %s in %s\n", p.verb, p.amount(), lasted(p.now().Sub(p.begun)))
}

// amount returns what is done as text.
func (p *progress) amount() string {
	done, total, unit := number(p.last.Key("done")), number(p.last.Key("total")), plain(p.last.Key("unit"))
	text := counted(done, "")
	if total > 0 {
		text += " of " + counted(total, "")
	}
	if unit != "" {
		text += " " + name(unit)
	}
	if p.phase != "" && p.phase != p.verb {
		text = name(p.phase) + " " + text
	}
	return text
}

// bar draws phase, bar, done and total, rate and remaining time.
func (p *progress) bar(now time.Time) string {
	done, total := number(p.last.Key("done")), number(p.last.Key("total"))
	var parts []string
	if p.phase != "" {
		parts = append(parts, name(p.phase))
	}
	amount := counted(done, "")
	if total > 0 {
		full := min(barWidth, barWidth*done/total)
		parts = append(parts, "["+strings.Repeat("#", full)+strings.Repeat("-", barWidth-full)+"]")
		amount += "/" + counted(total, "")
	}
	if unit := plain(p.last.Key("unit")); unit != "" {
		amount += " " + name(unit)
	}
	parts = append(parts, amount)
	if took := now.Sub(p.since).Seconds(); took > 0 && done > 0 {
		rate := float64(done) / took
		parts = append(parts, counted(int(rate), "")+"/s")
		if total > done {
			left := time.Duration(float64(total-done) / rate * float64(time.Second))
			parts = append(parts, left.Round(time.Second).String()+" left")
		}
	}
	return strings.Join(parts, "  ")
}
