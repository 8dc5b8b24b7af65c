package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// cacheableWorld is two, with an intent that is cacheable.
func cacheableWorld(t testing.TB, change ...func(*registry.Intent)) *dispatchtest.World {
	in := registry.Intent{ID: "text/respond", In: "req/any", Out: "res/any", Cacheable: true, CacheScope: registry.CachePrincipal}
	for _, f := range change {
		f(&in)
	}
	other := in
	other.ID, other.Candidates = "text/explain", nil
	return dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", ""),
			`{:cap/id :a/three :cap/kind :solver :cap/intents #{:text/explain} :io/in-schema :req/any :io/out-schema :res/any}`,
			dispatchtest.Cap("a/reader", ":cap/effects #{:fs/read}"), dispatchtest.Cap("a/writer", ":cap/effects #{:fs/write}")},
		Intents: []registry.Intent{in, other},
	})
}

// caching adds a cache to a service.
func caching(now func() time.Time) func(*act.Config) {
	return func(c *act.Config) {
		c.Cache = cache.New(cache.Settings{TTL: 2 * time.Minute, MaxEntries: 256, MaxBytes: 64 << 20}, now)
		c.Answers, c.Effects = edn.Hash(edn.Text("a")), dispatchtest.Open()
	}
}

// ending is how a run used the cache, as its last record and its caller know it.
type ending struct {
	outcome, told, of string
	response          edn.Value
	err               *contract.Error
	records           []journal.Record
}

// start begins an act in the cache of a service.
func start(ctx context.Context, t testing.TB, s *act.Service, a act.Act) func() ending {
	t.Helper()
	var e ending
	a.Cached = func(outcome string) { e.told = outcome }
	r, err := s.Start(ctx, a)
	if err != nil {
		return func() ending { return ending{err: err} }
	}
	return func() ending {
		e.response, e.err = r.Wait()
		e.records = r.Records()
		last := e.records[len(e.records)-1].Body.(*journal.RunFinished)
		e.outcome, e.of = last.Cache, last.CacheRun
		assert.Equal(t, e.outcome, e.told, "RUN-032: what the caller is told")
		_, missed := act.Replay(context.Background(), s.Config(), r.ID(), e.records)
		assert.Nil(t, missed, "JRN-050: %v", missed)
		return e
	}
}

func cached(t testing.TB, s *act.Service, text string, change ...func(*act.Act)) ending {
	t.Helper()
	a := request(text)
	for _, f := range change {
		f(&a)
	}
	return start(context.Background(), t, s, a)()
}

func fresh(use act.CacheUse) func(*act.Act) { return func(a *act.Act) { a.Cache = use } }

// RUN-030, RUN-032: an equal request gets the answer of the first one, in a run of its
// own that calls nothing and can be replayed strictly.
func TestCacheHit(t *testing.T) {
	w := cacheableWorld(t)
	w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`), Meta: edn.MustRead(`{:model "m-1"}`),
		Usage: edn.MustRead(`{:mode :live :tokens-in 10 :cost-usd 0.25M :cost-mark :exact}`)})
	s := service(t, w, caching(time.Now))
	first := cached(t, s, ask+`:done {:should #{:json-valid}}}`)
	require.Nil(t, first.err)
	assert.Equal(t, journal.CacheMiss, first.outcome)
	again := cached(t, s, ask+`:done {:should #{:json-valid}} :request/id "q-2" :deadline-ms 5000}`)
	require.Nil(t, again.err)
	assert.Equal(t, journal.CacheHit, again.outcome)
	assert.Len(t, w.Calls(), 1)
	assert.Equal(t, []string{"run/accepted", "run/finished"}, kinds(again.records))
	id, _ := first.response.Key("run/id").AsString()
	assert.Equal(t, id, again.of)
	assert.NotEqual(t, first.response.Key("run/id"), again.response.Key("run/id"))
	for _, key := range []string{"quality", "invoke/meta"} {
		assert.Equal(t, first.response.Key(key).String(), again.response.Key(key).String(), key)
	}
	assert.Equal(t, `{:out {:text "hello"} :type :value :usage {:mode :cache}}`, again.response.Key("result").String())
	assert.Equal(t, `{:attempts 0 :by-capability {} :judge-calls 0 :mode :cache}`, again.response.Key("usage").String())
	assert.Equal(t, `"q-2"`, again.response.Key("request/id").String())
	assert.False(t, again.records[1].Body.(*journal.RunFinished).Executed)
}

// RUN-032: a hit needs no budget and no worker, and what a caller may not do is
// rejected before the lookup.
func TestCacheHitCostsNothing(t *testing.T) {
	w := cacheableWorld(t)
	w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`), Usage: edn.MustRead(`{:cost-usd 0.25M :cost-mark :exact}`)})
	q := queue.New(queue.Settings{Workers: 1, MaxQueued: 0, Classes: []queue.Class{{Name: "sync", Workers: 1, Weight: 1}}}, time.Now)
	s := service(t, w, caching(time.Now), func(c *act.Config) {
		c.Queue = q
		c.Budgets = &policy.Budgets{User: policy.ScopeBudget{Written: true, Per: "day", AtLeast: true, Limits: limits(t, `{:max-attempts 1}`)}}
	})
	require.Equal(t, journal.CacheMiss, cached(t, s, ask+`}`).outcome)
	busy, err := q.Enter(queue.Entry{Class: "sync"})
	require.Nil(t, err)
	defer busy.Leave()
	hit := cached(t, s, ask+`}`)
	assert.Equal(t, journal.CacheHit, hit.outcome, "all workers are busy, and the budget is used up")
	assert.Equal(t, `{}`, hit.response.Key("budget").Key("settled").String())
	busy.Leave()
	assert.Equal(t, "budget/exceeded", cached(t, s, ask+`}`, fresh(act.CacheRefresh)).err.Type)

	reads := `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/reader]}} :effects {:allowed #{:fs/read}} :input {:prompt "p"}}`
	w = cacheableWorld(t)
	w.On("a/reader", value(`{:text "secret"}`))
	s = service(t, w, caching(time.Now), func(c *act.Config) {
		c.Effects.Rules["fs/read"] = policy.Rule{All: []string{policy.RoleAdmin}}
	})
	as := func(role string) func(*act.Act) {
		return func(a *act.Act) { a.Principal, a.PrincipalType, a.Roles = "ann", "user", []string{role} }
	}
	require.Equal(t, journal.CacheMiss, cached(t, s, reads, as(policy.RoleAdmin)).outcome)
	assert.Equal(t, journal.CacheHit, cached(t, s, reads, as(policy.RoleAdmin)).outcome)
	assert.Equal(t, "auth/forbidden-effect", cached(t, s, reads, as(policy.RoleUser)).err.Type)
}

func limits(t testing.TB, text string) policy.Limits {
	l, err := policy.LimitsOf(edn.MustRead(text))
	require.NoError(t, err)
	return l
}

// RUN-031, LLM-015: only accepted, complete answers of one call without effects are kept,
// and none that is degraded.
func TestCacheKeeps(t *testing.T) {
	plain := ask + `}`
	good := value(`{:text "x"}`)
	for name, tc := range map[string]struct {
		request string
		step    dispatchtest.Step
		intent  func(*registry.Intent)
		outcome string
		kept    bool
	}{
		"answer":           {plain, good, nil, journal.CacheMiss, true},
		"failure":          {plain, dispatchtest.Step{Err: contract.Errorf("input/invalid", "no")}, nil, journal.CacheMiss, false},
		"refused by gate":  {ask + `:done {:must #{:json-valid}}}`, good, nil, journal.CacheMiss, false},
		"truncated":        {plain, dispatchtest.Step{Value: edn.MustRead(`{:text "x"}`), Meta: edn.MustRead(`{:finish :length}`)}, nil, journal.CacheMiss, false},
		"holed":            {plain, dispatchtest.Step{Value: edn.MustRead(`{:text "x"}`), Meta: edn.MustRead(`{:quality {:degraded? true :why [:stream/skipped]}}`)}, nil, journal.CacheMiss, false},
		"of another":       {plain, dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "down")}, func(in *registry.Intent) { in.Candidates = []string{"a/one", "a/two"} }, journal.CacheMiss, false},
		"plan":             {plain, dispatchtest.Step{Plan: edn.MustRead(`{:nodes [{:op :emit :input {:text "x"}}]}`)}, func(in *registry.Intent) { in.ResultTypes = []string{"value", "plan"} }, journal.CacheMiss, false},
		"not cacheable":    {plain, good, func(in *registry.Intent) { in.Cacheable = false }, "", false},
		"effects":          {ask + `:effects {:allowed #{:fs/write}}}`, good, nil, journal.CacheBypass, false},
		"reads":            {ask + `:effects {:allowed #{:fs/read}}}`, good, nil, journal.CacheMiss, true},
		"asks for details": {ask + `:debug/plan? true}`, good, nil, journal.CacheBypass, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := cacheableWorld(t, func(in *registry.Intent) {
				if in.Candidates = []string{"a/one"}; tc.intent != nil {
					tc.intent(in)
				}
			})
			w.On("a/one", tc.step)
			w.On("a/two", good)
			s := service(t, w, caching(time.Now))
			assert.Equal(t, tc.outcome, cached(t, s, tc.request).outcome)
			calls := len(w.Calls())
			cached(t, s, tc.request)
			assert.Equal(t, tc.kept, len(w.Calls()) == calls)
		})
	}
}

// RUN-031: what a capability asks for through its host handle is not in the key, so its
// answer is not kept; nor is that of a program that was replaced meanwhile.
func TestCacheKeepsNothingUnknown(t *testing.T) {
	w := cacheableWorld(t)
	var s *act.Service
	w.Func("a/one", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		_, err, _ := s.Within(ctx, act.HostCall{Act: act.Act{Request: edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/explain} :input {}}`),
			Stack: []string{"a/one"}}, Parent: c, N: 1})
		assert.Nil(t, err)
		return value(`{:text "x"}`)
	})
	w.On("a/three", value(`{:text "why"}`))
	s = service(t, w, caching(time.Now))
	for range 2 {
		assert.Equal(t, journal.CacheMiss, cached(t, s, ask+`}`).outcome)
	}

	w = cacheableWorld(t)
	w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:text "x"}`), After: func() {
		w.SetState("a/one", dispatch.CapState{Ready: true, Binary: edn.Hash(edn.Text("new"))})
	}})
	s = service(t, w, caching(time.Now))
	for _, want := range []string{journal.CacheMiss, journal.CacheMiss, journal.CacheHit} {
		assert.Equal(t, want, cached(t, s, ask+`}`).outcome)
	}
}

// RUN-033: no-cache executes the request and replaces the answer, no-store leaves the
// cache alone, and an answer is kept for its time.
func TestCacheUse(t *testing.T) {
	w := cacheableWorld(t)
	w.On("a/one", value(`{:n 1}`), value(`{:n 2}`), value(`{:n 3}`), value(`{:n 4}`))
	now := time.Now()
	s := service(t, w, caching(func() time.Time { return now }))
	for i, step := range []struct {
		use     act.CacheUse
		outcome string
		n       int
		later   time.Duration
	}{
		{act.CacheRead, journal.CacheMiss, 1, 0},
		{act.CacheBypass, journal.CacheBypass, 2, 0},
		{act.CacheRead, journal.CacheHit, 1, 0},
		{act.CacheRefresh, journal.CacheMiss, 3, 0},
		{act.CacheRead, journal.CacheHit, 3, 2*time.Minute - 1},
		{act.CacheRead, journal.CacheMiss, 4, 1},
	} {
		now = now.Add(step.later)
		e := cached(t, s, ask+`}`, fresh(step.use))
		assert.Equal(t, step.outcome, e.outcome, "step %d", i)
		assert.Equal(t, fmt.Sprintf("{:n %d}", step.n), e.response.Key("result").Key("out").String(), "step %d", i)
	}
}

// RUN-034: equal acts at the same time share one execution. Followers end by their own
// deadline and cancellation; a failure is only that of its act, and the next follower
// leads. A follower holds no worker, so that the leader can have it.
func TestCacheShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := cacheableWorld(t, func(in *registry.Intent) { in.Candidates = []string{"a/one"} })
		release := make(chan dispatchtest.Step)
		w.Func("a/one", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
			select {
			case step := <-release:
				return step
			case <-ctx.Done():
				return dispatchtest.Step{Hang: true}
			}
		})
		q := queue.New(queue.Settings{Workers: 1, MaxQueued: 2, Classes: []queue.Class{{Name: "sync", Workers: 1, MaxQueued: 2, Weight: 1}}}, time.Now)
		s := service(t, w, caching(time.Now), func(c *act.Config) { c.Queue = q })
		begin := func(ctx context.Context, more string) func() ending { return start(ctx, t, s, request(ask+more+`}`)) }
		background := context.Background()

		leader := begin(background, "")
		canceled, cancel := context.WithCancel(background)
		var followers []func() ending
		for range 8 {
			followers = append(followers, begin(background, `:queue {:priority 9}`))
		}
		gone, late := begin(canceled, ""), begin(background, `:deadline-ms 10`)
		synctest.Wait()
		require.Len(t, w.Calls(), 1)
		cancel()
		assert.Equal(t, "canceled", gone().err.Type)
		assert.Equal(t, "queue/deadline-exceeded", late().err.Type)
		release <- value(`{:text "x"}`)
		assert.Equal(t, journal.CacheMiss, leader().outcome)
		for _, f := range followers {
			assert.Equal(t, journal.CacheHit, f().outcome)
		}
		require.Len(t, w.Calls(), 1)

		other := `:constraints {:language :pl}`
		leading, stop := context.WithCancel(background)
		leader = begin(leading, other)
		synctest.Wait()
		followers = []func() ending{begin(background, other), begin(background, other), begin(background, other)}
		synctest.Wait()
		require.Len(t, w.Calls(), 2)
		stop() // the failure of the leader is only its own
		assert.Equal(t, "canceled", leader().err.Type)
		synctest.Wait()
		require.Len(t, w.Calls(), 3, "one follower leads")
		release <- dispatchtest.Step{Err: contract.Errorf("input/invalid", "no")}
		synctest.Wait()
		require.Len(t, w.Calls(), 4, "the next one does")
		release <- value(`{:text "x"}`)
		synctest.Wait()
		var got []string
		for _, f := range followers {
			e := f()
			got = append(got, e.outcome+" "+fmt.Sprint(e.err == nil))
		}
		slices.Sort(got)
		assert.Equal(t, []string{"hit true", "miss false", "miss true"}, got)
	})
}

// RUN-034: a leader that is rejected before its run begins leaves its place to others.
func TestCacheLeaderIsRejected(t *testing.T) {
	w := cacheableWorld(t)
	w.On("a/one", value(`{:text "x"}`))
	q := queue.New(queue.Settings{Workers: 1, MaxQueued: 0, Classes: []queue.Class{{Name: "sync", Workers: 1, Weight: 1}}}, time.Now)
	s := service(t, w, caching(time.Now), func(c *act.Config) { c.Queue = q })
	busy, err := q.Enter(queue.Entry{Class: "sync"})
	require.Nil(t, err)
	assert.Equal(t, "runtime/overloaded", cached(t, s, ask+`}`).err.Type)
	busy.Leave()
	assert.Equal(t, journal.CacheMiss, cached(t, s, ask+`}`).outcome)
}

// JRN-040: a hit that was cut after its acceptance is executed when it goes on, like any
// other run, and says that it did not use the cache; so does an accepted act.
func TestCacheAfterCrash(t *testing.T) {
	w := cacheableWorld(t)
	w.On("a/one", value(`{:text "x"}`))
	s := service(t, w, caching(time.Now))
	require.Equal(t, journal.CacheMiss, cached(t, s, ask+`}`).outcome)
	hit := cached(t, s, ask+`}`)
	require.Equal(t, journal.CacheHit, hit.outcome)
	kept := journal.NewMemory()
	past := decoded(t, hit.records[:1])
	kept.Load(past[0].Run, past)
	later := service(t, w, caching(time.Now), func(c *act.Config) { c.Journal = memory{kept} })
	run, refused := later.Resume(t.Context(), past[0].Run, past, crashed)
	require.Nil(t, refused)
	<-run.Done()
	assert.Equal(t, journal.CacheBypass, finished(t, run.Records()).Cache)
	assert.Len(t, w.Calls(), 2)

	told := ""
	accepted := request(ask + `:response/type :accepted}`)
	accepted.Cached = func(outcome string) { told = outcome }
	waiting, err := later.Submit(accepted)
	require.Nil(t, err)
	assert.Equal(t, journal.CacheBypass, told)
	records, failed := kept.Records(waiting.ID())
	require.NoError(t, failed)
	require.Nil(t, later.Begin(waiting, records, journal.ResumedCrash))
	assert.Equal(t, journal.CacheBypass, finished(t, waiting.Records()).Cache)
}

// A session of a hit gets its turns, as that of any other act (SES-031).
func TestCacheHitHasTurns(t *testing.T) {
	x := newTalk(t, session.Permissive())
	x.world = cacheableWorld(t)
	x.world.On("a/one", value(`{:text "hello to you"}`))
	x.Service = service(t, x.world, caching(time.Now), func(c *act.Config) { c.Sessions = x.sessions })
	alone := strings.Replace(inSession, `:session/id "s"`, "", 1)
	_, _, err := x.ask(alone, policy.RoleUser)
	require.Nil(t, err)
	resp, _, err := x.ask(inSession, policy.RoleUser)
	require.Nil(t, err)
	assert.Equal(t, ":live", orLive(resp), "another session state is another key")
	assert.Equal(t, []string{"user hello", "assistant hello to you"}, x.turns())
}

func orLive(resp edn.Value) string {
	if mode := resp.Key("usage").Key("mode"); !mode.IsNil() {
		return mode.String()
	}
	return ":live"
}

// variant is an act with its configuration, of which mutations change one thing each.
type variant struct {
	act     act.Act
	config  []func(*act.Config)
	intent  []func(*registry.Intent)
	states  map[string]dispatch.CapState
	writes  int // to the session
	version string
}

func (k *variant) set(key, text string) {
	k.act.Request = k.act.Request.AssocKey(key, edn.MustRead(text))
}

func (k *variant) budget(key, text string) {
	k.act.Request = k.act.Request.AssocKey("budget", k.act.Request.Key("budget").AssocKey(key, edn.MustRead(text)))
}

func (k *variant) configure(f func(*act.Config)) { k.config = append(k.config, f) }

// mutations change what RUN-030 names, and what it does not.
var mutations = []struct {
	name   string
	listed bool
	do     func(*variant)
	unless string // a mutation with which this one has no effect
}{
	{"input", true, func(k *variant) { k.set("input", `{:prompt "other"}`) }, ""},
	{"intent", true, func(k *variant) { k.set("task", `{:intent :text/explain}`) }, ""},
	{"context", true, func(k *variant) { k.set("context", `{:summary "s"}`) }, ""},
	{"constraints", true, func(k *variant) { k.set("constraints", `{:language :pl}`) }, ""},
	{"done", true, func(k *variant) { k.set("done", `{:should #{:json-valid}}`) }, ""},
	{"effects", true, func(k *variant) { k.set("effects", `{:allowed #{:fs/read}}`) }, ""},
	{"role", true, func(k *variant) { k.set("role", `:coder`) }, ""},
	{"model", true, func(k *variant) { k.set("model", `"m-2"`) }, ""},
	{"system", true, func(k *variant) { k.set("system", `"be brief"`) }, ""},
	{"output tokens", true, func(k *variant) { k.budget("max-tokens-out", "100") }, ""},
	{"tokens of an attempt", true, func(k *variant) { k.budget("max-tokens", "50") }, ""},
	{"temperature", true, func(k *variant) { k.budget("temperature", "0.5") }, ""},
	{"routing", true, func(k *variant) { k.set("routing", `{:profile :low-latency}`) }, ""},
	{"binary", true, func(k *variant) {
		k.states["a/one"] = dispatch.CapState{Ready: true, Binary: edn.Hash(edn.Int(1))}
		k.states["a/three"] = k.states["a/one"]
	}, ""},
	{"binary of a candidate that does not serve", true, func(k *variant) {
		k.states["a/two"] = dispatch.CapState{Ready: true, Binary: edn.Hash(edn.Int(2))}
	}, "intent"},
	{"version", true, func(k *variant) { k.version = "9.9.9" }, ""},
	{"policy", true, func(k *variant) { k.configure(func(c *act.Config) { c.Answers = edn.Hash(edn.Text("b")) }) }, ""},
	{"session", true, func(k *variant) { k.writes++ }, ""},
	{"principal", true, func(k *variant) { k.act.Principal = "bob" }, "scope"},
	{"rights", true, func(k *variant) { k.act.Roles = append(slices.Clone(k.act.Roles), policy.RoleAdmin) }, ""},
	{"scope", true, func(k *variant) {
		k.intent = append(k.intent, func(in *registry.Intent) { in.CacheScope = registry.CacheTenant })
	}, ""},

	{"trace", false, func(k *variant) { k.set("trace", `{:id "other" :turn 7}`) }, ""},
	{"request id", false, func(k *variant) { k.set("request/id", `"q"`) }, ""},
	{"deadline", false, func(k *variant) { k.set("deadline-ms", "77") }, ""},
	{"queue", false, func(k *variant) { k.set("queue", `{:class :batch :priority -3}`) }, ""},
	{"money", false, func(k *variant) { k.budget("max-usd", "0.5M") }, ""},
	{"attempts", false, func(k *variant) { k.budget("max-attempts", "9") }, ""},
	{"wall time", false, func(k *variant) { k.budget("max-wall-ms", "9000") }, ""},
	{"directory of no paths", false, func(k *variant) { k.act.Dir = "/elsewhere" }, ""},
	{"role without rights", false, func(k *variant) { k.act.Roles = append(slices.Clone(k.act.Roles), "role/clerk") }, ""},
	{"instance", false, func(k *variant) {
		for id, st := range k.states {
			st.Generation, st.Edition, st.Standby = 7, 3, true
			k.states[id] = st
		}
	}, ""},
	{"configuration beside answers", false, func(k *variant) {
		k.configure(func(c *act.Config) { c.Hash, c.Host, c.Boot = edn.Hash(edn.Int(1)), "h", "b" })
	}, ""},
	{"seed", false, func(k *variant) { k.configure(func(c *act.Config) { c.NewSeed = func() int64 { return 7 } }) }, ""},
	{"limits", false, func(k *variant) {
		k.configure(func(c *act.Config) { l := plan.DefaultLimits(); l.Levels = 3; c.Limits = &l })
	}, ""},
	{"budget of the caller", false, func(k *variant) {
		k.configure(func(c *act.Config) {
			c.Budgets = &policy.Budgets{User: policy.ScopeBudget{Written: true, Per: "day", AtLeast: true, Limits: policy.Limits{}}}
		})
	}, ""},
}

// key is the name of the answer after some mutations.
func (k variant) key(t require.TestingT, tb testing.TB, which []bool) string {
	k.states = map[string]dispatch.CapState{"a/one": {Ready: true, Binary: edn.Hash(edn.Int(0))}}
	k.act = act.Act{Request: edn.MustRead(strings.Replace(inSession, ":input", `:budget {:max-tokens-in 1000} :system "be kind" :input`, 1)), Principal: "ann",
		PrincipalType: "user", Roles: []string{policy.RoleUser}}
	for i, m := range mutations {
		if which[i] {
			m.do(&k)
		}
	}
	w := cacheableWorld(tb, k.intent...)
	if k.version != "" {
		w = dispatchtest.New(tb, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", `:cap/version "9.9.9"`), dispatchtest.Cap("a/two", ""),
			`{:cap/id :a/three :cap/version "9.9.9" :cap/kind :solver :cap/intents #{:text/explain} :io/in-schema :req/any :io/out-schema :res/any}`,
			dispatchtest.Cap("a/reader", ":cap/effects #{:fs/read}"), dispatchtest.Cap("a/writer", ":cap/effects #{:fs/write}")},
			Intents: intentsOf(w)})
	}
	for id, st := range k.states {
		w.SetState(id, st)
	}
	x := newTalk(tb, session.Permissive())
	for i := range k.writes {
		x.put(fmt.Sprintf(`{:session/other %d}`, i))
	}
	s := service(tb, w, append([]func(*act.Config){caching(time.Now), func(c *act.Config) {
		c.Sessions = x.sessions
		c.Access = &policy.Access{Operations: policy.Rules{policy.AnySession: {Any: []string{policy.RoleAny}}, policy.OverridePrompt: {Any: []string{policy.RoleAdmin}}}}
	}}, k.config...)...)
	key, err := s.CacheKey(k.act)
	require.Nil(t, err, "%v", err)
	require.NotEmpty(t, key)
	return key
}

func intentsOf(w *dispatchtest.World) (out []registry.Intent) {
	for _, id := range []string{"text/respond", "text/explain"} {
		in, _ := w.Registry.Intent(id)
		out = append(out, *in)
	}
	return out
}

// RUN-030: a change of the request or of the configuration changes the key if and only
// if the changed field is named there. Two acts have one key if and only if the same
// named fields were changed.
func TestCacheKey(t *testing.T) {
	none := make([]bool, len(mutations))
	base := variant{}.key(t, t, none)
	for i, m := range mutations {
		one := slices.Clone(none)
		one[i] = true
		assert.Equal(t, m.listed, variant{}.key(t, t, one) != base, m.name)
	}
	rapid.Check(t, func(r *rapid.T) {
		a := rapid.SliceOfN(rapid.Bool(), len(mutations), len(mutations)).Draw(r, "a")
		b := slices.Clone(a)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(mutations)-1), 0, 4).Draw(r, "flipped") {
			b[i] = !b[i]
		}
		same := true
		for i, m := range mutations {
			same = same && (!m.listed || effective(i, a) == effective(i, b))
		}
		assert.Equal(r, same, variant{}.key(r, t, a) == variant{}.key(r, t, b))
	})
}

// effective reports whether a mutation is among those that were made, and has an effect.
func effective(i int, which []bool) bool {
	for k, m := range mutations {
		if which[k] && m.name == mutations[i].unless {
			return false
		}
	}
	return which[i]
}

// RUN-030: answers are shared as far as the scope of the intent says.
func TestCacheScope(t *testing.T) {
	for scope, shared := range map[string]bool{registry.CachePrincipal: false, registry.CacheTenant: true, registry.CachePublic: true} {
		w := cacheableWorld(t, func(in *registry.Intent) { in.CacheScope = scope })
		w.On("a/one", value(`{:text "x"}`))
		s := service(t, w, caching(time.Now))
		as := func(who string) func(*act.Act) {
			return func(a *act.Act) { a.Principal, a.PrincipalType, a.Roles = who, "user", []string{policy.RoleUser} }
		}
		require.Equal(t, journal.CacheMiss, cached(t, s, ask+`}`, as("ann")).outcome)
		assert.Equal(t, journal.CacheHit, cached(t, s, ask+`}`, as("ann")).outcome)
		assert.Equal(t, shared, cached(t, s, ask+`}`, as("bob")).outcome == journal.CacheHit, scope)
		ofLab := func(a *act.Act) { as("lea")(a); a.Tenant = "lab" }
		assert.Equal(t, scope == registry.CachePublic, cached(t, s, ask+`}`, ofLab).outcome == journal.CacheHit, scope)
	}
}
