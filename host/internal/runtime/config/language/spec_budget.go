package language

import "time"

// budgetAttrs returns the attributes of a budget block of a scope. An empty scope means one call.
func budgetAttrs(scope string) []Attr {
	count := Type{Kind: KindInt}.between(1, most)
	attrs := []Attr{
		{
			Name: "max_tokens", Type: count, Reload: ReloadUse, Serves: "ENV-016",
			Doc: "maximum number of output tokens of one attempt; tokens that a reasoning model may use in addition are " +
				"also reserved",
		},
		{
			Name: "max_tokens_in", Type: count, Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum number of input tokens of the whole scope",
		},
		{
			Name: "max_tokens_out", Type: count, Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum number of output tokens of the whole scope",
		},
		{
			Name: "max_usd", Type: Type{Kind: KindDec}.atLeast(0), Reload: ReloadUse, Serves: "BUD-001, BUD-007",
			Doc: "maximum cost in US dollars, an exact decimal; by default, capabilities without a known price are skipped",
		},
		{
			Name: "max_wall", Type: dur(time.Millisecond, day), Reload: ReloadUse, Serves: "BUD-001, ATT-006",
			Doc: "maximum elapsed time since the start",
		},
		{
			Name: "max_roundtrips", Type: count, Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum number of sequential waits for candidates; candidates called at once count as one",
		},
		{
			Name: "max_attempts", Type: count, Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum number of calls to candidates, including repairs, without checks",
		},
		{
			Name: "max_judge_calls", Type: count, Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum number of calls to judges, including further votes",
		},
		{
			Name: "max_depth", Type: integer(1, 64), Reload: ReloadUse, Serves: "BUD-001",
			Doc: "maximum nesting depth of plans, maps and host calls",
		},
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
		attrs = append(attrs, Attr{
			Name: "per", Type: enum("total", "day", "month"), Default: `"total"`, Reload: ReloadUse,
			Serves: "LED-004",
			Doc: "period after which the counters restart, in UTC; with a store on disk the counters " +
				"outlive restarts of the host",
		})
	}
	return append(attrs,
		Attr{
			Name: "soft", Type: number01(), Default: `0.8`, Reload: ReloadUse, Serves: "LED-006",
			Doc: "share of a limit from which responses carry a warning",
		},
		Attr{
			Name: "unknown_price", Type: enum("deny", "at-least"), Default: `"deny"`, Reload: ReloadUse,
			Serves: "BUD-003, BUD-007",
			Doc: "with max_usd: deny skips a capability without a known price; at-least reserves the " +
				"price of the most expensive other candidate",
		},
		Attr{
			Name: "refuse_worst_case", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "BUD-004",
			Doc: "reject a run before it starts if its worst case exceeds the remaining budget",
		})
}

// Default limits of a run in profile test-live.
const (
	testLiveUSD  = `"0.05"`
	testLiveWall = `"60s"`
)

func scopeBudget(scope, doc string) Block {
	return Block{Name: "budget", Label: LabelIdent, Only: scope, Doc: doc, Attrs: budgetAttrs(scope)}
}

// budgetBlock is the budget block with one variant per scope.
var budgetBlock = Block{
	Name: "budget", Label: LabelIdent,
	Doc: "spending limits of each tenant, of each caller (user) and of each run",
	Variants: []Block{
		scopeBudget("tenant", "limits of the callers of each tenant together; callers without one share those of the host"),
		scopeBudget("user", "limits of each caller; callers without an identity count as one caller"),
		scopeBudget("run", "limits of each run, with all its calls"),
	},
}
