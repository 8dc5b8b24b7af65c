package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Learned implements httpapi.Runs.
func (j *Runs) Learned(ctx context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil && j.Missing == "" {
		return edn.Nil(), missing
	}
	f = bounded(f, time.Now())
	stored, choices := map[learned.Key]string{}, map[learned.Key][]journal.Choice{}
	if s != nil {
		var err error
		if stored, err = s.AllLearned(ctx); err == nil {
			err = j.eachRun(ctx, f, func(_ store.Run, records []journal.Record) {
				for _, c := range journal.Choices(records) {
					k := learned.Key{Intent: c.Intent, Bucket: c.Decided.Bucket}
					choices[k] = append(choices[k], c)
				}
			})
		}
		if err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	keys := map[learned.Key]bool{}
	for k := range stored {
		keys[k] = f.Intent == "" || f.Intent == k.Intent
	}
	for k := range choices {
		keys[k] = f.Intent == "" || f.Intent == k.Intent
	}
	groups := []edn.Value{}
	for _, k := range slices.SortedFunc(maps.Keys(keys), func(a, b learned.Key) int {
		return cmp.Or(cmp.Compare(a.Intent, b.Intent), cmp.Compare(a.Bucket, b.Bucket))
	}) {
		if keys[k] {
			groups = append(groups, j.groupValue(k, stored[k], choices[k]))
		}
	}
	if len(groups) == 0 {
		if err := j.unknownIntent(f.Intent, keys); err != nil {
			return edn.Nil(), err
		}
	}
	return edn.MustMap(edn.K("since"), journal.Instant(f.Since), edn.K("until"), journal.Instant(f.Until),
		edn.K("groups"), edn.Vector(groups...)), nil
}

// unknownIntent rejects an intent that neither the configuration has nor any of the groups. Without
// a configuration every name may be an intent.
func (j *Runs) unknownIntent(intent string, groups map[learned.Key]bool) *contract.Error {
	if intent == "" || j.Loaded == nil || j.Loaded.Generation == nil {
		return nil
	}
	registry := j.Loaded.Generation.Registry
	if _, there := registry.Intent(intent); there {
		return nil
	}
	known := slices.Clone(registry.Intents())
	for k := range groups {
		known = append(known, k.Intent)
	}
	err := contract.Errorf("invalid-request", "there is no intent :%s", intent).WithHint("\"ferment dispatch stats\" shows all that have learned")
	if near := contract.Nearest(intent, known); near != "" {
		err = err.WithHint("did you mean :" + near + "?")
	}
	return err
}

// rules returns the settings of learned dispatch for an intent: the defaults without a
// configuration.
func (j *Runs) rules(intent string) *policy.Learned {
	var l policy.Layer
	if j.Loaded != nil && j.Loaded.Generation != nil {
		l = j.Loaded.Generation.Policies.For(intent)
	}
	l.Ordering = policy.Of(policy.Learning, policy.Origin{})
	p, err := l.Resolve()
	if err != nil {
		p, _ = policy.Layer{Ordering: l.Ordering}.Resolve()
	}
	return p.Learned
}

// groupValue returns a group as EDN: the current beliefs about its arms, and the statistics of the
// decisions in the period.
func (j *Runs) groupValue(k learned.Key, text string, choices []journal.Choice) edn.Value {
	var b edn.MapBuilder
	b.Key("intent", journal.Keyword(k.Intent))
	if k.Bucket != "" {
		b.Key("bucket", edn.Text(k.Bucket))
	}
	g, err := bandit.Parse(text)
	if err != nil {
		g = &bandit.Group{}
		if text != "" {
			b.Key("unreadable", edn.Text(err.Error()))
		}
	}
	var drawn []bandit.Choice
	counts := map[string]int64{"drawn": 0, "by-mean": 0, "declared": 0, "unknown": 0}
	for _, c := range choices {
		switch {
		case c.Decided.Cold:
			counts["declared"]++
		case c.Decided.Seed == "":
			counts["by-mean"]++
		case !c.Known:
			counts["unknown"]++
		default:
			counts["drawn"]++
			drawn = append(drawn, choiceOf(c))
		}
	}
	var decisions edn.MapBuilder
	for name, n := range counts {
		decisions.Key(name, edn.Int(n))
	}
	b.Key("decisions", decisions.Map())
	estimates := map[bandit.Arm]bandit.Estimate{}
	arms := g.Known()
	for _, e := range bandit.EstimateAll(drawn) {
		if estimates[e.Arm] = e; !slices.Contains(arms, e.Arm) {
			arms = append(arms, e.Arm)
		}
	}
	rules, now := j.rules(k.Intent), time.Now()
	values := make([]edn.Value, len(arms))
	for i, arm := range arms {
		e, estimated := estimates[arm]
		values[i] = armValue(g.Belief(arm, bandit.Declared{}, rules, now), e, estimated)
	}
	b.Key("arms", edn.Vector(values...))
	return b.Map()
}

// choiceOf converts a recorded choice to that of package bandit.
func choiceOf(c journal.Choice) bandit.Choice {
	out := bandit.Choice{Propensity: c.Decided.Propensity, Pass: c.Pass}
	for _, x := range c.Decided.Counts {
		arm := bandit.Arm{CapID: x.CapID, Major: x.Major}
		out.Among = append(out.Among, arm)
		if x.CapID == c.Decided.Order[0] {
			out.First = arm
		}
	}
	return out
}

func armValue(believed bandit.Belief, e bandit.Estimate, estimated bool) edn.Value {
	var b edn.MapBuilder
	b.Key("cap/id", journal.Keyword(believed.CapID))
	b.Key("major", edn.Int(int64(believed.Major)))
	b.Key("outcomes", edn.Int(int64(believed.Outcomes)))
	b.Key("passes", decimal(believed.Passes, 2))
	b.Key("fails", decimal(believed.Fails, 2))
	low, high := believed.Range()
	b.Key("rate", intervalValue(bandit.Interval{Value: believed.Mean(), Low: low, High: high}))
	if believed.Priced {
		b.Key("cost-usd", decimal(believed.Cost, 9))
	}
	if believed.Timed {
		b.Key("latency-ms", decimal(believed.Latency, 0))
	}
	if estimated {
		b.Key("decisions", edn.Int(int64(e.Decisions)))
		b.Key("first", edn.Int(int64(e.First)))
		if e.First > 0 {
			b.Key("inverse", intervalValue(e.Inverse))
			b.Key("normalised", intervalValue(e.Normalised))
		}
	}
	return b.Map()
}

func intervalValue(i bandit.Interval) edn.Value {
	return edn.MustMap(edn.K("value"), decimal(i.Value, 3), edn.K("low"), decimal(i.Low, 3), edn.K("high"), decimal(i.High, 3))
}

// decimal returns v as an EDN decimal, rounded to a number of decimals; nil if it is not finite.
func decimal(v float64, decimals int) edn.Value {
	out, err := edn.ParseDecimal(strconv.FormatFloat(v, 'f', decimals, 64))
	if err != nil {
		return edn.Nil()
	}
	return out
}
