package workspace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// longTime is the deadline of verbs that may need much time.
const longTime = 24 * time.Hour

// caller calls the intent of one invocation.
type caller struct {
	*invocation
	calls    Caller
	progress *progress
	delta    func(edn.Value) error // receives values and text of a stream; nil: they are ignored
}

// open prepares the calls of an invocation.
func (in *invocation) open() (*caller, error) {
	calls, err := in.Open(in.ctx, in.request(in.verb.name(), in.input), Opening{Local: in.local, Quiet: in.quiet})
	if err != nil {
		return nil, err
	}
	form := in.common.progress
	if form == "" {
		if form = progressPlain; display.Terminal(in.Stderr) {
			form = progressBar
		}
	}
	if in.quiet {
		form = progressNone
	}
	return &caller{invocation: in, calls: calls, progress: newProgress(form, in.Stderr, last(in.words), time.Now)}, nil
}

func (c *caller) close() { c.calls.Close() }

// request returns the envelope of a call.
func (in *invocation) request(intent string, input edn.Value) edn.Value {
	request := edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("cli")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent)),
		edn.K("input"), input,
	)
	if allowed := in.effects(intent); len(allowed) > 0 {
		request = request.AssocKey("effects", edn.MustMap(edn.K("allowed"), edn.Keywords(allowed...)))
	}
	limit := in.timeout
	if limit == 0 && in.takesLong {
		limit = longTime
	}
	if limit > 0 {
		request = request.AssocKey("deadline-ms", edn.Int(max(1, limit.Milliseconds())))
	}
	return request
}

// effects returns the effects that a call may have: reading, and writing its store if the verb
// does. What it calls in addition to its own intent may write: see send.
func (in *invocation) effects(intent string) []string {
	allowed := []string{"db/read", "fs/read"}
	if !in.reads && in.verb.agent != reader || in.verb.writes || intent != in.verb.name() {
		allowed = append(allowed, "db/write")
	}
	for _, name := range in.common.effects {
		allowed = append(allowed, strings.TrimPrefix(name, ":"))
	}
	slices.Sort(allowed)
	return slices.Compact(allowed)
}

// call sends an input, after the files that it names, and returns the output of the intent.
func (c *caller) call(input edn.Value) (edn.Value, error) {
	input, err := c.send(input)
	if err != nil {
		return edn.Nil(), err
	}
	return c.callIntent(c.verb.name(), input)
}

func (c *caller) callIntent(intent string, input edn.Value) (edn.Value, error) {
	var show func(edn.Value) error
	if c.streams || c.takesLong {
		show = c.event
	}
	response, err := c.calls.Call(c.ctx, c.request(intent, input), show)
	c.progress.clear()
	switch {
	case c.ctx.Err() != nil:
		return edn.Nil(), context.Cause(c.ctx)
	case err != nil:
		return edn.Nil(), err
	}
	c.warn(response)
	if e := response.Key("error"); !e.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(e, contract.SourceHost)
	}
	return response.Key("result").Key("out"), nil
}

// event handles one event of the run.
func (c *caller) event(e edn.Value) error {
	switch kind := plain(e.Key("event")); kind {
	case "progress":
		c.progress.show(e.Key("value"))
	case "delta":
		if c.delta != nil {
			c.progress.clear()
			return c.delta(e.Key("value"))
		}
	case "chunk", "provisional":
		if c.delta != nil {
			c.progress.clear()
			return c.delta(edn.MustMap(edn.K("text"), e.Key("text")))
		}
	}
	return nil
}

// warn prints the warnings of a response.
func (c *caller) warn(response edn.Value) {
	if c.quiet || c.Format() != "text" {
		return
	}
	for w := range response.Key("warnings").Elems() {
		c.note("%s", diag.WrapLabeled("warning: ", words(w.Key("message"))))
	}
}

// note prints a line for people to standard error.
func (in *invocation) note(format string, args ...any) {
	_, _ = io.WriteString(in.Stderr, display.Shown(in.Stderr, fmt.Sprintf(format, args...)+"\n"))
}

// once calls the intent and prints its output.
func (in *invocation) once() error {
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	return in.conclude(c, func() (edn.Value, error) { return c.call(in.input) })
}

// conclude prints the result of a call.
func (in *invocation) conclude(c *caller, call func() (edn.Value, error)) error {
	out, err := call()
	if err != nil {
		return in.failed(err)
	}
	c.progress.end()
	if err := in.print(out); err != nil {
		return err
	}
	if in.negative != nil && in.negative(in, out) {
		return in.Quiet(exit.Negative)
	}
	return nil
}

// askFirst shows the result of a dry run and asks before the intent is called. The error ends the
// command.
func (in *invocation) askFirst() error {
	if !in.common.dryRun && in.Format() != "text" {
		return in.usagef("%s asks before it acts: add --yes to confirm, or --dry-run", last(in.words))
	}
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	plan, err := c.call(in.input.AssocKey(in.verb.dryRun, edn.Bool(in.dry)))
	if err != nil {
		return in.failed(err)
	}
	if in.common.dryRun {
		return in.print(plan)
	}
	p := in.page()
	in.text(p, plan)
	if err := in.Confirm(strings.TrimRight(p.String(), "\n")); err != nil {
		return err
	}
	return in.conclude(c, func() (edn.Value, error) { return c.call(in.input) })
}

func (in *invocation) page() *page { return &page{verbose: in.Verbose(), given: in.given} }

// print writes the output of an intent in the output format.
func (in *invocation) print(out edn.Value) error {
	text, err := in.rendered(out)
	if err != nil {
		return err
	}
	return in.write([]byte(text))
}

func (in *invocation) rendered(out edn.Value) (string, error) {
	switch in.Format() {
	case "json":
		b, err := edn.WriteJSON(out)
		return string(b) + "\n", err
	case "edn":
		return out.String() + "\n", nil
	}
	p := in.page()
	in.text(p, out)
	return p.String(), nil
}

// write writes data to the file of --out, otherwise to standard output.
func (in *invocation) write(data []byte) error {
	if in.out != "" {
		return in.WriteFile(in.out, data)
	}
	text := string(data)
	if display.Terminal(in.Stdout) {
		text = display.Shown(in.Stdout, text)
	}
	_, err := io.WriteString(in.Stdout, text)
	return err
}
