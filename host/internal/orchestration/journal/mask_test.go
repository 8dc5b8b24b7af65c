package journal_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

var maskKey = []byte(strings.Repeat("k", 32))

// tagOf is what replaces a secret: its hash with the key.
func tagOf(secret string) edn.Value {
	h := blake3.New(32, maskKey)
	_, _ = h.Write(edn.MustRead(secret).Canonical())
	return schema.SecretHash(hex.EncodeToString(h.Sum(nil)))
}

// tagged reads a form in which each secret between < and > stands for its replacement,
// within a text too.
func tagged(form string) edn.Value {
	for {
		before, rest, found := strings.Cut(form, "<")
		if !found {
			return edn.MustRead(form)
		}
		secret, after, _ := strings.Cut(rest, ">")
		tag := tagOf(strings.ReplaceAll(secret, "'", `"`)).String()
		if strings.Count(before, `"`)%2 == 1 {
			tag = strings.ReplaceAll(tag, `"`, `\"`)
		}
		form = before + tag + after
	}
}

const account = `[:map [:user :string] [:password {:secret true} :string] [:pin {:secret true} :int]
	[:keys {:secret true} [:vector :any]] [:codes [:vector [:int {:secret true}]]]]`

// masked is a mask that has learned the secrets of an account.
func masked() *journal.Mask {
	m := journal.NewMask(maskKey)
	m.Learn(schema.MustCompile(edn.MustRead(account)), edn.MustRead(`{:user "ann-from-accounts" :password "hunter2 hunter2" :pin 1234
		:keys ["first-key" #{"second-key" {"third-key" ["first-key-long"]}} "eightlng" "sevenlg"] :codes [77]}`))
	return m
}

// JRN-022: an entry with the key and the value of a marked one is replaced, and so is
// each long text of a marked value wherever it occurs, the longest first. Other values
// stay as they are.
func TestMaskedValues(t *testing.T) {
	for in, want := range map[string]string{
		// Entries.
		`{:password "hunter2 hunter2"}`:          `{:password <'hunter2 hunter2'>}`,
		`{:password "another one"}`:              `{:password "another one"}`,
		`{:pin 1234 :other 1234 :password 1234}`: `{:pin <1234> :other 1234 :password 1234}`,
		`[{:deep {:pin 1234}} 1234]`:             `[{:deep {:pin <1234>}} 1234]`,
		`{:codes [77] :pin 77}`:                  `{:codes [77] :pin 77}`,
		`{:user "ann-from-accounts"}`:            `{:user "ann-from-accounts"}`,
		`{:keys ["sevenlg"]}`:                    `{:keys ["sevenlg"]}`,
		`{:keys "sevenlg"}`:                      `{:keys "sevenlg"}`,
		`{nil 1234}`:                             `{nil 1234}`,
		`{:pin 1234 :name "first-key"}`:          `{:pin <1234> :name <'first-key'>}`,

		// Long texts, anywhere.
		`"first-key"`:                                           `<'first-key'>`,
		`"the first-key, twice: first-key"`:                     `"the <'first-key'>, twice: <'first-key'>"`,
		`"first-key-long"`:                                      `<'first-key-long'>`,
		`"my first-key-longer"`:                                 `"my <'first-key-long'>er"`,
		`["eightlng" "sevenlg"]`:                                `[<'eightlng'> "sevenlg"]`,
		`("first-key" 1)`:                                       `(<'first-key'> 1)`,
		`#{"second-key" :a}`:                                    `#{<'second-key'> :a}`,
		`{"third-key" {"first-key" 1}}`:                         `{<'third-key'> {<'first-key'> 1}}`,
		`#my/tag "first-key"`:                                   `#my/tag <'first-key'>`,
		`#my/tag {:a "x second-key"}`:                           `#my/tag {:a "x <'second-key'>"}`,
		`[1 2.5M :a a nil true "text" {:a #{1}} (1) #my/tag 1]`: `[1 2.5M :a a nil true "text" {:a #{1}} (1) #my/tag 1]`,
	} {
		got := masked().Value(edn.MustRead(in))
		assert.Equal(t, tagged(want).String(), got.String(), in)
		assert.Equal(t, in != want, journal.Masked(got), in)
		assert.Equal(t, edn.MustRead(in).String(), masked().Restore(got).String(), in)
	}
	// The tag of a name cannot hold a replacement.
	assert.Equal(t, tagged("<'first-key'>").String(), masked().Value(edn.MustRead(`#ferment/secret "first-key"`)).String())
}

// JRN-022: a value that is marked as a whole is replaced where values are kept whole;
// values that are not marked, or are replaced already, add nothing.
func TestMaskLearns(t *testing.T) {
	m := journal.NewMask(maskKey)
	assert.False(t, m.Any())
	m.Learn(schema.MustCompile(edn.MustRead(`:string`)), edn.Text("open to all"))
	m.Learn(nil, edn.Text("no schema"))
	m.Add(edn.Nil(), edn.K("a"))
	m.Add(edn.MustRead(`[1 "twice `+strings.ReplaceAll(tagOf("1").String(), `"`, `\"`)+`"]`), edn.K("a"))
	assert.False(t, m.Any())
	m.Learn(schema.MustCompile(edn.MustRead(`[:string {:secret true}]`)), edn.Text("short"))
	assert.True(t, m.Any())
	assert.Equal(t, tagged(`{:input <'short'> :out <'short'> :text "short"}`).String(),
		m.Value(edn.MustRead(`{:input "short" :out "short" :text "short"}`)).String())
	m.Add(edn.Int(5), edn.Text("X-Key"), edn.Int(0))
	assert.Equal(t, tagged(`{"X-Key" <5> 0 5}`).String(), m.Value(edn.MustRead(`{"X-Key" 5 0 5}`)).String(), "a number is a place")

	var none *journal.Mask
	assert.False(t, none.Any())
	none.Learn(schema.MustCompile(edn.MustRead(account)), edn.MustRead(`{:pin 1}`))
	none.Add(edn.Int(5), edn.K("a"))
	assert.Equal(t, "{:pin 1}", none.Value(edn.MustRead(`{:pin 1}`)).String())
	assert.Equal(t, "{:pin 1}", none.Restore(edn.MustRead(`{:pin 1}`)).String())
	rec := record(samples()[journal.KindRunStarted])
	got, err := none.Record(rec)
	require.NoError(t, err)
	assert.Equal(t, rec, got)
}

// JRN-022: in any value no long secret is left, what is restored is the value, a value
// without a secret is as it was, and one that is masked stays.
func TestMaskedValuesAreRestored(t *testing.T) {
	secrets := []string{"hunter2 hunter2", "first-key", "second-key", "third-key", "first-key-long", "eightlng"}
	words := rapid.SampledFrom(append([]string{"", "a", "sevenlg", " and ", "first-ke", "key", tagOf("1").String()}, secrets...))
	text := rapid.Map(rapid.SliceOfN(words, 0, 4), func(s []string) edn.Value { return edn.Text(strings.Join(s, "")) })
	leaf := rapid.OneOf(text, rapid.Just(edn.Int(1234)), rapid.Just(edn.K("pin")), rapid.Just(edn.MustRead("2.5M")))
	var value func(depth int) *rapid.Generator[edn.Value]
	value = func(depth int) *rapid.Generator[edn.Value] {
		if depth == 0 {
			return leaf
		}
		some := rapid.SliceOfN(value(depth-1), 0, 3)
		return rapid.OneOf(leaf,
			rapid.Map(some, func(vs []edn.Value) edn.Value { return edn.Vector(vs...) }),
			rapid.Map(some, func(vs []edn.Value) edn.Value { return edn.List(vs...) }),
			rapid.Map(some, func(vs []edn.Value) edn.Value { return edn.SetOf(vs...) }),
			rapid.Custom(func(t *rapid.T) edn.Value {
				var b edn.MapBuilder
				for range rapid.IntRange(0, 3).Draw(t, "n") {
					key := rapid.OneOf(leaf, rapid.SampledFrom([]edn.Value{edn.K("password"), edn.K("pin"), edn.K("keys")}))
					b.Set(key.Draw(t, "key"), value(depth-1).Draw(t, "value"))
				}
				return b.Map()
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		m, v := masked(), value(3).Draw(t, "v")
		got := m.Value(v)
		for _, secret := range secrets {
			require.NotContains(t, got.String(), secret)
		}
		require.Equal(t, v.String(), m.Restore(got).String())
		require.Equal(t, got.String(), m.Value(got).String())
		if got.Equal(v) {
			require.Equal(t, v.String(), got.String())
		} else {
			require.True(t, journal.Masked(got))
		}
	})
}

// JRN-022: a replacement of another key, and what only begins like one, is left.
func TestForeignReplacements(t *testing.T) {
	m := masked()
	foreign := tagOf("999").String()
	start := strings.TrimSuffix(schema.SecretHash("").String(), `"`)
	own := tagOf(`"first-key"`).String()
	for in, want := range map[string]string{
		foreign:                      foreign,
		"a " + foreign + own:         "a " + foreign + "first-key",
		own + own + " " + foreign:    "first-keyfirst-key " + foreign,
		"x" + start:                  "x" + start,
		start + "12" + start:         start + "12" + start,
		own[:len(own)-1]:             own[:len(own)-1],
		own + start:                  "first-key" + start,
		start + "12" + own:           start + "12first-key",
		tagOf("1234").String() + "y": tagOf("1234").String() + "y", // no text
	} {
		assert.Equal(t, want, func() string { s, _ := m.Restore(edn.Text(in)).AsString(); return s }(), in)
	}
	assert.Equal(t, foreign, m.Restore(edn.MustRead(foreign)).String())
	assert.Equal(t, "1234", m.Restore(tagOf("1234")).String())
	for text, want := range map[string]bool{
		`"plain"`: false, `#my/tag "x"`: false, `[1 (2) #{3} {4 5}]`: false, `nil`: false,
		`#my/tag <1>`: true, `["a" <1>]`: true, `(<1>)`: true, `#{<1>}`: true, `{<1> 2}`: true, `{2 <1>}`: true,
		`"so <1>"`: true, `#my/tag ["so <1>"]`: true,
	} {
		assert.Equal(t, want, journal.Masked(tagged(text)), text)
	}
}

// JRN-022: a record has no secret in its fields, in the values that it refers to, nor in
// their hashes. Fields of text and errors stay what they are.
func TestMaskedRecords(t *testing.T) {
	m := masked()
	request := edn.MustRead(`{:input {:password "hunter2 hunter2" :note "first-key"}}`)
	started := &journal.AttemptStarted{
		Attempt: 1, CapID: "a/one", CapVersion: "1.0.0", Request: journal.RefTo(request), Effects: []string{"none"}, Recovery: "none",
		EffectKey: someHash,
	}
	got, err := m.Record(record(started))
	require.NoError(t, err)
	ref := got.Body.(*journal.AttemptStarted).Request
	assert.Equal(t, tagged(`{:input {:password <'hunter2 hunter2'> :note <'first-key'>}}`).String(), ref.Value().String())
	assert.Equal(t, edn.Hash(ref.Value()), ref.Hash())
	assert.NotEqual(t, edn.Hash(request), ref.Hash())

	failed := contract.Errorf("provider/error", "first-key").WithDetail("said", edn.Text("first-key is wrong"))
	for _, body := range []journal.Body{
		&journal.CancelRequested{By: "second-key", Why: "with first-key"},
		&journal.NodeFailed{Err: failed, Attempts: 1, Findings: journal.RefTo(edn.MustRead(`[{:message "first-key"}]`))},
		&journal.HostEvent{Event: "x/y", Details: edn.MustRead(`{:pin 1234 :text "first-key"}`)},
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", ResultType: "value", Result: journal.RefTo(edn.MustRead(`{:result {:out "first-key"}}`)),
			Meta: edn.MustRead(`{:by "second-key"}`)},
	} {
		rec := record(body)
		got, err := m.Record(rec)
		require.NoError(t, err, body.Kind())
		require.NoError(t, got.Check())
		assert.NotContains(t, got.Value().String(), "-key", body.Kind())
		assert.NotContains(t, got.Value().String(), "1234", body.Kind())
		got.Refs(func(ref journal.Ref) { assert.NotContains(t, ref.Value().String(), "-key", body.Kind()) })
		assert.True(t, journal.Masked(got.Value()) || got.Value().String() != rec.Value().String())
	}
	got, err = m.Record(record(&journal.NodeFailed{Err: failed, Attempts: 1}))
	require.NoError(t, err)
	assert.Equal(t, tagOf(`"first-key"`).String(), got.Body.(*journal.NodeFailed).Err.Message)
	said, _ := got.Body.(*journal.NodeFailed).Err.Details.Key("said").AsString()
	assert.Equal(t, tagOf(`"first-key"`).String()+" is wrong", said)

	for text, want := range map[string]string{
		"first-key": tagOf(`"first-key"`).String(), "the first-key": "the " + tagOf(`"first-key"`).String(), "no key": "no key",
	} {
		for _, chunk := range []*journal.AttemptChunk{{Value: journal.RefTo(edn.Text(text))}, {Inline: text}} {
			chunk.Visible = journal.VisibleChunk
			got, err = m.Record(record(chunk))
			require.NoError(t, err)
			assert.Equal(t, want, got.Body.(*journal.AttemptChunk).Text(), "a piece of text stays a text")
		}
	}

	for _, w := range wholes() {
		rec := record(w.body)
		got, err := m.Record(rec)
		require.NoError(t, err)
		assert.Equal(t, rec, got, "without a secret it is the same record")
	}
	// Values beside a secret one are kept.
	both := &journal.PlanResolved{Plan: journal.RefTo(edn.MustRead(`{:a "first-key"}`)), Source: "request", Bindings: twoRef}
	got, err = m.Record(record(both))
	require.NoError(t, err)
	assert.Equal(t, "2", got.Body.(*journal.PlanResolved).Bindings.Value().String())
	assert.Equal(t, twoRef.Hash(), got.Body.(*journal.PlanResolved).Bindings.Hash())
}
