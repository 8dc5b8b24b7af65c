package build

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// budgetKeys maps the attributes of a budget block to keys of the contract.
var budgetKeys = []struct{ attr, key string }{
	{"max_tokens", "max-tokens"}, {"max_tokens_in", "max-tokens-in"}, {"max_tokens_out", "max-tokens-out"}, {"max_usd", "max-usd"},
	{"max_wall", "max-wall-ms"}, {"max_roundtrips", "max-roundtrips"}, {"max_attempts", "max-attempts"}, {"max_judge_calls", "max-judge-calls"}, {"max_depth", "max-depth"},
}

// budgetFields returns the limits of a budget block as fields of the contract.
func (b *builder) budgetFields(s *decode.Section, source policy.Source) policy.Fields {
	var out policy.Fields
	for _, k := range budgetKeys {
		v, ok := s.Attrs[k.attr]
		if !ok || v.EDN.IsNil() {
			continue
		}
		amount := v.EDN
		if k.attr == "max_wall" {
			amount = edn.Int(s.Duration(k.attr).Milliseconds())
		}
		where := ""
		if v.At != nil {
			where = v.At.String()
		}
		out = append(out, policy.Field{
			Key:    edn.K(k.key),
			Value:  amount,
			Origin: policy.Origin{Source: source, Where: where},
		})
	}
	return out
}

// budgets returns the budget blocks. Their limits per call become the lowest policy layer.
func (b *builder) budgets(book *policy.Book) *policy.Budgets {
	out := &policy.Budgets{}
	to := map[string]*policy.ScopeBudget{"tenant": &out.Tenant, "user": &out.User, "run": &out.Run}
	for _, s := range b.All("budget") {
		if block := to[s.Label()]; block != nil {
			b.scopeBudget(s, block)
		}
	}
	if !out.Run.Written && b.Profile == language.ProfileTestLive {
		out.Run = testLiveRun()
	}
	if !out.Any() {
		return nil
	}
	book.Default = policy.Merge(book.Default, out.CallLayer())
	return out
}

func (b *builder) scopeBudget(s *decode.Section, out *policy.ScopeBudget) {
	fields := b.budgetFields(s, policy.SourceDefault)
	limits, err := policy.LimitsOf(fields.Value())
	if err != nil {
		return // already reported
	}
	limited := slices.ContainsFunc(budgetKeys, func(k struct{ attr, key string }) bool {
		return s.Node.Attrs[k.attr] != nil
	})
	if !limited {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message:  s.Node.Title() + " has no limit, so it does nothing",
			Range:    s.At(),
			Path:     s.Node.Path,
			Hint:     "write a limit in it, such as max_usd = \"1.00\", or remove the block",
		})
	}
	*out = policy.ScopeBudget{
		Written:     true,
		Limits:      limits,
		Wall:        s.Duration("max_wall"),
		Depth:       s.Integer("max_depth"),
		Per:         s.Text("per"),
		Soft:        s.Attrs["soft"].EDN,
		AtLeast:     s.Text("unknown_price") == "at-least",
		RefuseWorst: s.Flag("refuse_worst_case"),
		Where:       s.Where(),
	}
	for _, f := range fields {
		if name, _ := f.Key.AsKeyword(); name == "max-tokens" {
			out.Calls = append(out.Calls, f)
		}
	}
}

// testLiveRun returns the default budget of a run in profile test-live.
func testLiveRun() policy.ScopeBudget {
	limits, _ := policy.LimitsOf(edn.MustRead("{:max-usd 0.05M}"))
	return policy.ScopeBudget{Written: true, Limits: limits, Wall: 60 * 1e9, Soft: policy.DefaultSoft, Per: "total"}
}
