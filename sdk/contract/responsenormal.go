package contract

import (
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// normal returns the answer without keys that only the host sets, unknown keys,
// and measurements of the wrong kind. part is :result or :error, whichever the
// answer has. A clean answer is returned unchanged.
func normal(v, part edn.Value, want ResultRules) edn.Value {
	var drop []edn.Value
	for key, val := range v.Entries() {
		switch name, _ := key.AsKeyword(); name {
		case "proto", "trace":
		case "result":
			if !edn.Equal(part, kResult) {
				drop = append(drop, key)
				continue
			}
			if cleaned, changed := normalResult(val, want); changed {
				v = v.Assoc(kResult, cleaned)
			}
		case "error":
			if !edn.Equal(part, kError) {
				drop = append(drop, key)
			}
		case "invoke/meta":
			if val.Kind() != edn.KindMap {
				drop = append(drop, key)
			}
		default:
			drop = append(drop, key)
		}
	}
	if len(drop) == 0 {
		return v
	}
	for _, key := range drop {
		want.tell(key)
	}
	return v.Dissoc(drop...)
}

func (want ResultRules) tell(path ...edn.Value) {
	if want.Dropped != nil {
		want.Dropped(path)
	}
}

func normalResult(result edn.Value, want ResultRules) (edn.Value, bool) {
	var drop []edn.Value
	usage := edn.Value{}
	for key, val := range result.Entries() {
		switch name, _ := key.AsKeyword(); name {
		case "type", "out", "plan", "bindings":
		case "usage":
			cleaned, changed := normalUsage(val, want)
			switch {
			case cleaned.Kind() != edn.KindMap:
				drop = append(drop, key)
			case changed:
				usage = cleaned
			}
		default:
			drop = append(drop, key)
		}
	}
	if len(drop) == 0 && usage.IsNil() {
		return result, false
	}
	if !usage.IsNil() {
		result = result.Assoc(kUsage, usage)
	}
	for _, key := range drop {
		want.tell(kResult, key)
	}
	return result.Dissoc(drop...), true
}

// normalUsage drops measurements that a ledger could not sum.
func normalUsage(usage edn.Value, want ResultRules) (edn.Value, bool) {
	if usage.Kind() != edn.KindMap {
		return edn.Value{}, true
	}
	var drop []edn.Value
	for key, val := range usage.Entries() {
		name, _ := key.AsKeyword()
		if !usageFits(name, val) {
			drop = append(drop, key)
		}
	}
	for _, key := range drop {
		want.tell(kResult, kUsage, key)
	}
	if len(drop) == 0 {
		return usage, false
	}
	return usage.Dissoc(drop...), true
}

// Measurements beyond these bounds are rejected, so that sums over thousands of
// calls stay exact.
const (
	maxCount      = 1 << 50
	maxCostUSD    = 1_000_000_000_000
	maxCostPlaces = 60
)

func usageFits(name string, val edn.Value) bool {
	switch name {
	case "latency-ms", "first-token-ms", "tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning",
		"tokens-cache-written":
		n, ok := val.AsInt()
		return ok && n >= 0 && n <= maxCount
	case "cost-usd":
		return costFits(val)
	case "mode":
		word, _ := val.AsKeyword()
		switch word {
		case "live", "deterministic", "scripted", "replay", "cache":
			return true
		}
	case "tokens-mark", "cost-mark":
		word, _ := val.AsKeyword()
		switch word {
		case "exact", "estimated", "at-least", "unknown":
			return true
		}
	}
	return false
}

func costFits(val edn.Value) bool {
	if n, ok := val.AsInt(); ok {
		return n >= 0 && n <= maxCostUSD
	}
	_, exp, ok := val.AsDecimal()
	if !ok || exp < -maxCostPlaces {
		return false
	}
	cost, _ := val.AsNumber()
	return cost.Sign() >= 0 && cost.Cmp(big.NewRat(maxCostUSD, 1)) <= 0
}
