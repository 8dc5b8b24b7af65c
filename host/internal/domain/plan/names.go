package plan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The ids of the static checks (evaluation.md section 14).
const (
	checkUnknownKey    = "CHECK-010"
	checkIntent        = "CHECK-011"
	checkCapability    = "CHECK-012"
	checkSchema        = "CHECK-013"
	checkCheck         = "CHECK-014"
	checkType          = "CHECK-015"
	checkDuplicate     = "CHECK-016"
	checkNeverFilled   = "CHECK-017"
	checkFilledLater   = "CHECK-018"
	checkCycle         = "CHECK-019"
	checkNeverFits     = "CHECK-020"
	checkEffects       = "CHECK-021"
	checkMust          = "CHECK-022"
	checkWorst         = "CHECK-023"
	checkParallel      = "CHECK-024"
	checkNoCandidate   = "CHECK-025"
	checkLimit         = "CHECK-026"
	checkMap           = "CHECK-027"
	checkHostOnly      = "CHECK-028"
	checkSystem        = "CHECK-029"
	checkNeverRead     = "CHECK-040"
	checkNeverRuns     = "CHECK-041"
	checkOverwritten   = "CHECK-042"
	checkNoSwitchOn    = "CHECK-043"
	checkSlotLike      = "CHECK-044"
	checkMaybeUnfilled = "CHECK-045"
	checkUnbounded     = "CHECK-046"
	checkRaceStream    = "CHECK-047"
	checkLearned       = "CHECK-048"
	checkUnnamed       = "CHECK-049"
)

// slotSystem is the key with which a plan permits a slot in a system prompt.
const slotSystem = "slot/system?"

// Keywords used in paths and lookups; values are immutable.
var (
	kNodes       = edn.K("nodes")
	kID          = edn.K("id")
	kOp          = edn.K("op")
	kAs          = edn.K("as")
	kWhen        = edn.K("when")
	kNeeds       = edn.K("needs")
	kIntent      = edn.K("intent")
	kCapID       = edn.K("cap/id")
	kCapRef      = edn.K("cap/ref")
	kToolID      = edn.K("tool/id")
	kValue       = edn.K("value")
	kOver        = edn.K("over")
	kInput       = edn.K("input")
	kOut         = edn.K("out")
	kSystem      = edn.K("system")
	kBudget      = edn.K("budget")
	kMaxUSD      = edn.K("max-usd")
	kBody        = edn.K("body")
	kPlan        = edn.K("plan")
	kFn          = edn.K("fn")
	kItem        = edn.K("item")
	kEffects     = edn.K("effects")
	kAllowed     = edn.K("allowed")
	kRequires    = edn.K("requires")
	kOutput      = edn.K("output")
	kSchema      = edn.K("schema")
	kDispatch    = edn.K("dispatch")
	kCandidates  = edn.K("candidates")
	kExclude     = edn.K("exclude")
	kChecks      = edn.K("checks")
	kChecksHard  = edn.K("checks/hard")
	kChecksSoft  = edn.K("checks/soft")
	kRetry       = edn.K("retry")
	kStrategy    = edn.K("strategy")
	kDone        = edn.K("done")
	kMust        = edn.K("must")
	kPolicy      = edn.K("policy")
	kShould      = edn.K("should")
	kTemperature = edn.K("temperature")
	kFinal       = edn.K("final")
	kSlotID      = edn.K("slot/id")
	kSlotPath    = edn.K("slot/path")
	kSlotDefault = edn.K("slot/default")
	kSlotSystem  = edn.K(slotSystem)
)

// planKeyNames are the keys of a plan map.
var planKeyNames = []string{"bindings", "id", "max-parallel", "mode", "nodes"}

// show formats a value for a message. A long value is replaced by its kind.
func show(v edn.Value) string {
	const most = 40
	switch v.Kind() {
	case edn.KindMap, edn.KindVector, edn.KindList, edn.KindSet:
		if v.Len() > 8 {
			return "a " + v.Kind().String() + " of " + fmt.Sprint(v.Len())
		}
	}
	s := v.String()
	if utf8.RuneCountInString(s) > most {
		return "a " + v.Kind().String()
	}
	return s
}

func showPath(path []edn.Value) string {
	if len(path) == 0 {
		return "the plan"
	}
	return edn.Vector(path...).String()
}

// suggest returns the text that appends a nearest name to a message, "" if near is nil.
func suggest(near edn.Value) string {
	if near.IsNil() {
		return ""
	}
	return "; nearest is " + near.String()
}

// nearestName returns the known name with the most similar spelling, else the
// only known name that begins with the written one, as :deadline-ms for
// :deadline; "" for none.
func nearestName(name string, known []string) string {
	if near := contract.Nearest(name, known); near != "" || name == "" {
		return near
	}
	near := ""
	for _, k := range known {
		rest, begins := strings.CutPrefix(k, name)
		if !begins || !strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "/") {
			continue
		}
		if near != "" {
			return ""
		}
		near = k
	}
	return near
}

// nearest returns the known name most similar to the written one as a keyword,
// or nil.
func nearest(name string, known []string) edn.Value {
	return keywordOr(nearestName(name, known))
}

// keywordOr returns the keyword of a name, or nil for none.
func keywordOr(name string) edn.Value {
	if name == "" {
		return edn.Nil()
	}
	return edn.K(name)
}
