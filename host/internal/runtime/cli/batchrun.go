package cli

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// batchLine is a line of the inputs with its result.
type batchLine struct {
	number int
	text   []byte
	done   chan struct{} // closed when the fields below are set

	response edn.Value
	failure  *contract.Error // nil: accepted
	stored   bool            // the response is that of a run of an earlier command
}

// execute executes the lines of in and writes their results in order. It holds a limited number of
// lines, so its memory does not grow with the inputs.
func (b *batch) execute(ctx context.Context, inputs string, in io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel(nil)
	window := make(chan *batchLine, 64+b.flags.concurrency) // in order, each until its result is written
	work := make(chan *batchLine)
	var unread error // set before window is closed
	go func() {      // may block on its input, and ends with the process
		defer close(window)
		defer close(work)
		unread = eachLine(in, func(number int, text []byte) bool {
			l := &batchLine{number: number, text: text, done: make(chan struct{})}
			return put(ctx, window, l) && put(ctx, work, l)
		})
	}()
	for range b.flags.concurrency {
		workers.Go(func() {
			for {
				l, ok := receive(ctx, work)
				if !ok {
					return
				}
				if err := b.send(ctx, inputs, l); err != nil {
					cancel(err)
					return
				}
				b.progress.answered(l.stored, l.failure != nil)
				close(l.done)
			}
		})
	}
	for {
		l, ok, err := b.take(ctx, window)
		switch {
		case err != nil:
			return err
		case !ok && unread != nil:
			return &fileError{err: fmt.Errorf("read %s: %w", sourceName(inputs), cause(unread))}
		case !ok:
			return nil
		}
		if err := b.write(l); err != nil {
			return err
		}
	}
}

// put sends a line; false if ctx ended before.
func put(ctx context.Context, to chan<- *batchLine, l *batchLine) bool {
	select {
	case to <- l:
		return true
	case <-ctx.Done():
		return false
	}
}

// receive returns the next line; ok is false after the last line and after the end of ctx.
func receive(ctx context.Context, from <-chan *batchLine) (l *batchLine, ok bool) {
	select {
	case l, ok = <-from:
		return l, ok
	case <-ctx.Done():
		return nil, false
	}
}

// take waits for the result of the next line and shows progress. ok is false after the last line.
func (b *batch) take(ctx context.Context, window <-chan *batchLine) (l *batchLine, ok bool, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var done <-chan struct{}
	for {
		select {
		case l, ok = <-window:
			if !ok {
				return nil, false, context.Cause(ctx)
			}
			window, done = nil, l.done
		case <-done:
			return l, true, nil
		case <-tick.C:
			b.show(true)
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// send executes a line in the daemon. An error ends the batch; the error of the line is its
// failure.
func (b *batch) send(ctx context.Context, inputs string, l *batchLine) error {
	v, isJSON, err := b.parse(inputs, l.text)
	var request edn.Value
	if err == nil {
		request, err = b.request(v)
	}
	if err != nil {
		l.failure = contract.AsError(err).WithWhere("line", edn.Int(int64(l.number)))
		return nil
	}
	isJSON = isJSON && b.plan.IsNil() || b.isJSON // a plan in EDN is sent in EDN, whatever the format of its bindings
	place := b.placeOf(l.number, request)
	key := b.key(place, request, isJSON, 0)
	for failed := 1; ; failed++ {
		l.response, l.stored, err = b.link.act(ctx, request.AssocKey("idempotency/key", edn.Text(key)), b.env.Dir, isJSON)
		if err != nil {
			return err
		}
		l.failure = failureOf(l.response)
		ended := l.stored || l.failure != nil && l.failure.Type == "idempotency/exhausted"
		if l.failure == nil || !ended {
			return nil
		}
		key = b.key(place, request, isJSON, failed)
		if again := b.flags.retryFailed; !again { // an earlier --retry-failed may have executed it
			if again, err = b.link.has(ctx, key); err != nil || !again {
				return err
			}
		}
	}
}

// failureOf returns the error in a response; nil if there is none.
func failureOf(response edn.Value) *contract.Error {
	e := response.Key("error")
	if e.IsNil() {
		return nil
	}
	return contract.ErrorFromValue(e, contract.SourceHost)
}

// shownFailures is the maximum number of failed lines that are reported on standard error.
const shownFailures = 20

// write writes the result of a line.
func (b *batch) write(l *batchLine) error {
	text, err := b.line(l)
	if err != nil { // two names are equal in JSON
		l.failure = contract.Errorf("value/json-collision", "the answer cannot be written as JSON: %w", err).
			WithHint("print the results with --edn")
		if text, err = b.line(l); err != nil {
			return err
		}
	}
	b.tally.add(l)
	reported := l.failure != nil && b.tally.failed <= shownFailures && b.format == formatText
	if reported || display.Terminal(b.results) {
		b.clear()
	}
	if reported {
		b.printf("line %d: %s\n", l.number, cutTo(l.failure.Error(), 300))
		if b.tally.failed == shownFailures {
			b.printf("further failures are only in the results\n")
		}
	}
	if _, err = fmt.Fprintln(b.results, display.Shown(b.results, text)); err != nil {
		return err
	}
	b.show(false)
	return nil
}

// line returns the text of a result.
func (b *batch) line(l *batchLine) (string, error) {
	var m edn.MapBuilder
	m.Key("line", edn.Int(int64(l.number)))
	m.Opt("run", l.response.Key("run/id"))
	if l.failure != nil {
		m.Key("error", l.failure.Value())
	} else {
		m.Key("out", l.response.Key("result").Key("out"))
	}
	m.Opt("usage", l.response.Key("usage"))
	if b.format == formatEDN {
		return m.Map().String(), nil
	}
	text, err := edn.WriteJSON(m.Map())
	return string(text), err
}

// batchTally has the sums of the written results.
type batchTally struct {
	begun                           time.Time
	lines, accepted, failed, stored int
	storedFailed                    int
	priced, unpriced                int     // runs with known and with unknown cost
	cost, earlier                   big.Rat // of all runs, and of those of earlier commands, in USD
}

func (t *batchTally) add(l *batchLine) {
	t.lines++
	if l.failure != nil {
		t.failed++
		if l.stored {
			t.storedFailed++
		}
	} else {
		t.accepted++
	}
	if l.stored {
		t.stored++
	}
	cost, known := l.response.Key("usage").Key("cost-usd").AsNumber()
	switch {
	case known:
		t.priced++
		t.cost.Add(&t.cost, cost)
		if l.stored {
			t.earlier.Add(&t.earlier, cost)
		}
	case l.response.HasKey("run/id"):
		t.unpriced++
	}
}

// summary prints the sums on standard error.
func (b *batch) summary() error {
	t := &b.tally
	took := time.Since(t.begun)
	cost, _ := edn.RatDecimal(&t.cost)
	earlier, _ := edn.RatDecimal(&t.earlier)
	if b.format != formatText {
		var m edn.MapBuilder
		m.Key("batch", edn.Text(b.name))
		m.Key("lines", edn.Int(int64(t.lines)))
		m.Key("accepted", edn.Int(int64(t.accepted)))
		m.Key("failed", edn.Int(int64(t.failed)))
		m.Key("stored", edn.Int(int64(t.stored)))
		m.Key("cost-usd", cost)
		m.Key("stored-cost-usd", earlier)
		m.Key("cost-unknown", edn.Int(int64(t.unpriced)))
		m.Key("took-ms", edn.Int(took.Milliseconds()))
		return b.value(b.env.Stderr, m.Map())
	}
	parts := []string{fmt.Sprintf("%s in %s: %d accepted, %d failed", diag.Counted(t.lines, "line"),
		took.Round(100*time.Millisecond), t.accepted, t.failed)}
	if t.stored > 0 {
		parts = append(parts, fmt.Sprintf("%d executed by an earlier command", t.stored))
	}
	switch {
	case t.priced == 0:
		parts = append(parts, "cost unknown")
	case t.stored > 0:
		parts = append(parts, fmt.Sprintf("cost %s, of which %s by an earlier command", dollars(cost), dollars(earlier)))
	default:
		parts = append(parts, "cost "+dollars(cost))
	}
	if t.priced > 0 && t.unpriced > 0 {
		parts = append(parts, "unknown for "+diag.Counted(t.unpriced, "line"))
	}
	if t.storedFailed > 0 && !b.flags.retryFailed {
		parts = append(parts, "--retry-failed executes those again that failed then")
	}
	b.printf("%s\n", diag.Wrap("batch "+b.name+": "+strings.Join(parts, "; "), 0, 2))
	return nil
}

// batchProgress is the progress of a batch. Its method answered is safe for concurrent use.
type batchProgress struct {
	on    bool
	total int // 0: unknown
	drawn bool
	last  time.Time // time of the last drawing

	mu           sync.Mutex
	begun        time.Time // begin of the measurement of the rate
	done, failed int
	fresh        int // lines that were executed since begun
}

func (p *batchProgress) start(on bool, total int) {
	p.on, p.total, p.begun = on, total, time.Now()
}

// answered counts a line. The rate is measured after the stored responses, which need no time.
func (p *batchProgress) answered(stored, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if failed {
		p.failed++
	}
	switch {
	case !stored:
		p.fresh++
	case p.fresh == 0:
		p.begun = time.Now()
	}
}

// text returns the progress as one line.
func (p *batchProgress) text(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := fmt.Sprintf("%d", p.done)
	if p.total > 0 {
		out += fmt.Sprintf(" of %d", p.total)
	}
	out += " lines"
	if p.failed > 0 {
		out += fmt.Sprintf(", %d failed", p.failed)
	}
	rate := float64(p.fresh) / now.Sub(p.begun).Seconds()
	if p.fresh == 0 || now.Sub(p.begun) <= 0 {
		return out
	}
	digits := 0
	if rate < 10 {
		digits = 1
	}
	out += fmt.Sprintf(", %.*f lines/s", digits, rate)
	if left := p.total - p.done; left > 0 {
		out += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return out
}

// show draws the progress on a terminal, at most ten times per second unless now is set.
func (b *batch) show(now bool) {
	p := &b.progress
	if !p.on || !now && time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.drawn = time.Now(), true
	_, _ = io.WriteString(b.env.Stderr, "\r\x1b[K"+p.text(p.last))
}

// clear removes the progress line.
func (b *batch) clear() {
	if b.progress.drawn {
		b.progress.drawn = false
		_, _ = io.WriteString(b.env.Stderr, "\r\x1b[K")
	}
}
