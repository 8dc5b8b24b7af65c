package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-080: the defaults, the built-in names, and what a map changes.
func TestParse(t *testing.T) {
	want := View{
		MaxFrames: 100, MaxBytes: 1 << 20, Select: Heads, Order: Recency, Include: []store.HeadState{store.Stale}, Content: true,
	}
	parse := func(text string, o Options) View {
		v, err := Parse(edn.MustRead(text), o)
		require.NoError(t, err, text)
		return v
	}
	for _, text := range []string{"nil", "{}", ":default", `"default"`, ":heads"} {
		assert.Equal(t, want, parse(text, Options{}), text)
	}
	assert.Equal(t, History, parse(":history", Options{}).Select)
	assert.Equal(t, Fresh, parse(":fresh", Options{}).Select)
	assert.Equal(t, ByType, parse(":by-type", Options{}).Order)
	assert.Equal(t, ByAgent, parse(`"by-agent"`, Options{}).Order)
	got := parse(`{:max-frames 0 :max-bytes 7 :select :history :ordering :agent :order ["b" "a"] :include #{:deleted :invalid} :content? false
		:filters [[:type #{"t"}] [:meta :k 1] [:since #inst "1970-01-01T00:00:00.000000005Z"] [:origin #{:authored}]]}`, Options{})
	assert.Equal(t, []any{0, 7, History, ByAgent, []string{"b", "a"}, false}, []any{got.MaxFrames, got.MaxBytes, got.Select, got.Order, got.Priority, got.Content})
	assert.ElementsMatch(t, []store.HeadState{store.Deleted, "invalid"}, got.Include)
	require.Len(t, got.Filters, 4)
	assert.Equal(t, int64(5), got.Filters[2].At)

	mine := View{MaxFrames: 3}
	o := Options{Named: map[string]View{"mine": mine, "default": {MaxFrames: 9}}}
	assert.Equal(t, mine, parse(":mine", o))
	assert.Equal(t, 9, parse("nil", o).MaxFrames, "a configuration can replace a built-in view")
	assert.Equal(t, []int{100, 1 << 20}, []int{parse("{}", o).MaxFrames, parse("{}", o).MaxBytes}, "a map is about the default")
}

// WS-080, WS-082, WS-220: an error names the place in the input and what is
// allowed there.
func TestParseRefuses(t *testing.T) {
	for text, at := range map[string]string{
		`:nope`:                           `[:view]`,
		`7`:                               `[:view]`,
		`{:max-frame 1}`:                  `[:view :max-frame]`,
		`{"max-frames" 1}`:                `[:view "max-frames"]`,
		`{:max-frames -1}`:                `[:view :max-frames]`,
		`{:max-frames 1001}`:              `[:view :max-frames]`,
		`{:max-frames 1.0}`:               `[:view :max-frames]`,
		`{:max-frames "1"}`:               `[:view :max-frames]`,
		`{:max-bytes 8388609}`:            `[:view :max-bytes]`,
		`{:select :all}`:                  `[:view :select]`,
		`{:ordering :relevance}`:          `[:view :ordering]`,
		`{:order :a}`:                     `[:view :order]`,
		`{:order [1]}`:                    `[:view :order]`,
		`{:include #{:fresh}}`:            `[:view :include]`,
		`{:include :stale}`:               `[:view :include]`,
		`{:content? 1}`:                   `[:view :content?]`,
		`{:filters #{}}`:                  `[:view :filters]`,
		`{:filters [[]]}`:                 `[:view :filters 0]`,
		`{:filters [[:type #{"a"}] 7]}`:   `[:view :filters 1]`,
		`{:filters [[:typ #{"a"}]]}`:      `[:view :filters 0 0]`,
		`{:filters [[:path "a"]]}`:        `[:view :filters 0 0]`, // of compositions only
		`{:filters [[:type "a"]]}`:        `[:view :filters 0 1]`,
		`{:filters [[:type #{:a}]]}`:      `[:view :filters 0 1]`,
		`{:filters [[:type #{"a"} 1]]}`:   `[:view :filters 0]`,
		`{:filters [[:meta :a]]}`:         `[:view :filters 0]`,
		`{:filters [[:origin #{:made}]]}`: `[:view :filters 0 1]`,
		`{:filters [[:since "now"]]}`:     `[:view :filters 0 1]`,
	} {
		_, err := Parse(edn.MustRead(text), Options{At: []edn.Value{edn.K("view")}})
		require.ErrorIs(t, err, contract.OfType("input/invalid"), text)
		e := contract.AsError(err)
		assert.Equal(t, at, e.Details.Key("path").String(), text)
		assert.False(t, e.Details.Key("reason").IsNil(), text)
	}
	_, err := Parse(edn.MustRead(`{:ordering :relevance}`), Options{})
	assert.Equal(t, `[":recency" ":type" ":agent"]`, contract.AsError(err).Details.Key("allowed").String())
	_, err = Parse(edn.MustRead(`:nope`), Options{Named: map[string]View{"mine": {}}})
	assert.Equal(t, `["by-agent" "by-type" "default" "fresh" "heads" "history" "mine"]`, contract.AsError(err).Details.Key("allowed").String())
}

// WS-130 to WS-134, WS-220: what a composition can be, and the place of what is
// wrong in it.
func TestRequestFrom(t *testing.T) {
	id := "n1-b3-" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	r, err := RequestFrom(edn.MustRead(`{:path "a" :sources [:current :parent :siblings [:related ["b" "`+id+`"]]] :ordering [:type-priority ["x"]]
		:query "q" :max-frames 5 :max-bytes 6 :as :ids :filters [[:path "*.go"] [:state #{:deleted}]]}`), Options{})
	require.NoError(t, err)
	assert.Equal(t, []store.Ref{{Path: "b"}, {Node: id}}, r.Sources[3].Nodes)
	assert.Equal(t, []any{TypePriority, "q", 5, 6, true}, []any{r.Ordering.Kind, r.Query, r.MaxFrames, r.MaxBytes, r.IDs})
	r, err = RequestFrom(edn.MustRead(`{:path "."}`), Options{})
	require.NoError(t, err)
	assert.Equal(t, Request{Sources: []Source{{Kind: Current}}, Ordering: Ordering{Kind: NewestFirst}, MaxFrames: 100, MaxBytes: 1 << 20}, r)
	r, err = RequestFrom(edn.MustRead(`{:path "." :ordering [:custom {:intent :a/b :content? true :on-error :relevance}]}`), Options{})
	require.NoError(t, err)
	assert.Equal(t, Ordering{Kind: Custom, Intent: "a/b", Content: true, OnError: &Ordering{Kind: Relevance}}, r.Ordering)
	for text, at := range map[string]string{
		`{:path "a" :sources :current}`:                                                     `[:sources]`,
		`{:path "a" :sources [:children]}`:                                                  `[:sources 0]`,
		`{:path "a" :sources [:current [:related]]}`:                                        `[:sources 1]`,
		`{:path "a" :sources [:related]}`:                                                   `[:sources 0]`,
		`{:path "a" :sources [[:related "b"]]}`:                                             `[:sources 0 1]`,
		`{:path "a" :sources [[:related [1]]]}`:                                             `[:sources 0 1]`,
		`{:path "a" :ordering :random}`:                                                     `[:ordering]`,
		`{:path "a" :ordering [:type-priority]}`:                                            `[:ordering]`,
		`{:path "a" :ordering [:type-priority "x"]}`:                                        `[:ordering 1]`,
		`{:path "a" :ordering [:custom {}]}`:                                                `[:ordering 1]`,
		`{:path "a" :ordering [:custom {:intent :bare}]}`:                                   `[:ordering 1 :intent]`,
		`{:path "a" :ordering [:custom {:intent :a/b :more 1}]}`:                            `[:ordering 1 :more]`,
		`{:path "a" :ordering [:custom {:intent :a/b :on-error [:custom {:intent :a/b}]}]}`: `[:ordering 1 :on-error]`,
		`{:path "a" :query 1}`:                                                              `[:query]`,
		`{:path "a" :max-frames 1001}`:                                                      `[:max-frames]`,
		`{:path "a" :as :text}`:                                                             `[:as]`,
		`{:path "a" :filters [[:state #{:old}]]}`:                                           `[:filters 0 1]`,
		`{:path "a" :filters [[:path "!a"]]}`:                                               `[:filters 0 1]`,
		`{:path "a" :filters [[:path ""]]}`:                                                 `[:filters 0 1]`,
	} {
		_, err := RequestFrom(edn.MustRead(text), Options{})
		require.ErrorIs(t, err, contract.OfType("input/invalid"), text)
		assert.Equal(t, at, contract.AsError(err).Details.Key("path").String(), text)
	}
	many := edn.MustMap(edn.K("path"), edn.Text("a"), edn.K("sources"), edn.Vector(edn.Vector(edn.K("related"), edn.Vector(make([]edn.Value, 101)...))))
	_, err = RequestFrom(many, Options{})
	require.ErrorIs(t, err, contract.OfType("limit/exceeded")) // WS-230
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{:max-frames 3 :filters [[:type #{"a"}] [:meta :k 1]]}`, `:history`, `{:include #{:stale}}`, `{:order ["a"]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text)
		if err != nil {
			return
		}
		view, err := Parse(v, Options{At: []edn.Value{edn.K("view")}})
		switch {
		case err != nil:
			if e := contract.AsError(err); e.Type != "input/invalid" || e.Details.Key("path").IsNil() {
				t.Errorf("%s: %v", text, err)
			}
		case view.MaxFrames < 0 || view.MaxFrames > 1000 || view.MaxBytes < 0 || view.MaxBytes > 8<<20:
			t.Errorf("%s: the limits are %d and %d", text, view.MaxFrames, view.MaxBytes)
		}
	})
}

func FuzzRequestFrom(f *testing.F) {
	for _, s := range []string{
		`{:path "a" :sources [:current [:related ["b"]]] :ordering [:custom {:intent :a/b}]}`,
		`{:path "a" :filters [[:path "*.go"] [:state #{:stale}]] :query "x" :as :ids}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text)
		if err != nil || !v.IsMap() {
			return
		}
		if _, err := RequestFrom(v, Options{}); err != nil {
			if typ := contract.AsError(err).Type; typ != "input/invalid" && typ != "path/invalid" && typ != "limit/exceeded" {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}
