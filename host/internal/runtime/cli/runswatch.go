package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Delays before further attempts of runs watch to reach the daemon.
const (
	firstRetry = 200 * time.Millisecond
	mostRetry  = 5 * time.Second
)

func (c *command) runsWatchCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "follow a run to its end, also over restarts of the daemon",
		Long: "watch prints the events of a run from its beginning and then its answer, like act. When the daemon goes\n" +
			"down it waits for the next one and goes on behind the last event. Ctrl-C ends only watch. The exit code is\n" +
			"that of the run.",
		Example: "  ferment runs watch last\n  ferment runs watch last --edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.watch(cmd.Context(), args[0], wait, cmd.Flags().Changed("wait"))
		},
	}
	spanFlag(cmd.Flags(), &wait, "wait", time.Minute,
		"how long to wait for a daemon after one went down; if it is set, also for the first daemon")
	return cmd
}

// watch follows a run until it ends. If patient is set, it also waits for the first daemon.
func (c *command) watch(ctx context.Context, name string, wait time.Duration, patient bool) error {
	form := "text"
	if c.format != formatText {
		form = "none"
	}
	w, err := c.newWatcher(form)
	if err != nil {
		return err
	}
	w.recorded, w.begun = true, time.Time{}
	told := c.newTeller()
	var response edn.Value
	run, after, last, delay, lost := "", "", "", firstRetry, time.Time{}
	for response.IsNil() {
		there, err := c.reach(ctx)
		if there == nil && err == nil && run == "" && !patient {
			return c.noDaemon(ctx)
		}
		if there != nil && run == "" {
			var shown edn.Value
			shown, err = there.Admin(ctx, actionOf("runs-show", edn.K("run"), edn.Text(name), edn.K("brief?"), edn.Bool(true)))
			run, _ = shown.Key("run").Key("run").AsString()
		}
		if there != nil && run != "" {
			response, err = there.Events(ctx, run, after, func(each client.Event) error {
				e := journal.ReadEvent(each.Data)
				if each.ID != "" {
					after, delay, lost = each.ID, firstRetry, time.Time{}
				}
				last = e.Name
				w.tell(e)
				if c.format == formatText {
					return nil
				}
				return told.tell(each.Data)
			})
		}
		if !response.IsNil() {
			break
		}
		if last == "suspended" {
			return contract.Errorf("run/suspended", "run %s waits for a decision", run).
				WithHint(fmt.Sprintf("\"ferment runs show %s\" shows the open calls, \"ferment runs resume %[1]s --decide NODE=retry\" decides", run))
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if err = c.again(ctx, err, there != nil, time.Since(lost) < wait, delay); err != nil {
			return err
		}
		delay = min(2*delay, mostRetry)
	}
	var failure *contract.Error
	if e := response.Key("error"); !e.IsNil() {
		failure = contract.ErrorFromValue(e, contract.SourceHost)
	}
	return c.answer(response, failure, performance{flags: &callFlags{}, recorded: true}, told)
}

// again waits before the next attempt. It returns the error that ends the watch; nil if it
// continues.
func (c *command) again(ctx context.Context, err error, there, patient bool, delay time.Duration) error {
	var refused *contract.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused) && !refused.Retryable:
		return err
	case !patient && !there:
		return c.noDaemon(ctx)
	case !patient && err != nil:
		return err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
