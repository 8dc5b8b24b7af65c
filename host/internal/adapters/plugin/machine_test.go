package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testMachine() *machine {
	s := DefaultSettings("p", "/bin/p")
	s.Restart.Max, s.Restart.Jitter = 2, 0
	return &machine{restart: s.Restart, health: s.Health, random: func() float64 { return 0.5 }, state: Stopped, since: dawn}
}

// The events of the tables, by name. A number after a name is an incarnation;
// without one it is the current.
func eventOf(m *machine, word string) any {
	incarnation := m.incarnation
	if word, g, ok := strings.Cut(word, "@"); ok {
		_, _ = fmt.Sscan(g, &incarnation)
		return namedEvent(word, incarnation)
	}
	return namedEvent(word, incarnation)
}

func namedEvent(word string, incarnation int) any {
	boom := contract.Errorf("runtime/crashed", "boom")
	switch word {
	case "start":
		return evStart{}
	case "started":
		return evStarted{incarnation}
	case "start-failed":
		return evStartFailed{incarnation: incarnation, cause: CauseStartFailed, err: contract.Errorf("runtime/start-failed", "no")}
	case "bad-config":
		return evStartFailed{incarnation: incarnation, cause: CauseConfig, permanent: true, err: contract.Errorf("config/plugin-schema", "no")}
	case "downstream":
		return evStartFailed{incarnation: incarnation, cause: CauseStartFailed, uncounted: true, err: contract.Errorf("provider/unavailable", "no")}
	case "configured":
		return evConfigured{incarnation}
	case "ready":
		return evHealth{incarnation, wire.Health{State: wire.HealthReady}}
	case "degraded":
		return evHealth{incarnation, wire.Health{State: wire.HealthDegraded, Reason: "slow"}}
	case "not-ready":
		return evHealth{incarnation, wire.Health{State: wire.HealthNotReady, Reason: "warming", Source: contract.SourceDownstream}}
	case "starting":
		return evHealth{incarnation, wire.Health{State: wire.HealthStarting, Reason: "loading"}}
	case "answered":
		return evProbed{incarnation: incarnation, ok: true}
	case "missed":
		return evProbed{incarnation: incarnation}
	case "crash":
		return evExit{incarnation: incarnation, err: boom}
	case "exit":
		return evExit{incarnation: incarnation, clean: true, err: boom}
	case "exit-in-call":
		return evExit{incarnation: incarnation, clean: true, calls: 1, err: boom}
	case "broken":
		return evBroken{incarnation, contract.Errorf("runtime/protocol", "no health")}
	case "ready-timer":
		return evTimer{incarnation, timerReady}
	case "backoff-timer":
		return evTimer{incarnation, timerBackoff}
	case "probe-timer":
		return evTimer{incarnation, timerProbe}
	case "stop":
		return evStop{}
	case "restart":
		return evRestart{}
	case "release":
		return evRelease{}
	case "quarantine":
		return evQuarantine{contract.Errorf("runtime/quarantined", "by hand")}
	}
	panic(word)
}

func actionName(a any) string {
	switch a := a.(type) {
	case actSpawn:
		return "spawn"
	case actWatch:
		return "watch"
	case actProbe:
		return "probe"
	case actEnd:
		if a.drain {
			return "drain"
		}
		return "kill"
	case actTimer:
		return map[timerKind]string{timerReady: "ready", timerBackoff: "backoff", timerProbe: "probe"}[a.kind] + "-in-" + a.wait.String()
	}
	return fmt.Sprintf("%T", a)
}

// SUP-005, BIND-009: while a plugin restarts, its state has the error of the
// last start; the error is cleared when it is ready or an operator starts it.
func TestMachineRemembersWhyItStartsAgain(t *testing.T) {
	for events, says := range map[string]string{
		"start":                                                      "",
		"start started configured":                                   "",
		"start started start-failed":                                 "no",
		"start started start-failed backoff-timer":                   "no",
		"start start-failed backoff-timer started":                   "no",
		"start start-failed backoff-timer started ready":             "",
		"start start-failed restart":                                 "",
		"start started configured ready crash backoff-timer started": "boom",
	} {
		m := testMachine()
		for i, word := range strings.Fields(events) {
			m.step(eventOf(m, word), dawn.Add(time.Duration(i)*time.Second))
		}
		if says == "" {
			assert.Nil(t, m.err, events)
		} else if assert.NotNil(t, m.err, events) {
			assert.Equal(t, says, m.err.Message, events)
		}
	}
}

// SUP-002, SUP-003, SUP-005: every transition, from a sequence of events. Each
// event is a second after the one before, or after "+duration".
func TestMachine(t *testing.T) {
	const up = "start started configured ready"
	for name, row := range map[string]struct {
		events string
		state  State
		cause  Cause
		call   bool
		acts   string // of the last event
	}{
		"start":                           {"start", Starting, CauseStart, false, "spawn"},
		"start twice":                     {"start start", Starting, CauseStart, false, ""},
		"started":                         {"start started", Configuring, CauseStarted, false, ""},
		"configured is not ready":         {"start started configured", Configuring, CauseStarted, false, "watch ready-in-30s probe-in-5s"},
		"ready":                           {up, Ready, CauseReady, true, ""},
		"degraded takes calls":            {up + " degraded", Degraded, CauseDegraded, true, ""},
		"degraded from the start":         {"start started configured degraded", Degraded, CauseDegraded, true, ""},
		"not ready takes none":            {up + " not-ready", Degraded, CauseNotReady, false, ""},
		"not ready is never restarted":    {up + " not-ready +24h probe-timer answered not-ready", Degraded, CauseNotReady, false, ""},
		"ready again":                     {up + " not-ready ready", Ready, CauseReady, true, ""},
		"degraded to not ready":           {up + " degraded not-ready", Degraded, CauseNotReady, false, ""},
		"not ready to degraded":           {up + " not-ready degraded", Degraded, CauseDegraded, true, ""},
		"still warming up":                {"start started configured starting", Configuring, CauseStarted, false, ""},
		"not ready from the beginning":    {"start started configured not-ready", Degraded, CauseNotReady, false, ""},
		"ready after all":                 {"start started configured not-ready ready", Ready, CauseReady, true, ""},
		"ready timeout":                   {"start started configured ready-timer", Degraded, CauseReadyTimeout, false, ""},
		"ready after the timeout":         {"start started configured ready-timer ready", Ready, CauseReady, true, ""},
		"ready timer when ready":          {up + " ready-timer", Ready, CauseReady, true, ""},
		"probe timer":                     {up + " probe-timer", Ready, CauseReady, true, "probe probe-in-5s"},
		"two misses":                      {up + " missed missed", Ready, CauseReady, true, ""},
		"an answer forgives misses":       {up + " missed missed answered missed", Ready, CauseReady, true, ""},
		"three misses":                    {up + " missed missed missed", Draining, CauseUnresponsive, false, "kill"},
		"unresponsive, then gone":         {up + " missed missed missed crash", Backoff, CauseUnresponsive, false, "backoff-in-100ms"},
		"not ready and unresponsive":      {up + " not-ready missed missed missed", Draining, CauseUnresponsive, false, "kill"},
		"crash":                           {up + " crash", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"crash while configuring":         {"start started configured crash", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"restart after backoff":           {up + " crash backoff-timer", Starting, CauseBackoffOver, false, "spawn"},
		"backoff doubles":                 {up + " crash backoff-timer started configured ready crash", Backoff, CauseCrashed, false, "backoff-in-200ms"},
		"crash loop":                      {up + " crash backoff-timer start-failed backoff-timer start-failed", Quarantined, CauseCrashLoop, false, ""},
		"no loop outside the window":      {up + " crash backoff-timer start-failed +61s backoff-timer start-failed", Backoff, CauseStartFailed, false, "backoff-in-400ms"},
		"reset after uptime":              {up + " crash backoff-timer started configured ready +5m crash", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"degraded is uptime too":          {up + " crash backoff-timer started configured degraded +5m crash", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"not ready is no uptime":          {up + " crash backoff-timer started configured +5m crash", Backoff, CauseCrashed, false, "backoff-in-200ms"},
		"bad configuration is permanent":  {"start bad-config", Quarantined, CauseConfig, false, ""},
		"and has no timer":                {"start bad-config backoff-timer", Quarantined, CauseConfig, false, ""},
		"downstream never quarantines":    {"start downstream backoff-timer downstream backoff-timer downstream backoff-timer downstream", Backoff, CauseStartFailed, false, "backoff-in-800ms"},
		"clean exit on-failure":           {up + " exit", Stopped, CauseExited, false, ""},
		"clean exit with calls":           {up + " exit-in-call", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"stop":                            {up + " stop", Draining, CauseStop, false, "drain"},
		"stopped":                         {up + " stop exit", Stopped, CauseStopped, false, ""},
		"stop while starting":             {"start stop", Draining, CauseStop, false, "drain"},
		"start given up":                  {"start stop start-failed", Stopped, CauseStopped, false, ""},
		"stop in backoff":                 {up + " crash stop", Stopped, CauseStopped, false, ""},
		"late backoff timer":              {up + " crash stop backoff-timer", Stopped, CauseStopped, false, ""},
		"stop wins over restart":          {up + " restart stop exit", Stopped, CauseStopped, false, ""},
		"restart does not undo stop":      {up + " stop restart exit", Stopped, CauseStopped, false, ""},
		"stop wins over unresponsive":     {up + " missed missed missed stop crash", Stopped, CauseStopped, false, ""},
		"stop leaves quarantine":          {"start bad-config stop", Quarantined, CauseConfig, false, ""},
		"restart by hand":                 {up + " restart exit", Starting, CauseRestart, false, "spawn"},
		"restart ends quarantine":         {"start bad-config restart", Starting, CauseRestart, false, "spawn"},
		"restart ends backoff":            {up + " crash restart", Starting, CauseRestart, false, "spawn"},
		"restart forgets failures":        {up + " crash restart started configured ready crash", Backoff, CauseCrashed, false, "backoff-in-100ms"},
		"release":                         {"start bad-config release", Starting, CauseRelease, false, "spawn"},
		"release of what runs":            {up + " release", Ready, CauseReady, true, ""},
		"release of what was stopped":     {up + " stop exit release", Starting, CauseRelease, false, "spawn"},
		"quarantine by hand":              {up + " quarantine exit", Quarantined, CauseQuarantine, false, ""},
		"quarantine in backoff":           {up + " crash quarantine", Quarantined, CauseQuarantine, false, ""},
		"no health service":               {up + " broken crash", Quarantined, CauseProtocol, false, ""},
		"health of an earlier generation": {up + " crash backoff-timer started configured ready@1", Configuring, CauseStarted, false, ""},
		"exit of an earlier generation":   {up + " crash backoff-timer started configured ready crash@1", Ready, CauseReady, true, ""},
		"start that failed too late":      {up + " start-failed", Ready, CauseReady, true, ""},
		"health after the end":            {up + " crash ready", Backoff, CauseCrashed, false, ""},
		"exit after the end":              {up + " crash crash", Backoff, CauseCrashed, false, ""},
		"misses after the end":            {up + " stop missed missed missed", Draining, CauseStop, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMachine()
			now := dawn
			var last []any
			for _, word := range strings.Fields(row.events) {
				if d, ok := strings.CutPrefix(word, "+"); ok {
					wait, err := time.ParseDuration(d)
					require.NoError(t, err)
					now = now.Add(wait)
					continue
				}
				now = now.Add(time.Second)
				before := m.state
				var tr *Transition
				tr, last = m.step(eventOf(m, word), now)
				if tr == nil {
					assert.Equal(t, before, m.state, "a state does not change silently")
					continue
				}
				assert.Equal(t, before, tr.From)
				assert.Equal(t, m.state, tr.To)
				assert.Equal(t, m.callable, tr.Callable)
				assert.NotEmpty(t, tr.Cause)
				assert.Equal(t, now, tr.At)
			}
			assert.Equal(t, row.state, m.state)
			assert.Equal(t, row.cause, m.cause)
			assert.Equal(t, row.call, m.callable)
			var acts []string
			for _, a := range last {
				acts = append(acts, actionName(a))
			}
			assert.Equal(t, row.acts, strings.Join(acts, " "))
		})
	}
}

// SUP-005: the policy decides which exits are followed by a restart.
func TestMachinePolicies(t *testing.T) {
	for _, row := range []struct {
		policy RestartPolicy
		event  string
		want   State
	}{
		{OnFailure, "crash", Backoff}, {OnFailure, "exit", Stopped},
		{Always, "crash", Backoff}, {Always, "exit", Backoff},
		{Never, "crash", Stopped}, {Never, "exit", Stopped},
	} {
		m := testMachine()
		m.restart.Policy = row.policy
		for _, word := range strings.Fields("start started configured ready " + row.event) {
			m.step(eventOf(m, word), dawn)
		}
		assert.Equal(t, row.want, m.state, "%s %s", row.policy, row.event)
		if row.event == "crash" {
			require.NotNil(t, m.err, "why it is down")
		}
	}
}

// SUP-005: with max 0 the first failure leads to quarantine.
func TestMachineMaxZero(t *testing.T) {
	m := testMachine()
	m.restart.Max = 0
	for _, word := range strings.Fields("start started configured ready crash") {
		m.step(eventOf(m, word), dawn)
	}
	assert.Equal(t, Quarantined, m.state)
	assert.Equal(t, "runtime/quarantined", m.err.Type)
	assert.Equal(t, "runtime/crashed", m.err.Cause.Type)
}

// SUP-005: exponential, bounded, and spread by at most the jitter.
func TestRestartDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Restart{
			Backoff: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "backoff")),
			Jitter:  rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		r.MaxBackoff = r.Backoff + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		n := rapid.IntRange(1, 100).Draw(t, "n")
		plain := r.delay(n, 0.5)
		assert.LessOrEqual(t, plain, r.MaxBackoff+1)
		assert.GreaterOrEqual(t, r.delay(n+1, 0.5), plain-1)
		for _, x := range []float64{0, 0.25, 0.999} {
			d := r.delay(n, x)
			assert.GreaterOrEqual(t, float64(d), float64(plain)*(1-r.Jitter)-2)
			assert.LessOrEqual(t, float64(d), float64(plain)*(1+r.Jitter)+2)
		}
	})
}

// For any sequence of events: only a configured process is callable, a new
// incarnation begins only after the end of the old one, and a stopped machine
// comes to rest.
func TestMachineInvariants(t *testing.T) {
	words := strings.Fields(`start started start-failed bad-config downstream configured ready degraded not-ready answered
		missed crash exit broken ready-timer backoff-timer probe-timer stop restart release quarantine`)
	rapid.Check(t, func(t *rapid.T) {
		m := testMachine()
		now := dawn
		process := 0 // incarnation of the existing process
		started, configured := false, false
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "wait")))
			word := rapid.SampledFrom(words).Draw(t, "event")
			// Only what can happen: a start fails before the process is configured,
			// a process ends after it.
			switch word {
			case "started":
				if process == 0 || started {
					continue
				}
				started = true
			case "configured":
				if process == 0 || !started || configured {
					continue
				}
				configured = true
			case "ready", "degraded", "not-ready", "answered", "missed", "broken", "ready-timer", "probe-timer":
				if process == 0 || !configured {
					continue
				}
			case "start-failed", "bad-config", "downstream", "crash", "exit":
				if process == 0 || configured != (word == "crash" || word == "exit") {
					continue
				}
				process = 0
			}
			tr, acts := m.step(eventOf(m, word), now)
			for _, a := range acts {
				if s, ok := a.(actSpawn); ok {
					assert.Zero(t, process, "a process of generation %d still lives", process)
					process, started, configured = s.incarnation, false, false
					assert.Equal(t, m.incarnation, s.incarnation)
				}
			}
			if m.callable {
				assert.True(t, m.state == Ready || m.state == Degraded)
				assert.NotZero(t, process)
			}
			if tr != nil {
				assert.NotEqual(t, Cause(""), tr.Cause)
			}
		}
		m.step(evStop{}, now)
		switch {
		case process != 0 && configured:
			m.step(namedEvent("crash", m.incarnation), now)
		case process != 0:
			m.step(namedEvent("start-failed", m.incarnation), now)
		}
		assert.Contains(t, []State{Stopped, Quarantined}, m.state)
	})
}

// SUP-006, SUP-007: transitions record the given cause of a start and of a
// stop.
func TestMachineCauses(t *testing.T) {
	m := testMachine()
	begun, acts := m.step(evStart{cause: CauseQuality}, dawn)
	require.NotNil(t, begun)
	assert.Equal(t, CauseQuality, begun.Cause)
	assert.Equal(t, []any{actSpawn{1}}, acts)
	m.step(evStarted{1}, dawn)
	m.step(evConfigured{1}, dawn)
	m.step(evHealth{1, wire.Health{State: wire.HealthReady}}, dawn)
	ending, acts := m.step(evStop{cause: CauseRecycle}, dawn)
	require.NotNil(t, ending)
	assert.Equal(t, CauseRecycle, ending.Cause)
	assert.Equal(t, []any{actEnd{incarnation: 1, drain: true, reason: CauseRecycle}}, acts)
	ended, _ := m.step(evExit{incarnation: 1, clean: true}, dawn)
	require.NotNil(t, ended)
	assert.Equal(t, Stopped, ended.To)
}

// SUP-006: the incarnation numbers of a plugin are unique over all its
// instances.
func TestMachineNumbers(t *testing.T) {
	last := 40
	m := testMachine()
	m.number = func() int { last++; return last }
	for want := 41; want < 43; want++ {
		m.step(evStart{}, dawn)
		assert.Equal(t, want, m.incarnation)
		m.step(evStop{}, dawn)
		m.step(evStartFailed{incarnation: m.incarnation, cause: CauseStartFailed}, dawn)
	}
}

// configuration.md 2.2, U: new settings apply from the next decision on; a wait
// that has begun keeps its duration.
func TestMachineRules(t *testing.T) {
	m := testMachine()
	for _, e := range []any{evStart{}, evStarted{1}, evConfigured{1}, evHealth{1, wire.Health{State: wire.HealthReady}}} {
		m.step(e, dawn)
	}
	rules := evRules{restart: m.restart, health: m.health}
	rules.restart.Policy = Never
	rules.health.Interval /= 2
	moved, acts := m.step(rules, dawn)
	assert.Nil(t, moved)
	require.Len(t, acts, 1, "the next probe comes sooner")
	assert.Equal(t, timerProbe, acts[0].(actTimer).kind)
	_, acts = m.step(evRules{restart: rules.restart, health: rules.health}, dawn)
	assert.Empty(t, acts)
	down, _ := m.step(evExit{incarnation: 1, err: contract.Errorf("runtime/crashed", "boom")}, dawn)
	assert.Equal(t, Stopped, down.To, "the new policy")
}

// BIND-009: a reason that names an error type becomes an error of that type;
// any other reason is text.
func TestNamedReason(t *testing.T) {
	for reason, want := range map[string]string{
		":provider/not-configured: no key is configured": "no key is configured [:provider/not-configured]",
		":model/unavailable: mlx: not here":              "mlx: not here [:model/unavailable]",
		":no/such-type: text":                            "", "provider/not-configured: no colon": "", ":provider/not-configured": "", "warming up": "", "": "",
	} {
		got := ""
		if e := namedReason(reason); e != nil {
			got = e.Message + " [:" + e.Type + "]"
		}
		assert.Equal(t, want, got, reason)
	}
}
