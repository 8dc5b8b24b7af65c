package cli

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// answer prints a response envelope (CLI-008) without what was already printed during the run. told
// may be nil.
func (c *command) answer(response edn.Value, failure *contract.Error, p performance, told *teller) error {
	f := p.flags
	if err := told.endLine(); err != nil {
		return err
	}
	if c.format != formatText {
		if !told.told() {
			if err := c.value(c.env.Stdout, response); err != nil {
				return err
			}
		}
		if failure != nil {
			return quietError{p.exitCode(response, failure)}
		}
		return nil
	}
	if f.transcript {
		c.printf("%s\n", pretty(response.Key("transcript")))
	}
	if f.debugPlan && !response.Key("plan/debug").IsNil() {
		c.printf("%s\n", pretty(response.Key("plan/debug")))
	}
	for w := range response.Key("warnings").Elems() {
		c.warn("%s", plain(w.Key("message")))
	}
	if quality := response.Key("quality"); quality.Key("degraded?").Truthy() {
		var why []string
		for pair := range quality.Key("why").Elems() {
			capability, _ := pair.Nth(0)
			reason, _ := pair.Nth(1)
			why = append(why, plain(capability)+": "+plain(reason))
		}
		c.printf("degraded: %s\n", strings.Join(why, ", "))
	}
	if response.Key("result").Key("usage").Key("mode").Equal(edn.K("cache")) {
		c.printf("from the cache: an earlier run gave this answer; --no-cache asks again\n")
	}
	if failure != nil {
		failure = onCommandLine(failure)
		c.problem(failure)
		if id, ok := response.Key("run/id").AsString(); ok && p.recorded {
			c.printf("  run     look at it with \"ferment runs show %s\"\n", id)
		}
		return quietError{p.exitCode(response, failure)}
	}
	if id, ok := response.Key("run/id").AsString(); ok && c.verbose {
		c.printf("run %s\n", id)
	}
	if told.told() {
		return nil
	}
	out := response.Key("result").Key("out")
	if text, ok := out.Key("text").AsString(); ok {
		_, err := fmt.Fprintln(c.env.Stdout, display.Shown(c.env.Stdout, strings.TrimSuffix(text, "\n")))
		return err
	}
	_, err := fmt.Fprintln(c.env.Stdout, display.Shown(c.env.Stdout, pretty(out)))
	return err
}

// onCommandLine returns the error of a queue with a hint that names the flag --deadline instead of
// the key of the request; other errors are unchanged.
func onCommandLine(e *contract.Error) *contract.Error {
	if !strings.HasPrefix(e.Type, "queue/") {
		return e
	}
	return e.WithHint(strings.ReplaceAll(e.Hint, ":deadline-ms", "--deadline"))
}

// exitCode returns the exit code for a failed request. A plan that fails after its run was started
// is a negative result, even if a node got an invalid input; an invalid input of an act is a usage
// error (CLI-002).
func (p performance) exitCode(response edn.Value, failure *contract.Error) int {
	code := exit.Code(failure)
	if code == exit.Usage && p.file != "" && response.HasKey("run/id") {
		return exit.Negative
	}
	return code
}
