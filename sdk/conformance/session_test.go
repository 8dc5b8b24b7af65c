package conformance

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CONF-001, CONF-006: if a plugin does not reach its first call, one check
// reports that with the output of the program, and the checks that would fail
// for the same reason do not run: they fail at once and name that check.
func TestPluginThatDoesNotGetFar(t *testing.T) {
	type settings struct {
		Model string `edn:"model"`
	}
	refuses := sound()
	refuses.Config = sdk.Config[settings]{}
	fails := sound()
	fails.Config = sdk.Config[settings]{Default: settings{Model: "m"}, Start: func(context.Context, settings) error {
		return errors.New("the model is not there")
	}}
	idle := sound()
	idle.Health = func(ctx context.Context, report func(sdk.Status)) {
		report(sdk.NotReady("the server is down"))
		<-ctx.Done()
	}
	for name, tt := range map[string]struct {
		target   Target
		tells    string
		observed string
		evidence string
		made     string // one that runs all the same
	}{
		"it ends":     {Process([]string{"/bin/sh", "-c", "echo no module named grpc >&2; exit 7"}, nil), "core/start/certificate", "it ended before the handshake: exit status 7", "no module named grpc", "core/start/by-hand"},
		"it prints":   {Process([]string{"/bin/sh", "-c", "echo hello; exec cat"}, nil), "core/start/certificate", `it printed "hello"`, "hello", "core/start/by-hand"},
		"core 2":      {Process([]string{"/bin/sh", "-c", "echo '2|1|unix|/x|grpc|'; exec cat"}, nil), "core/start/certificate", "build it with a current library", "", "core/start/protocol"},
		"open":        {Process([]string{"/bin/sh", "-c", "echo '1|1|unix|/x|grpc|'; exec cat"}, nil), "core/start/certificate", "the host requires mutual TLS", "", "core/start/protocol"},
		"newer":       {Process([]string{"/bin/sh", "-c", "echo '1|7|unix|/x|grpc|'; exec cat"}, nil), "core/start/certificate", "upgrade the host", "", "core/start/protocol"},
		"no version":  {InProcess(sdk.Plugin{Name: "x"}), "core/describe/bare", "Version is empty", "", ""},
		"needs words": {InProcess(refuses), "core/describe/metadata", "model", "", "core/describe/bare"},
		"start fails": {InProcess(fails), "core/configure/agrees", "the model is not there", "", "core/configure/bad-config"},
		"never ready": {InProcess(idle), "core/health/ready", "it is not after", "", "core/health/at-once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			report := Run(t.Context(), tt.target, Options{Seed: 1, Patience: impatience, Profiles: []string{profileCore}})
			assert.Less(t, time.Since(began), impatientRun)
			assert.Equal(t, Fail, report.Outcome())
			blockedBy, ids := report.Blocked()
			assert.Equal(t, []string{tt.tells}, blockedBy)
			assert.NotContains(t, ids[tt.tells], tt.tells)
			assert.Contains(t, ids[tt.tells], "core/invoke/answer")
			for _, r := range report.Results {
				switch {
				case r.Check.ID == tt.tells:
					assert.Equal(t, Fail, r.Status)
					assert.Contains(t, r.Observed, tt.observed)
					assert.Contains(t, strings.Join(r.Evidence, "\n"), tt.evidence)
				case r.Check.ID == tt.made:
					assert.Empty(t, r.Blocked)
				case r.Blocked != "":
					assert.Equal(t, Fail, r.Status)
					assert.Contains(t, r.Observed, "see "+tt.tells)
				}
			}
		})
	}
}

// A plugin whose calls hang is waited for twice; after that each check that
// calls it ends soon and reports what it observed.
func TestPluginThatHangs(t *testing.T) {
	t.Parallel()
	p := sound()
	p.Capabilities = []sdk.Capability{sdk.Func("t/answer", sdk.Intents("t/answer"), func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})}
	s := Open(t.Context(), InProcess(p), Options{Seed: 1, Patience: max(0.3, impatience)})
	defer s.Close()
	assert.True(t, s.hangs)
	assert.Nil(t, s.obstacle)
	b := newBench(s.target, s.opts)
	s.past(b)
	assert.Equal(t, hangingCall, b.call)
	for _, c := range s.Checks() {
		if c.ID == "core/invoke/answer" {
			assert.Equal(t, Fail, s.Take(t.Context(), c).Status)
		}
	}
}

// A call that a plugin ends at its deadline did not end by itself, also if the
// deadline came earlier on the clock of the plugin.
func TestDeadlineOfTwoClocks(t *testing.T) {
	t.Parallel()
	assert.True(t, reached(time.Now()))
	assert.True(t, reached(time.Now().Add(clockSlack)))
	assert.False(t, reached(time.Now().Add(time.Minute)))
	gaveUp := contract.Errorf("timeout/hard", "the deadline passed")
	assert.NoError(t, typedError(gaveUp))
	assert.Error(t, typedError(&late{gaveUp}))
	assert.Equal(t, gaveUp, contract.AsError(&late{gaveUp}))
}

// CONF-006: once a check has observed that calls with a sample do not end, the checks
// that need its answer do not run and name that check, also if other capabilities
// answer.
func TestSampleThatHangs(t *testing.T) {
	answers := sdk.Func("t/answer", sdk.Intents("t/answer"), func(context.Context, struct{}) (string, error) { return "x", nil })
	hangs := sdk.Func("t/hang", sdk.Intents("t/hang"), func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	for name, capabilities := range map[string][]sdk.Capability{"all": {hangs}, "one of two": {answers, hangs}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sound()
			p.Capabilities = capabilities
			began := time.Now()
			report := Run(t.Context(), InProcess(p), Options{Seed: 1, Patience: impatience, Profiles: []string{profileCore},
				Only: regexp.MustCompile("^core/(health/at-once|invoke/(answer|parallel|apart|unknown)|deadline/stops)$")})
			assert.Less(t, time.Since(began), impatientRun)
			by, ids := report.Blocked()
			require.Equal(t, []string{"core/invoke/answer"}, by)
			assert.ElementsMatch(t, []string{"core/invoke/parallel", "core/invoke/apart"}, ids[by[0]])
			for _, r := range report.Results {
				if r.Check.ID == by[0] {
					assert.Equal(t, Fail, r.Status)
					assert.Empty(t, r.Blocked)
				} else if r.Blocked == "" {
					assert.Equal(t, Pass, r.Status, "%s needs no answer: %s", r.Check.ID, r.Observed)
				}
			}
		})
	}
}

// A plugin that answers one call after another is slow under load, but its calls end.
func TestWaitingIsNoHang(t *testing.T) {
	var h hanging
	first := h.begin()
	second := h.begin()
	assert.False(t, second())
	assert.False(t, first())
	third := h.begin()
	assert.True(t, third())
}

// A slow start is not an obstacle if the check that would report it succeeds.
func TestObstacleIsConfirmed(t *testing.T) {
	t.Parallel()
	s := Open(t.Context(), &once{Target: InProcess(sound())}, Options{Seed: 1})
	defer s.Close()
	assert.Nil(t, s.obstacle)
	assert.Empty(t, s.early)
}

// once fails the first start.
type once struct {
	Target
	started bool
}

func (o *once) Start(ctx context.Context) (Instance, error) {
	if !o.started {
		o.started = true
		return nil, errors.New("the machine is busy")
	}
	return o.Target.Start(ctx)
}

// An endless log does not fill the memory of the harness.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var log lineBuffer
	line := strings.Repeat("y", 1023) + "\n"
	for range 64 << 10 {
		_, err := log.Write([]byte(line))
		require.NoError(t, err)
	}
	_, _ = log.Write([]byte("the last\n"))
	_, _ = log.Write([]byte(strings.Repeat("z", 2*logBytes)))
	size := 0
	for _, l := range log.Lines() {
		size += len(l)
	}
	assert.LessOrEqual(t, size, 3*logBytes)
	for range 3 * logLines {
		log.add("x")
	}
	assert.LessOrEqual(t, len(log.Lines()), logLines)
	assert.Equal(t, "x", log.Lines()[len(log.Lines())-1])
}

// DESCRIBE-002: a session detects a plugin whose description changes after its
// first start, because it stores the first description.
func TestDescriptionsOfLaterStarts(t *testing.T) {
	starts := 0
	target := InProcessService(Serving{Make: func(log *slog.Logger, level *slog.LevelVar) (Service, error) {
		p := sound()
		if starts++; starts > 1 {
			p.Version = "1.0.1"
		}
		return sdk.NewService(p, log, level)
	}})
	report := Run(t.Context(), target, Options{Seed: 1, Only: regexp.MustCompile(`^core/describe/(bare|pure)$`)})
	statuses := map[string]Status{}
	for _, r := range report.Results {
		statuses[r.Check.ID] = r.Status
	}
	assert.Equal(t, map[string]Status{"core/describe/bare": Pass, "core/describe/pure": Fail}, statuses)
}

// CONF-006: a run ends when its time is over: the first check that does not run says so,
// and the others name it.
func TestRunOfLimitedTime(t *testing.T) {
	t.Parallel()
	report := Run(t.Context(), InProcess(sound()), Options{Seed: 1, Profiles: []string{profileCore}, limit: 1})
	checks := ChecksOf(profileCore)
	assert.Len(t, report.Results, len(checks))
	assert.Equal(t, Fail, report.Outcome())
	by, ids := report.Blocked()
	assert.Equal(t, []string{checks[0].ID}, by)
	assert.Len(t, ids[checks[0].ID], len(checks)-1)
	assert.NotEqual(t, "not run because of "+by[0], report.BlockedText(by[0]))
	for _, r := range report.Results {
		assert.Equal(t, Fail, r.Status)
		assert.Zero(t, r.Took)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	report = Run(canceled, InProcess(sound()), Options{Seed: 1, Profiles: []string{profileCore}, limit: 1})
	assert.Equal(t, Fault, report.Outcome(), "a run that is cancelled has no verdict")
}

// loud is a target whose instances print a text before they end, as by their count.
type loud struct {
	Target
	started int
	from    int // the first instance that prints
}

type loudInstance struct {
	Instance
	text string
}

func (l *loud) Start(ctx context.Context) (Instance, error) {
	in, err := l.Target.Start(ctx)
	if l.started++; err != nil || l.started < l.from {
		return in, err
	}
	return &loudInstance{Instance: in, text: "goodbye"}, nil
}

func (in *loudInstance) Printed() (string, int) {
	select {
	case <-in.Done():
		return in.text, len(in.text)
	default:
		return "", 0
	}
}

// START-005: what an instance of any check prints until its end is found, also that of the
// instance which several checks call.
func TestOutputOfEveryInstance(t *testing.T) {
	check := func(id string) Check {
		all := Checks()
		return all[slices.IndexFunc(all, func(c Check) bool { return c.ID == id })]
	}
	for id, where := range map[string]string{"core/run/end": "during core/run/end", "core/run/after": "7 bytes more, "} {
		// The first instance is that of Open.
		s := Open(t.Context(), &loud{Target: InProcess(sound()), from: 2}, Options{Seed: 1})
		require.NoError(t, s.output.empty())
		require.Equal(t, Pass, s.Take(t.Context(), check(id)).Status)
		s.Take(t.Context(), check("core/start/stdout"))
		err := s.output.empty()
		require.Error(t, err, id)
		assert.Contains(t, err.Error(), where)
		assert.Contains(t, err.Error(), "goodbye")
		s.Close()
	}
}

// HOSTCALL-004: a plugin that keeps state in its host and makes no host calls passes, also if it
// announces them; results without a host call have a note. One whose calls do not end with an
// answer or a typed error if its state cannot be read fails.
func TestPluginThatKeepsState(t *testing.T) {
	for name, row := range map[string]struct {
		failing error // what the plugin makes of an error of the host
		failed  []string
	}{
		"typed":   {contract.Errorf("t/no-state", "the state cannot be read"), nil},
		"untyped": {contract.Errorf("runtime/protocol", "the state cannot be read"), []string{"host-calls/error/typed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sdk.Plugin{Name: "state", Version: "1.0.0", Features: []string{sdk.FeatureHostCalls},
				Capabilities: []sdk.Capability{
					sdk.Func("t/greet", sdk.Intents("t/greet"), func(ctx context.Context, _ struct{}) (int, error) {
						_, version, err := sdk.HostFrom(ctx).State().Get(ctx, "greeted")
						if err != nil {
							return 0, row.failing
						}
						_, _, err = sdk.HostFrom(ctx).State().Swap(ctx, "greeted", version, edn.Bool(true))
						return int(version), err
					}),
				}}
			report := Run(t.Context(), InProcess(p), Options{Seed: 1, Only: regexp.MustCompile(`^host-calls/`)})
			var failed []string
			for _, r := range report.Results {
				if r.Status != Pass {
					failed = append(failed, r.Check.ID)
				} else {
					assert.NotEmpty(t, r.Note, r.Check.ID)
				}
			}
			assert.Len(t, report.Results, 5)
			assert.Equal(t, row.failed, failed)
		})
	}
}
