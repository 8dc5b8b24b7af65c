package conformance

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound is a plugin that keeps the contract. Its call lasts until it is
// cancelled, so that every check can cancel it.
func sound() sdk.Plugin {
	type settings struct {
		Word string `edn:"word,omitempty"`
	}
	type question struct {
		Wait bool `edn:"wait,omitempty"`
	}
	return sdk.Plugin{
		Name: "sound", Version: "1.0.0", Config: sdk.Config[settings]{},
		Capabilities: []sdk.Capability{
			sdk.Func("t/answer", sdk.Intents("t/answer"), func(ctx context.Context, q question) (string, error) {
				if q.Wait {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "an answer", nil
			}),
		},
	}
}

// CONF-003: a plugin that keeps the contract passes every check that needs no
// process, and the report names it.
func TestSoundPluginPasses(t *testing.T) {
	var begun, seen []string
	opts := Options{Seed: 1, Slow: &Sample{Capability: "t/answer", Input: edn.MustRead(`{:wait true}`)}}
	opts.Samples = map[string]edn.Value{"t/answer": edn.MustMap()}
	opts.OnStart = func(c Check) { begun = append(begun, c.ID) }
	opts.OnResult = func(r Result) { seen = append(seen, r.Check.ID) }
	report := Run(t.Context(), InProcess(sound()), opts)
	for _, r := range report.Results {
		if r.Check.Process {
			assert.Equal(t, Fail, r.Status, r.Check.ID)
			assert.Contains(t, r.Observed, "not testable", r.Check.ID)
			continue
		}
		assert.Equal(t, Pass, r.Status, "%s: expected %s, observed %s", r.Check.ID, r.Expected, r.Observed)
	}
	assert.Equal(t, "sound", report.Plugin)
	assert.Equal(t, "1.0.0", report.Version)
	assert.Equal(t, SuiteVersion, report.Suite)
	assert.Equal(t, uint64(1), report.Seed)
	assert.Equal(t, []string{profileCore, profileTool, profileMux}, report.Profiles)
	assert.Len(t, seen, len(ChecksOf(profileCore, profileTool, profileMux)))
	assert.Equal(t, begun, seen)
}

// CONF-003: a capability may change its answer after calls of others: its data
// has changed.
func TestAnswersAboutChangingThings(t *testing.T) {
	type of struct {
		Name string `edn:"name"`
	}
	var mu sync.Mutex
	turns, last := 0, ""
	status := sdk.Plugin{Name: "status", Version: "1.0.0", Capabilities: []sdk.Capability{
		sdk.Func("t/control", sdk.Intents("t/start", "t/stop"), func(ctx context.Context, _ of) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if intent := sdk.CallFrom(ctx).Intent; intent != last {
				turns, last = turns+1, intent
			}
			return turns, nil
		}, sdk.Idempotent()),
	}}
	in := edn.MustRead(`{:name "a"}`)
	opts := Options{Samples: map[string]edn.Value{"t/start": in, "t/stop": in}, Only: regexp.MustCompile(`^core/invoke/`)}
	for _, r := range Run(t.Context(), InProcess(status), opts).Results {
		assert.Equal(t, Pass, r.Status, "%s: expected %s, observed %s", r.Check.ID, r.Expected, r.Observed)
	}
}

// CONF-002: each check has its own id, a profile, a sentence, and the
// requirements that it tests.
func TestChecksAreNamed(t *testing.T) {
	id := regexp.MustCompile(`^[a-z-]+/[a-z-]+/[a-z-]+$`)
	var seen []string
	for _, c := range Checks() {
		assert.Regexp(t, id, c.ID)
		assert.NotContains(t, seen, c.ID)
		seen = append(seen, c.ID)
		assert.Contains(t, Profiles(), c.Profile())
		assert.NotEmpty(t, c.Text)
		assert.NotEmpty(t, c.Requirements, c.ID)
		for _, name := range c.Requirements {
			r, ok := requirementOf(name)
			assert.True(t, ok, "%s names %s, which is not a requirement", c.ID, name)
			assert.Equal(t, r.Profile, c.Profile(), "%s names %s of another profile", c.ID, name)
		}
	}
}

// A plugin that does not start fails every check; a check that panics is a
// fault of the harness; a cancelled run has no verdict.
func TestRunOutcomes(t *testing.T) {
	report := Run(t.Context(), Process([]string{"/nonexistent"}, nil), Options{})
	assert.Len(t, report.Results, len(ChecksOf(profileCore)))
	assert.Equal(t, len(ChecksOf(profileCore)), report.Failed())
	assert.Empty(t, report.Plugin)
	assert.Contains(t, report.Results[0].Observed, "/nonexistent")

	r := RunCheck(t.Context(), InProcess(sound()), Check{ID: "x", run: func(context.Context, *bench) error { panic("oops") }}, Options{})
	assert.Equal(t, Fault, r.Status)
	assert.Contains(t, r.Observed, "oops")

	report = Run(t.Context(), InProcess(sdk.Plugin{}), Options{Only: regexp.MustCompile("bare")})
	require.Len(t, report.Results, 1)
	assert.Contains(t, report.Results[0].Observed, "Version is empty")
}

// Generated samples fit their schemas, as far as supported.
func TestSamplesFitTheirSchemas(t *testing.T) {
	registry, err := schema.NewRegistry(schema.Builtin())
	require.NoError(t, err)
	for name, form := range schema.Builtin() {
		if !strings.HasPrefix(name, "req/") {
			continue
		}
		s, ok := registry.Lookup(name)
		require.True(t, ok)
		v := made(schema.Builtin(), form, sampleDepth)
		assert.Empty(t, s.Validate(v), "%s: %s", name, v)
	}
	for _, form := range []string{
		`[:map [:a :int] [:b {:optional true} :int] [:c [:vector {:min 2} :keyword]] [:d [:tuple :boolean :nil]] [:e [:enum 7 8]] [:f [:maybe :double]] [:g :decimal] [:h [:int {:min 5}]] [:i [:set :int]] [:j [:map-of :string :int]]]`,
		`:any`, `[:and [:map [:x :string]] :map]`,
	} {
		s, err := schema.Compile(edn.MustRead(form))
		require.NoError(t, err)
		v := made(nil, edn.MustRead(form), sampleDepth)
		assert.Empty(t, s.Validate(v), "%s: %s", form, v)
	}
	assert.True(t, made(map[string]edn.Value{"a/b": edn.MustRead(`[:map [:x [:ref :a/b]]]`)}, edn.MustRead(`[:ref :a/b]`), sampleDepth).IsMap(), "recursion ends")
}
