package config

import "time"

// budgetAttrs are the limits that a budget block of a scope may set; an empty
// scope is one call.
func budgetAttrs(scope string) []Attr {
	count := Type{Kind: KindInt}.between(1, most)
	attrs := []Attr{
		{Name: "max_tokens", Type: count, Reload: ReloadUse, Serves: "ENV-016", Doc: "output tokens of one attempt"},
		{Name: "max_tokens_in", Type: count, Reload: ReloadUse, Serves: "BUD-001", Doc: "input tokens together"},
		{Name: "max_tokens_out", Type: count, Reload: ReloadUse, Serves: "BUD-001", Doc: "output tokens together"},
		{Name: "max_usd", Type: Type{Kind: KindDec}.atLeast(0), Reload: ReloadUse, Serves: "BUD-001, BUD-007", Doc: "money, exact to the last digit; a capability whose price is not known is not asked then"},
		{Name: "max_wall", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "BUD-001, ATT-006", Doc: "time from the beginning"},
		{Name: "max_roundtrips", Type: count, Reload: ReloadUse, Serves: "BUD-001", Doc: "waits for answers: candidates that are asked together are one"},
		{Name: "max_attempts", Type: count, Reload: ReloadUse, Serves: "BUD-001", Doc: "calls to candidates, repairs among them, checks not"},
		{Name: "max_judge_calls", Type: count, Reload: ReloadUse, Serves: "BUD-001", Doc: "calls to judges, further votes among them"},
		{Name: "max_depth", Type: integer(1, 64), Reload: ReloadUse, Serves: "BUD-001", Doc: "plans, maps and host calls inside each other"},
	}
	if scope == "" {
		return attrs
	}
	for i := range attrs {
		switch a := &attrs[i]; {
		case scope == "run" && a.Name == "max_usd":
			a.Profiles = map[string]string{ProfileTestLive: testLiveUSD}
		case scope == "run" && a.Name == "max_wall":
			a.Profiles = map[string]string{ProfileTestLive: testLiveWall}
		case a.Name == "max_wall", a.Name == "max_depth":
			a.Doc += ", of each run"
		}
	}
	if scope != "run" {
		attrs = append(attrs, Attr{Name: "per", Type: enum("total", "day", "month"), Default: `"total"`, Reload: ReloadUse, Serves: "LED-004", Doc: "when counting begins anew, by UTC; what is counted lasts as long as the process of the host"})
	}
	return append(attrs,
		Attr{Name: "soft", Type: number01(), Default: `0.8`, Reload: ReloadUse, Serves: "LED-006", Doc: "share of a limit from which on answers warn"},
		Attr{Name: "unknown_price", Type: enum("deny", "at-least"), Default: `"deny"`, Reload: ReloadUse, Serves: "BUD-003, BUD-007", Doc: "where max_usd is set, a capability of unknown price is not asked, or counts as the dearest other candidate"},
		Attr{Name: "refuse_worst_case", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "BUD-004", Doc: "what could take more than is left is refused before it begins"})
}

// What profile test-live allows to a run.
const (
	testLiveUSD  = `"0.05"`
	testLiveWall = `"60s"`
)

func scopeBudget(scope, doc string) Block {
	return Block{Name: "budget", Label: LabelIdent, Only: scope, Doc: doc, Attrs: budgetAttrs(scope)}
}

// budgetBlock is what may be spent by everybody, by each caller and by each run.
var budgetBlock = Block{
	Name: "budget", Label: LabelIdent, Doc: "what may be spent: by everybody together, by each caller, by each run",
	Variants: []Block{
		scopeBudget("tenant", "what all callers of this host may spend together"),
		scopeBudget("user", "what each caller may spend; callers without an identity are one"),
		scopeBudget("run", "what each run may spend with everything that is asked in it"),
	},
}
