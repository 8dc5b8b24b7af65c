package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/conform"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/conformance/fixture"
	"github.com/fermenthq/ferment/sdk/wire"
)

// trialsOnce is the maximum number of concurrent trials.
const trialsOnce = 4

func (c *command) conformHostCommand() *cobra.Command {
	var o conforming
	cmd := &cobra.Command{
		Use:   "host",
		Short: "check that this host survives plugins that break the contract",
		Long: "host runs plugins with one fault each under the supervisor of this program: those for which checks of\n" +
			"\"ferment conform\" must fail, and some that do not work at all. Each call must return an answer or a typed\n" +
			"error, a plugin that exits or is unusable must cause one diagnostic, and a sound plugin beside it must\n" +
			"answer all the time.",
		Example: "  ferment conform host\n  ferment conform host --run dies --json report.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.conformHost(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.json, "json", "", "write the report to this file as JSON (\"-\": standard output)")
	flags.StringVar(&o.junit, "junit", "", "write the report to this file as JUnit XML")
	flags.StringVar(&o.md, "md", "", "write the report to this file as Markdown")
	flags.StringVar(&o.run, "run", "", "run only plugins whose id matches this regular expression")
	return cmd
}

// conformHost runs the trials concurrently, and prints the report.
func (c *command) conformHost(ctx context.Context, o conforming) error {
	only, err := regexp.Compile(o.run)
	if err != nil {
		return usagef("--run: %s", err)
	}
	all := slices.DeleteFunc(slices.Concat(fixture.All(), fixture.Hostile()),
		func(f fixture.Fixture) bool { return !only.MatchString(conform.ID(f)) })
	if len(all) == 0 {
		return usagef("no plugin matches --run %q", o.run)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	outputs, err := c.openReports(o)
	if err != nil {
		return err
	}
	defer outputs.close()
	show := &conformProgress{command: c, on: c.format == formatText && o.json != "-"}
	began := time.Now()
	results := make([]conformance.Result, len(all))
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan struct{}, trialsOnce)
	for i, f := range all {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			results[i] = conform.Host(ctx, self, f)
			mu.Lock()
			defer mu.Unlock()
			show.result(results[i])
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		return cause
	}
	report := conformance.Report{
		Suite:    conformance.SuiteVersion,
		Protocol: wire.Protocol,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Began:    began,
		Took:     time.Since(began),
		Plugin:   "ferment",
		Version:  c.env.Version,
		Hash:     programHash([]string{self}),
		Command:  conformance.CommandLine{Verb: "host"},
		Profiles: []string{"host"},
		Results:  results,
	}
	return c.finishConform(report, o, outputs)
}
