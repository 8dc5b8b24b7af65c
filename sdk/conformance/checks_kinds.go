package conformance

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func modelChecks() []Check {
	return []Check{
		{ID: "llm/answer/text", Requirements: []string{"MODEL-001"},
			Text: "every intent of a model is answered with a text or with calls of tools",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileLLM, func(a answer) error {
					if calls := a.out.Key("tool/calls"); calls.Len() > 0 || hasText(a.out) {
						return nil
					}
					return want("a text or calls of tools for "+a.String(), "%s", cut(a.out.String()))
				})
			}},
		{ID: "llm/usage/stated", Requirements: []string{"MODEL-002"},
			Text: "the answer of a model has a well-formed :usage of this call alone with its :mode, and token counts if a live model answered",
			run:  usageStated},
		{ID: "llm/finish/stated", Requirements: []string{"MODEL-003"},
			Text: "the answer of a model has the reason of its end in :finish, of the output or of :invoke/meta",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileLLM, func(a answer) error {
					finish := a.out.Key("finish")
					if finish.IsNil() {
						finish = a.response.Key("invoke/meta").Key("finish")
					}
					if slices.Contains(finishes(), wordOf(finish)) {
						return nil
					}
					return want(":finish out of "+strings.Join(finishes(), ", ")+" for "+a.String(), "%s in %s", finish,
						cut(a.response.String()))
				})
			}},
		{ID: "llm/effects/none", Requirements: []string{"MODEL-004"},
			Text: "the capability of a model has no effects",
			run: func(ctx context.Context, b *bench) error {
				return b.effects(ctx, profileLLM, nil)
			}},
	}
}

func finishes() []string { return []string{"stop", "length", "tool-calls", "refused"} }

// hasText reports whether an output has a non-blank text.
func hasText(out edn.Value) bool {
	for _, v := range out.Entries() {
		if s, ok := v.AsString(); ok && strings.TrimSpace(s) != "" {
			return true
		}
	}
	return false
}

func usageCounts() []string {
	return []string{
		"latency-ms", "first-token-ms", "tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning", "tokens-cache-written",
	}
}

func usageMarks() []string { return []string{"tokens-mark", "cost-mark"} }

// usageKeys are the entries of a usage that a host reads.
func usageKeys() []string {
	return slices.Concat([]string{"mode", "cost-usd"}, usageCounts(), usageMarks())
}

// usageRepeats is the number of times a question is asked to check its token counts.
const usageRepeats = 4

// usageStated checks the usage of one answer of every model. If the model
// answers fast, it repeats the question: token counts of equal inputs that grow
// with each call are a sum over calls.
func usageStated(ctx context.Context, b *bench) error {
	if err := b.values(ctx, profileLLM, usage); err != nil {
		return err
	}
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	until := time.Now().Add(quickly)
	for _, q := range b.questions(d, profileLLM) {
		var counts []int64
		for len(counts) < usageRepeats && time.Now().Before(until) {
			a, err := b.ask(ctx, in, q)
			n, ok := a.response.Key("result").Key("usage").Key("tokens-in").AsInt()
			if err != nil || !ok || len(counts) > 0 && n <= counts[len(counts)-1] {
				break
			}
			counts = append(counts, n)
		}
		if len(counts) == usageRepeats {
			return want(":tokens-in of one call for "+q.String(), "%v for equal requests, one after the other", counts)
		}
	}
	return nil
}

// usage checks the usage in the answer of a model.
func usage(a answer) error {
	u := a.response.Key("result").Key("usage")
	modes := []string{"live", "deterministic", "scripted", "replay", "cache"}
	mode := wordOf(u.Key("mode"))
	if !slices.Contains(modes, mode) {
		return want(":usage with a :mode out of "+strings.Join(modes, ", ")+" for "+a.String(), "%s", cut(u.String()))
	}
	for _, name := range usageCounts() {
		v := u.Key(name)
		if v.IsNil() && (mode != "live" || (name != "tokens-in" && name != "tokens-out")) {
			continue
		}
		if n, ok := v.AsInt(); !ok || n < 0 {
			return want(fmt.Sprintf(":%s, a count from 0, for %s", name, a), "%s in %s", v, cut(u.String()))
		}
	}
	if cost := u.Key("cost-usd"); !cost.IsNil() && cost.Kind() != edn.KindDecimal && cost.Kind() != edn.KindInt &&
		!cost.IsString() {
		return want(":cost-usd, a decimal, for "+a.String(), "%s", cost)
	}
	marks := []string{"exact", "estimated", "at-least", "unknown"}
	for _, name := range usageMarks() {
		if mark := u.Key(name); !mark.IsNil() && !slices.Contains(marks, wordOf(mark)) {
			return want(fmt.Sprintf(":%s out of %s for %s", name, strings.Join(marks, ", "), a), "%s", mark)
		}
	}
	return nil
}

// effects checks that the capabilities of a kind have no effects except some.
func (b *bench) effects(ctx context.Context, kind string, but []string) error {
	_, _, d, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, c := range d.Capabilities {
		if c.Kind != kind {
			continue
		}
		found = true
		for _, e := range c.Effects {
			if e != "none" && !slices.Contains(but, e) {
				return want(fmt.Sprintf("no effects but %v of capability %s", append([]string{"none"}, but...), c.ID), "%v", c.Effects)
			}
		}
	}
	if !found {
		return untestable("the plugin has no capability of kind %s", kind)
	}
	return nil
}

func judgeChecks() []Check {
	return []Check{
		{ID: "judge/verdict/score", Requirements: []string{"JUDGE-001"},
			Text: "a verdict has a score from 0 to 1",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileJudge, func(a answer) error {
					if share(a.out.Key("score")) {
						return nil
					}
					return want(":score, a number from 0 to 1, for "+a.String(), "%s in %s", a.out.Key("score"), cut(a.out.String()))
				})
			}},
		{ID: "judge/verdict/form", Requirements: []string{"JUDGE-002"},
			Text: "violations, retry and criteria of a verdict are well formed",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileJudge, verdictForm)
			}},
		{ID: "judge/input/refused", Requirements: []string{"JUDGE-003"},
			Text: "an input with nothing to judge is refused with a typed error",
			run:  shared(judgeRefuses)},
	}
}

// share reports whether a value is a number from 0 to 1.
func share(v edn.Value) bool {
	n, ok := v.AsNumber()
	return ok && n.Sign() >= 0 && n.Cmp(big.NewRat(1, 1)) <= 0
}

func verdictForm(a answer) error {
	if v := a.out.Key("violations"); !v.IsNil() && !collection(v) {
		return want(":violations, a set or a vector, for "+a.String(), "%s", cut(v.String()))
	}
	if v := a.out.Key("retry?"); !v.IsNil() && v.Kind() != edn.KindBool {
		return want(":retry?, true or false, for "+a.String(), "%s", cut(v.String()))
	}
	criteria := a.out.Key("criteria")
	if criteria.IsNil() {
		return nil
	}
	if !criteria.IsMap() {
		return want(":criteria, a map from name to score, for "+a.String(), "%s", cut(criteria.String()))
	}
	for name, score := range criteria.Entries() {
		if !share(score) {
			return want(fmt.Sprintf("a score from 0 to 1 for criterion %s of %s", name, a), "%s", cut(score.String()))
		}
	}
	return nil
}

func collection(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		return true
	}
	return false
}

func judgeRefuses(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, q := range b.questions(d, profileJudge) {
		q.input = edn.MustMap()
		a, err := b.ask(ctx, in, q)
		if err == nil {
			return want("a typed error for "+q.String()+" with nothing to judge", "the verdict %s", cut(a.out.String()))
		}
		if err := typedError(err); err != nil {
			return err
		}
	}
	return b.alive(ctx, in, "an input with nothing to judge")
}

// repeatCalls is the number of calls per question between two answers that must
// be equal, if the plugin answers fast.
const repeatCalls = 120

// again asks every question about the chosen capabilities twice and compares
// the answers. If more is not 0, it makes up to that many calls per question
// and compares once more.
func (b *bench) again(
	ctx context.Context, kind string, more int, chosen func(contract.Capability) bool,
	compare func(first, second answer) error,
) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	var kinds []string
	if kind != "" {
		kinds = []string{kind}
	}
	var answers []answer
	var asked []question
	for _, q := range b.questions(d, kinds...) {
		if !chosen(q.capability) {
			continue
		}
		first, err := b.ask(ctx, in, q)
		if err != nil {
			if err := b.sameError(ctx, in, q, err); err != nil {
				return err
			}
			continue
		}
		second, err := b.ask(ctx, in, q)
		if err != nil {
			return want("the same answer again for "+q.String(), "the error %v", err)
		}
		if err := compare(first, second); err != nil {
			return err
		}
		answers, asked = append(answers, first), append(asked, q)
	}
	if more == 0 || len(asked) == 0 {
		return nil
	}
	if _, err := b.load(ctx, in, asked, more*len(asked), quickly); err != nil {
		return err
	}
	until := time.Now().Add(quickly)
	for _, first := range answers {
		later, err := b.ask(ctx, in, first.question)
		if err == nil {
			err = compare(first, later)
		} else if contract.AsError(err).Class == contract.ClassRetry || overloaded(err) {
			err = nil
		}
		if err != nil || time.Now().After(until) {
			return err
		}
	}
	return nil
}

// sameError repeats a question that was refused with the error first.
func (b *bench) sameError(ctx context.Context, in Instance, q question, first error) error {
	if err := typedError(first); err != nil {
		return err
	}
	a, second := b.ask(ctx, in, q)
	if second == nil {
		return want(fmt.Sprintf("the same refusal again for %s: %v", q, first), "the answer %s", cut(a.out.String()))
	}
	one, two := contract.AsError(first), contract.AsError(second)
	if one.Type != two.Type || one.Message != two.Message {
		return want(fmt.Sprintf("the same refusal again for %s: %v", q, first), "%v", second)
	}
	return nil
}

func checkerChecks() []Check {
	return []Check{
		{ID: "checker/verdict/form", Requirements: []string{"CHECKER-001"},
			Text: "at least one intent of a checker is answered with a verdict: a boolean, findings, or a map with one of " + strings.Join(verdicts(), " "),
			run:  checkerVerdict},
		{ID: "checker/findings/form", Requirements: []string{"CHECKER-002"},
			Text: "findings are a collection of texts or of maps with a message",
			run: func(ctx context.Context, b *bench) error {
				return b.values(ctx, profileChecker, func(a answer) error {
					f := a.out.Key("findings")
					if f.IsNil() || findingsForm(f) {
						return nil
					}
					return want(":findings, texts or maps with a :message, for "+a.String(), "%s", cut(f.String()))
				})
			}},
		{ID: "checker/input/beside", Requirements: []string{"CHECKER-003"},
			Text: "a check has the same verdict when :check/request and :check/result are added to its input",
			run:  shared(checkerBeside)},
		{ID: "checker/effects/reads", Requirements: []string{"CHECKER-004"},
			Text: "a check has no effects beyond reading",
			run: func(ctx context.Context, b *bench) error {
				return b.effects(ctx, profileChecker, readEffects())
			}},
	}
}

// verdicts are the keys of a verdict; the first one present decides.
func verdicts() []string {
	return []string{":ok?", ":accepted?", ":pass?", ":legal?", ":valid?", ":applies?", ":tests/pass?"}
}

// verdict returns the verdict of an output. ok is false without one.
func verdict(out edn.Value) (pass, ok bool) {
	for _, key := range verdicts() {
		if v := out.Key(key[1:]); !v.IsNil() {
			return v.AsBool()
		}
	}
	if f := out.Key("findings"); findingsForm(f) {
		return f.Len() == 0, true
	}
	return out.Key("value").AsBool() // a bare boolean
}

func findingsForm(v edn.Value) bool {
	if !collection(v) {
		return false
	}
	for f := range v.Elems() {
		if !f.IsString() && !(f.IsMap() && f.Key("message").IsString()) {
			return false
		}
	}
	return true
}

func checkerVerdict(ctx context.Context, b *bench) error {
	judged := map[string]bool{}
	var last answer
	err := b.values(ctx, profileChecker, func(a answer) error {
		last = a
		_, ok := verdict(a.out)
		judged[a.capability.ID] = judged[a.capability.ID] || ok
		return nil
	})
	if err != nil {
		return err
	}
	for id, ok := range judged {
		if !ok {
			return want("a verdict for an intent of capability "+id, "none, the last answer is %s", cut(last.out.String()))
		}
	}
	return nil
}

func checkerBeside(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, q := range b.questions(d, profileChecker) {
		alone, err := b.value(ctx, in, q)
		if err != nil {
			return err
		}
		beside := q
		beside.input = q.input.AssocKey("check/request", q.request()).AssocKey("check/result",
			edn.MustMap(edn.K("text"), edn.Text("x")))
		a, err := b.ask(ctx, in, beside)
		if err != nil {
			return want("an answer for "+q.String()+" with :check/request and :check/result", "the error %v", err)
		}
		one, ok := verdict(alone.out)
		if two, _ := verdict(a.out); ok && one != two {
			return want(fmt.Sprintf("the verdict %t for %s", one, q), "%t with :check/request and :check/result beside it", two)
		}
	}
	return nil
}
