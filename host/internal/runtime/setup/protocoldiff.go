package setup

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CheckProtocol checks that v, which was read from file, is an exported protocol package. The error
// is protocol/invalid.
func CheckProtocol(file string, v edn.Value) error {
	said, _ := v.Key("hash").AsString()
	if !v.IsMap() || said == "" {
		return contract.Errorf("protocol/invalid", "%s is not a protocol package: it has no :hash", file).
			WithHint("\"ferment protocol export\" writes one, as EDN")
	}
	if strings.HasSuffix(file, ".json") {
		return contract.Errorf("protocol/invalid",
			"%s is a protocol package in JSON, which loses the types that are compared: keywords, sets and decimals",
			file).WithHint("\"ferment protocol export --edn\" writes one that can be compared")
	}
	if is := edn.Hash(v.Dissoc(edn.K("hash"))); is != said {
		return contract.Errorf("protocol/invalid",
			"%s was changed after its export: its hash is %s, :hash is %s", file, is, said).WithHint("export it again")
	}
	return nil
}

// ProtocolChanges returns the differences of two protocol packages in the order
// of their paths, each as a map with :path, :change (added, removed or changed),
// :before and :after.
func ProtocolChanges(before, after edn.Value) []edn.Value {
	return changes(nil, nil, before.Dissoc(edn.K("hash")), after.Dissoc(edn.K("hash")))
}

// changes compares maps key by key, and all other values as a whole.
func changes(rows, path []edn.Value, before, after edn.Value) []edn.Value {
	if edn.Equal(before, after) {
		return rows
	}
	if !before.IsMap() || !after.IsMap() {
		return append(rows, changeValue(path, "changed", before, after))
	}
	keys := make([]edn.Value, 0, before.Len()+after.Len())
	for k := range before.Entries() {
		keys = append(keys, k)
	}
	for k := range after.Entries() {
		if !before.Has(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, edn.Compare)
	for _, k := range keys {
		here := append(slices.Clone(path), k)
		x, had := before.Get(k)
		y, has := after.Get(k)
		switch {
		case !had:
			rows = append(rows, changeValue(here, "added", edn.Nil(), y))
		case !has:
			rows = append(rows, changeValue(here, "removed", x, edn.Nil()))
		default:
			rows = changes(rows, here, x, y)
		}
	}
	return rows
}

func changeValue(path []edn.Value, change string, before, after edn.Value) edn.Value {
	return edn.MustMap(
		edn.K("path"), edn.Vector(path...),
		edn.K("change"), edn.K(change),
		edn.K("before"), before,
		edn.K("after"), after,
	)
}
