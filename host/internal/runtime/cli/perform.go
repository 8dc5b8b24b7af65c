package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// performance is an act with the way in which it is executed and printed.
type performance struct {
	request   edn.Value
	file      string         // of the plan; empty without one
	positions *edn.Positions // of the text of the plan; may be nil
	flags     *callFlags
	admit     func(*setup.Loaded) error // called before any plugin is started; may be nil
	show      func(edn.Value) error     // prints a result in its own format; may be nil
	// recorded is set if the journal of a daemon has the run.
	recorded bool
	// refused replaces the error for a request that the command itself created; may be nil.
	refused func(*contract.Error) *contract.Error
}

// why returns the error to report.
func (p performance) why(e *contract.Error) *contract.Error {
	if p.refused == nil || e == nil {
		return e
	}
	return p.refused(e)
}

// admitPlan rejects a plan with errors before any plugin is started. All findings are printed in
// the form of check.
func (c *command) admitPlan(
	name string, v edn.Value, positions *edn.Positions, around surroundings, loaded *setup.Loaded,
) error {
	p, findings := readPlan(name, v, positions, around, loaded)
	if err := unknownBindings([]*plan.Plan{p}, around, planEnv(around, loaded)); err != nil {
		return err
	}
	return c.refusal(name, positions, findings)
}

// refusal returns the error for findings with errors; nil if there are none. In text format the
// findings are printed in the form of check, otherwise they are in the error.
func (c *command) refusal(name string, positions *edn.Positions, findings []plan.Finding) error {
	err := plan.FindingsError(findings, contract.SourceRequest)
	if err == nil {
		return nil
	}
	if c.format != formatText {
		return err
	}
	if err := c.tell(c.env.Stderr, name, positions, findings); err != nil {
		return err
	}
	return quietError{exit.Code(err)}
}

// onlyServed returns the error for an act that needs data of a daemon.
func (c *command) onlyServed(ctx context.Context, what, omit string) error {
	err := c.noDaemon(ctx)
	var absent *contract.Error
	if errors.As(err, &absent) {
		err = absent.WithHint("only a daemon keeps " + what + ": start one with \"ferment serve\", or omit " + omit)
	}
	return err
}

// perform starts the plugins, executes one act, and prints the result.
func (c *command) perform(ctx context.Context, p performance) error {
	f := p.flags
	f.stream = f.stream || wantsStream(p.request)
	if f.stream && f.progress == "auto" {
		f.progress = "none" // progress lines would mix with the text
	}
	watcher, err := c.newWatcher(f.progress)
	if err != nil {
		return err
	}
	c.warnAttached()
	if !f.local && len(c.attached) == 0 {
		there, err := c.reachOrEnd(ctx)
		if err != nil {
			return err
		}
		if there != nil {
			p.recorded = c.remote != nil || c.configured(ctx).Store.Lasts()
			return c.performThere(ctx, there, p)
		}
	}
	if f.async {
		return c.noDaemon(ctx)
	}
	switch {
	case f.session != "":
		return c.onlyServed(ctx, "sessions", "--session")
	case f.apply(p.request).HasKey("idempotency/key"):
		return c.onlyServed(ctx, "idempotency keys", "the key")
	}
	if intent, _ := p.request.Key("task").Key("intent").AsKeyword(); strings.HasPrefix(intent, "conversation/") {
		c.printf("only a daemon keeps conversations: changes of this act to a conversation are lost when it ends\n")
	}
	a := act.Act{Request: f.apply(p.request), Positions: p.positions, Dir: c.env.Dir, Watched: f.stream}
	if f.noCache {
		a.Cache = act.CacheRefresh
	}
	host, err := c.host(ctx, watcher, p.admit, func(loaded *setup.Loaded) map[string]bool {
		if f.isJSON {
			a.Request = httpapi.FromJSON(a.Request, loaded.Generation.Registry)
		}
		return loaded.Reach(a)
	})
	var refused *contract.Error
	if errors.As(err, &refused) && refused.Type == "plan/invalid" {
		refused = p.why(refused)
		return c.answer(new(act.Service).Refusal(a, refused), refused, p, nil)
	}
	if err != nil {
		return err
	}
	// Close is limited by the time limits for stopping plugins.
	defer host.Close()
	service := host.Service()
	run, refused := service.Start(context.WithoutCancel(ctx), a)
	if refused = p.why(refused); refused != nil {
		return c.answer(service.Refusal(a, refused), refused, p, nil)
	}
	stop := context.AfterFunc(ctx, func() {
		c.printf("canceling run %s\n", run.ID())
		run.Cancel("user", "interrupt")
	})
	var told *teller
	if f.stream {
		told = c.newTeller()
		c.follow(ctx, run, told, watcher)
	} else {
		watcher.follow(run)
	}
	response, failure := run.Wait()
	stop()
	host.Ended(context.WithoutCancel(ctx), run.ID())
	watcher.close()
	if f.report {
		c.report(run.Records(), response.Key("budget"))
	}
	err = c.conclude(p, response, failure, told)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return quietError{exit.Interrupted}
	}
	return err
}

// follow prints a run while it is executed. A write error cancels it.
func (c *command) follow(ctx context.Context, run *act.Run, told *teller, w *watcher) {
	err := run.Watch(context.WithoutCancel(ctx), func(e journal.Event) error {
		w.tell(e)
		return told.local(e)
	})
	if err != nil {
		run.Cancel("user", err.Error())
	}
}

// performThere executes the act in the daemon. Canceling ctx cancels the run.
func (c *command) performThere(ctx context.Context, there *client.Client, p performance) error {
	f := p.flags
	for flag, wanted := range map[string]bool{"--report": f.report, "--progress": f.progress != "auto" &&
		f.progress != "none"} {
		if wanted {
			return usagef("%s needs a run in this process, but a daemon would execute it: add --local, or omit the flag", flag)
		}
	}
	if source := p.request.Key("input").Key("plan"); p.positions != nil && !isPlan(source) {
		_, findings := plan.Parse(source, p.positions)
		refused := plan.FindingsError(findings, contract.SourceRequest)
		return c.conclude(p, new(act.Service).Refusal(act.Act{Request: f.apply(p.request)}, refused), refused, nil)
	}
	var run atomic.Value // the id, once the daemon has reported it
	call := client.Call{
		Dir:      c.env.Dir,
		Fresh:    f.noCache,
		JSON:     f.isJSON, // the daemon has the schemas for its types
		Accepted: func(id string) { run.Store(id) },
	}
	request := f.apply(p.request)
	keyed := request.HasKey("idempotency/key")
	var told *teller
	var got client.Response
	var err error
	if f.stream {
		told = c.newTeller()
		got, err = there.Stream(ctx, request, call, func(e client.Event) error {
			id, _ := e.Data.Key("run").AsString()
			run.Store(id)
			return told.tell(e.Data)
		})
	} else {
		got, err = there.Act(ctx, request, call)
	}
	if err != nil {
		_ = told.endLine()
		id, known := run.Load().(string)
		switch {
		case !known:
		case errors.Is(context.Cause(ctx), errInterrupted) && keyed:
			c.printf("run %s goes on: \"ferment runs watch %[1]s\" follows it\n", id)
		case errors.Is(context.Cause(ctx), errInterrupted):
			c.printf("canceling run %s\n", id)
			if f.stream { // it would go on for a while without its reader
				c.cancelThere(ctx, there, id)
			}
		case p.recorded:
			return contract.AsError(err).WithHint(fmt.Sprintf(
				"\"ferment runs show %s\" shows the run, which the next start of the daemon resumes", id))
		}
		return err
	}
	response := got.Body
	if id, ok := response.Key("job/id").AsString(); ok {
		return c.done(response, fmt.Sprintf("%s: %s; \"ferment runs watch %[1]s\" follows it", id, plain(response.Key("job/status"))))
	}
	var failure *contract.Error
	if e := response.Key("error"); !e.IsNil() {
		failure = contract.ErrorFromValue(e, contract.SourceHost)
	}
	return c.conclude(p, response, failure, told)
}

// conclude prints the result of a run.
func (c *command) conclude(p performance, response edn.Value, failure *contract.Error, told *teller) error {
	if p.show != nil && failure == nil {
		return p.show(response)
	}
	if findings := p.findings(failure); findings != nil {
		if c.format == formatText {
			return c.refusal(p.file, p.positions, findings)
		}
		failure = plan.FindingsError(findings, contract.SourceRequest)
		response = response.AssocKey("error", failure.Value())
	}
	if said := p.why(failure); said != failure {
		response, failure = response.AssocKey("error", said.Value()), said
	}
	return c.answer(response, failure, p, told)
}

// findings returns the findings in the error of the plan that was sent, because the daemon did not
// have its text. A nested plan has another source.
func (p performance) findings(refusal *contract.Error) []plan.Finding {
	if p.file == "" || refusal == nil || refusal.Source != contract.SourceRequest {
		return nil
	}
	return plan.FindingsOf(refusal, p.positions)
}
