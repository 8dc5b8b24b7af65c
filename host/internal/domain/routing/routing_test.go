package routing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RTE-005: every reason of the contract of :route/decide.
func TestReadDecision(t *testing.T) {
	for out, reason := range map[string]string{
		`"prose"`:                         "decide-out-not-map",
		`nil`:                             "decide-out-not-map",
		`{:cap/id :a/b :text "x"}`:        "decide-unknown-keys",
		`{"cap/id" :a/b}`:                 "decide-unknown-keys",
		`{:dispatch {}}`:                  "decide-target-missing",
		`{:cap/id 7}`:                     "decide-cap-not-keyword",
		`{:cap/id :a/b :error {}}`:        "decide-error-not-allowed",
		`{:cap/id :a/b :dispatch []}`:     "decide-dispatch-not-map",
		`{:cap/id :a/b :budget 3}`:        "decide-budget-not-map",
		`{:cap/id :a/b :dispatch {:x 1}}`: "decide-dispatch-unknown-keys",
		`{:cap/id :a/b :dispatch {:candidates "a/b"}}`:              "decide-candidates-not-keywords",
		`{:cap/id :a/b :dispatch {:checks [1]}}`:                    "decide-checks-not-keywords",
		`{:cap/id :a/b :dispatch {:checks/hard [1]}}`:               "decide-checks-hard-not-keywords",
		`{:cap/id :a/b :dispatch {:checks/soft {}}}`:                "decide-checks-soft-not-keywords",
		`{:cap/id :a/b :dispatch {:switch-on [1]}}`:                 "decide-switch-on-not-keywords",
		`{:cap/id :a/b :dispatch {:retry 1}}`:                       "decide-retry-not-map",
		`{:cap/id :a/b :dispatch {:retry {:same-cap-max :one}}}`:    "decide-retry-same-cap-max-not-nonneg-int",
		`{:cap/id :a/b :dispatch {:retry {:fallback-max -1}}}`:      "decide-retry-fallback-max-not-nonneg-int",
		`{:cap/id :a/b :dispatch {:candidates [:a/b] :checks #{}}}`: "",
		`{:cap/id :a/b}`: "",
	} {
		d, err := routing.ReadDecision(edn.MustRead(out))
		if reason == "" {
			require.Nil(t, err, out)
			assert.Equal(t, "a/b", d.CapID)
			continue
		}
		require.NotNil(t, err, out)
		assert.Equal(t, "route/decide-failed", err.Type)
		assert.Equal(t, ":route/"+reason, err.Details.Key("reason").String(), out)
	}
}

// RTE-005: a model writes JSON, in which keywords are strings.
func TestReadDecisionFromJSON(t *testing.T) {
	d, err := routing.ReadDecision(edn.MustRead(`{:cap/id "a/b" :dispatch {:candidates ["a/b" ":a/c"]} :effects {:allowed ["none"]}
		:constraints {:language "pl" :style ":short" :max-chars 9}}`))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, "{:language :pl :max-chars 9 :style :short}", d.Constraints.String())
	assert.Equal(t, "a/b", d.CapID)
	assert.Equal(t, []string{"a/b", "a/c"}, d.Candidates)
}

// RTE-006: whatever a decision names, the candidates after it are some of those
// that the act accepted, the chosen one first, and the others are excluded.
func TestOrderNeverWidens(t *testing.T) {
	ids := []string{"a/a", "a/b", "a/c", "a/d", "a/e"}
	rapid.Check(t, func(t *rapid.T) {
		b := routing.Bounds{Accepted: rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID).Draw(t, "accepted")}
		d := routing.Decision{CapID: rapid.SampledFrom(ids).Draw(t, "chosen")}
		if rapid.Bool().Draw(t, "narrows") {
			d.Candidates = rapid.SliceOf(rapid.SampledFrom(ids)).Draw(t, "candidates")
		}
		got, excluded, err := b.Order(&d)
		if err != nil {
			assert.Equal(t, ":route/widened", err.Details.Key("reason").String())
			return
		}
		require.NotEmpty(t, got)
		assert.Equal(t, d.CapID, got[0])
		assert.ElementsMatch(t, b.Accepted, append(got, excluded...))
	})
}

// RTE-006: a policy under any layer that Check accepts permits no more than the
// one without it.
func TestCheckNeverWidens(t *testing.T) {
	effects := []string{"none", "fs/read", "fs/write", "net/http"}
	checks := []string{"a", "b", "c"}
	layer := func(t *rapid.T, name string) policy.Layer {
		var l policy.Layer
		from := policy.Origin{Source: policy.SourceMeta}
		if rapid.Bool().Draw(t, name+" effects?") {
			l.Effects = policy.Of(rapid.SliceOfDistinct(rapid.SampledFrom(effects), rapid.ID).Draw(t, name+" effects"), from)
		}
		for _, to := range []*policy.Val[int]{&l.SameCapMax, &l.FallbackMax, &l.RepairMax} {
			if rapid.Bool().Draw(t, name+" count?") {
				*to = policy.Of(rapid.IntRange(0, 3).Draw(t, name+" count"), from)
			}
		}
		if rapid.Bool().Draw(t, name+" budget?") {
			l.Budget = policy.FieldsOf(edn.MustMap(edn.K("max-tokens"), edn.Int(int64(rapid.IntRange(1, 9).Draw(t, name+" tokens")))), from)
		}
		l.Must = policy.NamesOf(from, rapid.SliceOf(rapid.SampledFrom(checks)).Draw(t, name+" must")...)
		l.Should = policy.NamesOf(from, rapid.SliceOf(rapid.SampledFrom(checks)).Draw(t, name+" should")...)
		if rapid.Bool().Draw(t, name+" hard?") {
			l.Checks.Base = policy.Of(policy.NamesOf(from, rapid.SliceOf(rapid.SampledFrom(checks)).Draw(t, name+" hard")...), from)
		}
		if rapid.Bool().Draw(t, name+" score?") {
			l.ScoreMin = policy.Of(edn.MustFloat(float64(rapid.IntRange(0, 4).Draw(t, name+" score"))/4), from)
		}
		return l
	}
	rapid.Check(t, func(t *rapid.T) {
		configured, decided := layer(t, "configured"), layer(t, "decided")
		before, err := configured.Resolve()
		require.NoError(t, err)
		after, err := policy.Merge(configured, decided).Resolve()
		require.NoError(t, err)
		b := routing.Bounds{Policy: before}
		if b.Check(&decided, &after) != nil {
			return
		}
		if before.EffectsSet {
			assert.Subset(t, before.Effects, after.Effects)
		}
		assert.LessOrEqual(t, after.SameCapMax, before.SameCapMax)
		assert.LessOrEqual(t, after.FallbackMax, before.FallbackMax)
		assert.LessOrEqual(t, after.RepairMax, before.RepairMax)
		assert.Subset(t, after.Must, before.Must)
		assert.Subset(t, append(after.Must, after.Should...), before.Should)
		had, _ := before.ScoreMin.AsNumber()
		has, _ := after.ScoreMin.AsNumber()
		assert.GreaterOrEqual(t, has.Cmp(had), 0)
		if limit, ok := before.Budget.Key("max-tokens").AsInt(); ok {
			now, _ := after.Budget.Key("max-tokens").AsInt()
			assert.LessOrEqual(t, now, limit)
		}
	})
}

// RTE-007: :on-error of the request, its :strict?, on_error of the configuration,
// its strict, and open.
func TestFailMode(t *testing.T) {
	yes, no := true, false
	modes := []string{"", routing.FailOpen, routing.FailClosed}
	for _, asked := range modes {
		for _, askedStrict := range []*bool{nil, &yes, &no} {
			for _, on := range modes {
				for _, strict := range []*bool{nil, &yes, &no} {
					var req edn.MapBuilder
					req.OptKeyword("on-error", asked)
					if askedStrict != nil {
						req.Key("strict?", edn.Bool(*askedStrict))
					}
					s := routing.Settings{Router: routing.Profile{OnError: on, Strict: strict}}
					c, err := s.Choose("text/respond", req.Map())
					require.Nil(t, err)
					want := false
					switch {
					case asked != "":
						want = asked == routing.FailClosed
					case askedStrict != nil:
						want = *askedStrict
					case on != "":
						want = on == routing.FailClosed
					case strict != nil:
						want = *strict
					}
					assert.Equal(t, want, c.Closed, "%s %v %s %v", asked, askedStrict, on, strict)
				}
			}
		}
	}
}
