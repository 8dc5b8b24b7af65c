package sdktest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

type greeting struct {
	Name string `edn:"name"`
}

type greeted struct {
	Text string `edn:"text"`
}

func greet(_ context.Context, in greeting) (greeted, error) {
	if in.Name == "" {
		return greeted{}, errors.New("nobody to greet")
	}
	return greeted{"Hello, " + in.Name}, nil
}

func newGreeter() sdk.Plugin {
	return sdk.Plugin{
		Name: "greeter", Version: "1.0.0",
		Capabilities: []sdk.Capability{sdk.Func("demo/greeter", sdk.Intents("demo/greet"), greet)},
	}
}

// brokenEnv makes the test binary run the tests of a plugin that cannot start.
const brokenEnv = "SDKTEST_BROKEN"

func TestMain(m *testing.M) {
	if os.Getenv(brokenEnv) == "" {
		sdktest.Main(m, newGreeter())
	}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "TestMute", F: conformMute}}, nil, nil) // does not return
}

// conformMute is the conformance test of a plugin with a fault.
func conformMute(t *testing.T) {
	type settings struct {
		Voice string `edn:"voice"`
	}
	mute := newGreeter()
	mute.Config = sdk.Config[settings]{Default: settings{Voice: "alto"}, Start: func(context.Context, settings) error {
		return errors.New("there is no voice")
	}}
	sdktest.Conform(t, mute, conformance.Options{Only: regexp.MustCompile(`^core/(describe/bare|configure/agrees|invoke/answer)$`)})
}

// SDK-004: a plugin in this process and one in its own give the same answers.
func TestServeAndStart(t *testing.T) {
	for name, p := range map[string]*sdktest.Plugin{"served": sdktest.Serve(t, newGreeter()), "started": sdktest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			out := p.MustInvoke("demo/greeter", greeting{"Ada"})
			assert.Equal(t, `{:text "Hello, Ada"}`, out.String())
			_, err := p.Invoke("demo/greeter", map[string]any{})
			require.Error(t, err)
			assert.Contains(t, err.Error(), ":input/invalid")
		})
	}
}

// SDK-004: the conformance checks run as subtests, in process and on a process.
func TestConform(t *testing.T) {
	t.Run("in process", func(t *testing.T) { sdktest.Conform(t, newGreeter()) })
	// Each process costs a start; these checks differ from those in process.
	some := conformance.Options{Only: regexp.MustCompile(`^core/(describe/pure|invoke/(answer|large)|malformed/too-large|drain|shutdown)`)}
	t.Run("process", func(t *testing.T) { sdktest.ConformSelf(t, some) })
}

// CONF-006: a failed check reports the text of the command and how to repeat
// it; a check that was skipped because of it only names it.
func TestConformFails(t *testing.T) {
	run := func(pattern string) string {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run", pattern)
		cmd.Env = append(os.Environ(), brokenEnv+"=1")
		out, err := cmd.CombinedOutput()
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "%v: %s", err, out)
		return string(out)
	}
	out := run(".")
	require.Contains(t, out, "--- PASS: TestMute/core/describe/bare")
	require.Contains(t, out, "--- FAIL: TestMute/core/configure/agrees")
	require.Contains(t, out, "--- FAIL: TestMute/core/invoke/answer")
	assert.Regexp(t, `fail core/configure/agrees\n +requirement: [A-Z]+-\d+ .*\n( +requirement: .*\n)* +expected: Configure succeeds\n +observed: .*there is no voice`, out)
	assert.Contains(t, out, "not run: the plugin does not get this far, see core/configure/agrees")
	assert.Equal(t, 1, strings.Count(out, "there is no voice"), out)

	again := regexp.MustCompile(`again: go test -run '(.+)'\n`).FindStringSubmatch(out)
	require.NotNil(t, again, out)
	out = run(again[1])
	assert.Contains(t, out, "--- FAIL: TestMute/core/configure/agrees")
	assert.NotContains(t, out, "core/describe/bare")
}
