package pricelist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

var today = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// LLM-020: every shipped price has a source and a date.
func TestShippedList(t *testing.T) {
	l, problems := Parse(shipped, today)
	require.Empty(t, problems)
	models := map[string]int{}
	for _, e := range l.Prices {
		models[e.Vendor] += len(e.Models)
		for _, m := range e.Models {
			got, ok := l.Find(e.Vendor, m, today)
			assert.True(t, ok, m)
			assert.True(t, e.same(got), m)
		}
		in, _ := e.Input.AsNumber()
		if cached, ok := e.CachedInput.AsNumber(); ok {
			assert.Positive(t, in.Cmp(cached), "%s: cached input costs less than input", e.Models)
		}
		if write, ok := e.CacheWrite.AsNumber(); ok {
			assert.Negative(t, in.Cmp(write), "%s: a cache write costs more than input", e.Models)
		}
	}
	for vendor := range l.Vendors {
		assert.Positive(t, models[vendor], vendor)
	}
}

// LLM-020: a price applies to the exact model or a dated version of it, and to no
// other model.
func TestFind(t *testing.T) {
	l, problems := Parse([]byte(`{:prices/version 1 :currency "USD" :vendors {"v" {:hosts ["api.v.example"]} "w" {:hosts []}}
 :prices [{:vendor "v" :models ["m" "m-alias"] :input 1M :output 2M :date "2026-01-01" :source "s"}
          {:vendor "v" :models ["m-2026-02-03"] :input 3M :output 4M :date "2026-01-01" :source "s"}
          {:vendor "v" :models ["brief"] :input 5M :output 6M :until "2026-11-25" :date "2026-01-01" :source "s"}]}`), today)
	require.Empty(t, problems)
	for model, input := range map[string]string{
		"m": "1M", "m-alias": "1M", "m-2026-01-02": "1M", "m-20260102": "1M", "m-2026-02-03": "3M", "brief": "5M",
		"m-mini": "", "m-latest": "", "m-1": "", "m-2601": "", "m-2026-01-02-x": "", "M": "", "": "",
	} {
		e, ok := l.Find("v", model, today)
		require.Equal(t, input != "", ok, model)
		if ok {
			assert.True(t, edn.Equal(edn.MustRead(input), e.Input), model)
		}
	}
	_, ok := l.Find("w", "m", today)
	assert.False(t, ok, "another vendor")
	_, ok = l.Find("v", "brief", today.AddDate(0, 0, 1))
	assert.False(t, ok, "after its last day")
	assert.Equal(t, "v", l.VendorAt("API.v.example"))
	assert.Empty(t, l.VendorAt("v.example"))
}

// An invalid list is rejected with the place of every problem, and the expected
// and found values.
func TestParseProblems(t *testing.T) {
	type problem struct {
		line            int
		path            string
		expected, found bool
	}
	head := `{:prices/version 1 :currency "USD" :vendors {"v" {:hosts []}}` + "\n:prices [\n"
	entry := `{:vendor "v" :models ["m"] :input 1M :output 2M :date "2026-01-01" :source "s"}`
	for name, tt := range map[string]struct {
		text string
		want []problem
	}{
		"no EDN":              {"{:a", []problem{{1, "[]", false, false}}},
		"no map":              {"[1]", []problem{{1, "[]", true, true}}},
		"a float":             {head + strings.Replace(entry, "1M", "1.5", 1) + "]}", []problem{{3, "[:prices 0 :input]", true, true}}},
		"a negative amount":   {head + strings.Replace(entry, "1M", "-1M", 1) + "]}", []problem{{3, "[:prices 0 :input]", true, true}}},
		"no output":           {head + strings.Replace(entry, ":output 2M", "", 1) + "]}", []problem{{3, "[:prices 0 :output]", true, false}}},
		"an unknown key":      {head + strings.Replace(entry, ":output", ":cost 1 :output", 1) + "]}", []problem{{3, "[:prices 0 :cost]", false, true}}},
		"an unknown vendor":   {head + strings.Replace(entry, `"v"`, `"x"`, 1) + "]}", []problem{{3, "[:prices 0 :vendor]", true, true}}},
		"a model twice":       {head + entry + "\n" + entry + "]}", []problem{{4, "[:prices 1 :models 0]", false, true}}},
		"a day that is none":  {head + strings.Replace(entry, "2026-01-01", "2026-02-30", 1) + "]}", []problem{{3, "[:prices 0 :date]", true, true}}},
		"a day in the future": {head + strings.Replace(entry, "2026-01-01", "2026-11-26", 1) + "]}", []problem{{3, "[:prices 0 :date]", true, true}}},
		"two problems": {
			head + strings.Replace(entry, `"s"`, `""`, 1) + "\n" + strings.Replace(entry, "2M", `"2"`, 1) + "]}",
			[]problem{{3, "[:prices 0 :source]", true, true}, {4, "[:prices 1 :output]", true, true}},
		},
	} {
		l, problems := Parse([]byte(tt.text), today)
		assert.Empty(t, l.Prices, name)
		var got []problem
		for _, p := range problems {
			got = append(got, problem{p.Line, edn.Vector(p.Path...).String(), !p.Expected.IsNil(), !p.Found.IsNil()})
		}
		assert.Equal(t, tt.want, got, name)
	}
}

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := InForce(dir, today)
	require.NoError(t, err)
	assert.Empty(t, l.Origin)
	assert.Len(t, l.Prices, len(Shipped().Prices))

	own := Shipped()
	own.Prices = append([]Entry{{Vendor: "openai", Models: []string{"new"}, Input: edn.MustDecimal("1"), Output: edn.MustDecimal("2"), Date: "2026-11-01", Source: "a contract"}}, own.Prices[1:]...)
	own.Prices[1].Output = edn.MustDecimal("99")
	first, second := Shipped().Prices[0], Shipped().Prices[1]
	changes := Compare(Shipped(), own)
	assert.Equal(t, Changes{Added: []string{"openai/new"}, Changed: []string{"openai/" + second.Models[0]}, Removed: []string{"openai/" + first.Models[0]}}, changes)
	assert.Equal(t, Changes{}, Compare(own, own))

	file, err := own.Install(dir)
	require.NoError(t, err)
	l, err = InForce(dir, today)
	require.NoError(t, err)
	assert.Equal(t, file, l.Origin)
	assert.Equal(t, Changes{}, Compare(own, l), "what was written is what is read")

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	l, err = InForce(dir, today)
	require.Error(t, err)
	assert.Equal(t, Changes{}, Compare(Shipped(), l))
}
