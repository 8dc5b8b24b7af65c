package request

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// namesOf returns the set of the given names.
func namesOf(names ...string) Names {
	return Names{
		Has:  func(name string) bool { return slices.Contains(names, name) },
		List: func() []string { return names },
	}
}

// testEnv has a few intents, schemas and checks.
func testEnv() Env {
	text := schema.MustCompile(edn.MustRead(`[:map [:prompt [:re "\\S"]]]`))
	ceiling, err := ParseBudget(edn.MustRead(`{:max-tokens 2000 :max-usd 0.50M :max-roundtrips 3}`))
	if err != nil {
		panic(err)
	}
	return Env{
		Intents:  namesOf("text/respond", "code/patch", "problem/solve", "chess/best-move"),
		Schemas:  namesOf("req/text", "res/text", "res/patch+tests"),
		Checks:   namesOf("schema-valid", "patch-applies", "tests-pass"),
		Classes:  []string{"sync", "interactive", "batch"},
		Ceiling:  func(*Request) *Budget { return &ceiling },
		InSchema: func(intent string) string { return map[string]string{"text/respond": "req/text"}[intent] },
		Schema: func(name string) (*schema.Schema, bool) {
			if name == "req/text" {
				return text, true
			}
			return nil, false
		},
	}
}

// parse validates a request with its input.
func parse(v edn.Value, env Env) (Request, *contract.Error) {
	r, err := Parse(v, env)
	if err == nil {
		err = r.CheckInput(&env)
	}
	if err != nil {
		return Request{}, err
	}
	return r, nil
}

const base = `{:proto 1 :trace {:id "r-1"} :task {:intent :text/respond} :input {:prompt "hi"}}`

// with returns the base request with one entry added or replaced.
func with(path, value string) edn.Value {
	p := slices.Collect(edn.MustRead(path).Elems())
	v, err := edn.MustRead(base).AssocIn(p, edn.MustRead(value))
	if err != nil {
		panic(err)
	}
	return v
}

// ENV-015: a plan in a place that has none: the error says how it is sent.
func TestPlanInTheWrongPlace(t *testing.T) {
	_, other := parse(with(`[:other]`, `1`), testEnv())
	require.NotNil(t, other)
	for path, value := range map[string]string{
		`[:plan]`: `{:nodes []}`, `[:plan/body]`: `{:nodes []}`, `[:nodes]`: `[]`, `[:task :plan]`: `{:nodes []}`,
	} {
		_, err := parse(with(path, value), testEnv())
		require.NotNil(t, err)
		assert.Equal(t, ":shape/unknown-key", err.Details.Key("reason").String())
		assert.NotEqual(t, other.Hint, err.Hint, path)
		assert.False(t, err.Details.HasKey("nearest"), path)
	}
}

// ENV-015: an unknown intent in the namespace of a plugin without a description is blamed on the plugin, and no similar
// intent is suggested.
func TestIntentOfAnUndescribedPlugin(t *testing.T) {
	env := testEnv()
	env.Unserved = func(intent string) *contract.Error {
		if !strings.HasPrefix(intent, "chess/") {
			return nil
		}
		return contract.Errorf("config/plugin-unknown", "it ended").WithHint("look at it")
	}
	_, err := parse(with(`[:task :intent]`, `:chess/best-mov`), env)
	require.NotNil(t, err)
	assert.Equal(t, ":intent/not-supported", err.Details.Key("reason").String())
	assert.True(t, err.Details.Key("nearest").IsNil())
	assert.ErrorIs(t, err, contract.OfType("config/plugin-unknown"))
	assert.Equal(t, "look at it", err.Hint)
	_, err = parse(with(`[:task :intent]`, `:code/patc`), env)
	require.NotNil(t, err)
	assert.Equal(t, ":code/patch", err.Details.Key("nearest").String())
}

// ENV-015: every reason, with path, expected and got; ENV-001, ENV-003 and
// contracts.md section 7: the nearest name.
func TestRequestReasons(t *testing.T) {
	for _, tt := range []struct {
		reason, in string
		v          edn.Value // replaces in
		path       string
		expected   string
		got        string
		nearest    string
	}{
		{reason: "shape/not-map", in: `[1]`, path: `[]`, expected: `:map`, got: `[1]`},
		{reason: "shape/missing-key", in: `{:proto 1 :task {:intent :a/b} :input {}}`, path: `[:trace]`},
		{reason: "shape/missing-key", in: `{:trace {:id "r"} :task {:intent :a/b} :input {}}`, path: `[:proto]`},
		{reason: "shape/missing-key", in: `{:proto 1 :trace {:id "r"} :input {}}`, path: `[:task]`},
		{reason: "shape/missing-key", in: `{:proto 1 :trace {:id "r"} :task {:intent :a/b}}`, path: `[:input]`},
		{reason: "shape/missing-key", v: with(`[:trace]`, `{}`), path: `[:trace :id]`},
		{reason: "shape/missing-key", v: with(`[:task]`, `{}`), path: `[:task :intent]`},
		{reason: "shape/unknown-key", v: with(`[:constraint]`, `{}`), path: `[]`, got: `:constraint`, nearest: `:constraints`},
		{reason: "shape/unknown-key", v: with(`["budget"]`, `{}`), path: `[]`, got: `"budget"`, nearest: `:budget`},
		{reason: "shape/unknown-key", v: with(`[:task :intnt]`, `:a/b`), path: `[:task]`, got: `:intnt`, nearest: `:intent`},
		{reason: "shape/unknown-key", v: with(`[:trace :idd]`, `"x"`), path: `[:trace]`, got: `:idd`, nearest: `:id`},
		{reason: "shape/unknown-key", v: with(`[:trace :parent]`, `"x"`), path: `[:trace]`, got: `:parent`},
		{reason: "shape/unknown-key", v: with(`[:context]`, `{:repair {}}`), path: `[:context]`, got: `:repair`},
		{reason: "shape/unknown-key", v: with(`[:context]`, `{:prompt {}}`), path: `[:context]`, got: `:prompt`},
		{reason: "shape/unknown-key", v: with(`[:done]`, `{:musts #{}}`), path: `[:done]`, got: `:musts`, nearest: `:must`},
		{reason: "shape/unknown-key", v: with(`[:effects]`, `{:alloved #{}}`), path: `[:effects]`, got: `:alloved`, nearest: `:allowed`},
		{reason: "shape/unknown-key", v: with(`[:routing]`, `{:meta true}`), path: `[:routing]`, got: `:meta`, nearest: `:meta?`},
		{reason: "shape/unknown-key", v: with(`[:queue]`, `{:clazz :a}`), path: `[:queue]`, got: `:clazz`, nearest: `:class`},
		{reason: "shape/wrong-type", v: with(`[:proto]`, `"2"`), path: `[:proto]`, expected: `:int`, got: `"2"`},
		{reason: "shape/wrong-type", v: with(`[:trace]`, `"r"`), path: `[:trace]`, expected: `:map`, got: `"r"`},
		{reason: "shape/wrong-type", v: with(`[:trace :id]`, `7`), path: `[:trace :id]`, expected: `:string`, got: `7`},
		{reason: "shape/wrong-type", v: with(`[:trace :turn]`, `1.0`), path: `[:trace :turn]`, expected: `:int`, got: `1.0`},
		{reason: "shape/wrong-type", v: with(`[:task]`, `"x"`), path: `[:task]`, expected: `:map`, got: `"x"`},
		{reason: "shape/wrong-type", v: with(`[:task :intent]`, `"text/respond"`), path: `[:task :intent]`, expected: `:keyword`, got: `"text/respond"`, nearest: `:text/respond`},
		{reason: "shape/wrong-type", v: with(`[:task :cap/id]`, `7`), path: `[:task :cap/id]`, expected: `:keyword`, got: `7`},
		{reason: "shape/wrong-type", v: with(`[:cap/id]`, `7`), path: `[:cap/id]`, expected: `:keyword`, got: `7`},
		{reason: "shape/wrong-type", v: with(`[:input]`, `[]`), path: `[:input]`, expected: `:map`, got: `[]`},
		{reason: "shape/wrong-type", v: with(`[:context]`, `[]`), path: `[:context]`, expected: `:map`, got: `[]`},
		{reason: "shape/wrong-type", v: with(`[:constraints]`, `{:language "en"}`), path: `[:constraints :language]`, expected: `:keyword`, got: `"en"`, nearest: `:en`},
		{reason: "shape/wrong-type", v: with(`[:constraints]`, `{:no-web 1}`), path: `[:constraints :no-web]`, expected: `:boolean`, got: `1`},
		{reason: "shape/wrong-type", v: with(`[:role]`, `"voice"`), path: `[:role]`, expected: `:keyword`, got: `"voice"`, nearest: `:voice`},
		{reason: "shape/wrong-type", v: with(`[:model]`, `7`), path: `[:model]`, expected: `[:or :keyword :string]`, got: `7`},
		{reason: "shape/wrong-type", v: with(`[:system]`, `:x`), path: `[:system]`, expected: `:string`, got: `:x`},
		{reason: "shape/wrong-type", v: with(`[:stream?]`, `"maybe"`), path: `[:stream?]`, expected: `:boolean`, got: `"maybe"`},
		{reason: "shape/wrong-type", v: with(`[:routing]`, `{:force? "x"}`), path: `[:routing :force?]`, expected: `:boolean`, got: `"x"`},
		{reason: "shape/wrong-type", v: with(`[:debug/plan?]`, `1`), path: `[:debug/plan?]`, expected: `:boolean`, got: `1`},
		{reason: "shape/wrong-type", v: with(`[:deadline-ms]`, `"10s"`), path: `[:deadline-ms]`, expected: `:int`, got: `"10s"`},
		{reason: "shape/wrong-type", v: with(`[:budget]`, `[]`), path: `[:budget]`, expected: `:map`, got: `[]`},
		{reason: "shape/out-of-range", v: with(`[:deadline-ms]`, `0`), path: `[:deadline-ms]`, expected: `[:int {:max 86400000 :min 1}]`, got: `0`},
		{reason: "shape/out-of-range", v: with(`[:deadline-ms]`, `86400001`), path: `[:deadline-ms]`, expected: `[:int {:max 86400000 :min 1}]`, got: `86400001`},
		{reason: "shape/out-of-range", v: with(`[:deadline-ms]`, `99999999999999999999`), path: `[:deadline-ms]`, expected: `[:int {:max 86400000 :min 1}]`, got: `99999999999999999999N`},
		{reason: "shape/out-of-range", v: with(`[:trace :id]`, `""`), path: `[:trace :id]`, expected: `[:string {:max 128 :min 1}]`, got: `""`},
		{reason: "shape/out-of-range", v: with(`[:trace :turn]`, `-1`), path: `[:trace :turn]`, expected: `[:int {:max 4611686018427387904 :min 0}]`, got: `-1`},
		{reason: "shape/out-of-range", v: with(`[:constraints]`, `{:max-chars 12001}`), path: `[:constraints :max-chars]`, expected: `[:int {:max 12000 :min 1}]`, got: `12001`},
		{reason: "shape/out-of-range", v: with(`[:request/id]`, `"a b"`), path: `[:request/id]`, expected: `[:re "^[A-Za-z0-9._:-]{1,128}$"]`, got: `"a b"`},
		{reason: "shape/out-of-range", v: with(`[:session/id]`, `"ż"`), path: `[:session/id]`, expected: `[:re "^[A-Za-z0-9._:-]{1,128}$"]`, got: `"ż"`},
		{reason: "shape/out-of-range", v: with(`[:idempotency/key]`, `"a b"`), path: `[:idempotency/key]`, expected: `[:re "^[\\x21-\\x7e]{1,128}$"]`, got: `"a b"`},
		{reason: "shape/out-of-range", v: with(`[:response/type]`, `:now`), path: `[:response/type]`, expected: `[:enum :value :stream :accepted]`, got: `:now`},
		{reason: "shape/wrong-type", v: with(`[:response/type]`, `"bogus"`), path: `[:response/type]`, expected: `[:enum :value :stream :accepted]`, got: `"bogus"`},
		{reason: "shape/wrong-type", v: with(`[:response/type]`, `"steam"`), path: `[:response/type]`, expected: `[:enum :value :stream :accepted]`, got: `"steam"`, nearest: `:stream`},
		{reason: "shape/wrong-type", v: with(`[:response/type]`, `7`), path: `[:response/type]`, expected: `[:enum :value :stream :accepted]`, got: `7`},
		{reason: "shape/out-of-range", v: with(`[:queue]`, `{:class :btch}`), path: `[:queue :class]`, expected: `[:enum :sync :interactive :batch]`, got: `:btch`, nearest: `:batch`},
		{reason: "shape/wrong-type", v: with(`[:queue]`, `{:class "batch"}`), path: `[:queue :class]`, expected: `[:enum :sync :interactive :batch]`, got: `"batch"`, nearest: `:batch`},
		{reason: "shape/out-of-range", v: with(`[:routing]`, `{:on-error :panic}`), path: `[:routing :on-error]`, expected: `[:enum :fail-open :fail-closed]`, got: `:panic`},
		{reason: "shape/out-of-range", v: with(`[:queue]`, `{:priority 10}`), path: `[:queue :priority]`, expected: `[:int {:max 9 :min -9}]`, got: `10`},
		{reason: "shape/out-of-range", v: with(`[:budget]`, `{:temperature 2.5}`), path: `[:budget :temperature]`, expected: `[:number {:max 2 :min 0}]`, got: `2.5`},
		{reason: "shape/conflict", v: with(`[:task]`, `{:intent :text/respond :cap/id :a/b}`).AssocKey("cap/id", edn.K("a/c")), path: `[:cap/id]`, got: `:a/c`},
		{reason: "shape/conflict", v: with(`[:stream?]`, `true`).AssocKey("response/type", edn.K("accepted")), path: `[:stream?]`, got: `true`},
		{reason: "proto/unsupported", v: with(`[:proto]`, `2`), path: `[:proto]`, expected: `[:enum 1]`, got: `2`},
		{reason: "intent/not-supported", v: with(`[:task :intent]`, `:text/respnd`), path: `[:task :intent]`, got: `:text/respnd`, nearest: `:text/respond`},
		{reason: "requires/not-map", v: with(`[:task :requires]`, `[]`), path: `[:task :requires]`, expected: `:map`, got: `[]`},
		{reason: "requires/unknown-keys", v: with(`[:task :requires]`, `{:outschema :a}`), path: `[:task :requires]`, got: `:outschema`, nearest: `:out-schema`},
		{reason: "requires/in-schema-not-keyword", v: with(`[:task :requires]`, `{:in-schema "req/text"}`), path: `[:task :requires :in-schema]`, expected: `:keyword`, got: `"req/text"`, nearest: `:req/text`},
		{reason: "requires/out-schema-not-keyword", v: with(`[:task :requires]`, `{:out-schema 7}`), path: `[:task :requires :out-schema]`, expected: `:keyword`, got: `7`},
		{reason: "requires/schema-unknown", v: with(`[:task :requires]`, `{:out-schema :res/txt}`), path: `[:task :requires :out-schema]`, got: `:res/txt`, nearest: `:res/text`},
		{reason: "requires/result-type-not-supported", v: with(`[:task :requires]`, `{:result/type :list}`), path: `[:task :requires :result/type]`, expected: `[:enum :plan :stream :value]`, got: `:list`},
		{reason: "requires/cap-kind-not-keyword", v: with(`[:task :requires]`, `{:cap/kind 7}`), path: `[:task :requires :cap/kind]`, expected: `:keyword`, got: `7`},
		{reason: "requires/cap-tags-not-keywords", v: with(`[:task :requires]`, `{:cap/tags #{7}}`), path: `[:task :requires :cap/tags]`, expected: `[:set :keyword]`, got: `#{7}`},
		{reason: "requires/effects-not-keywords", v: with(`[:task :requires]`, `{:effects/allowed :none}`), path: `[:task :requires :effects/allowed]`, expected: `[:set :keyword]`, got: `:none`},
		{reason: "done/not-map", v: with(`[:done]`, `#{}`), path: `[:done]`, expected: `:map`, got: `#{}`},
		{reason: "done/must-not-keyword-coll", v: with(`[:done]`, `{:must :schema-valid}`), path: `[:done :must]`, expected: `[:set :keyword]`, got: `:schema-valid`},
		{reason: "done/must-not-keywords", v: with(`[:done]`, `{:must #{"schema-valid"}}`), path: `[:done :must]`, expected: `:keyword`, got: `"schema-valid"`, nearest: `:schema-valid`},
		{reason: "done/should-not-keyword-coll", v: with(`[:done]`, `{:should {}}`), path: `[:done :should]`, expected: `[:set :keyword]`, got: `{}`},
		{reason: "done/should-not-keywords", v: with(`[:done]`, `{:should [1]}`), path: `[:done :should]`, expected: `:keyword`, got: `1`},
		{reason: "done/unknown-check", v: with(`[:done]`, `{:must #{:tests-pas}}`), path: `[:done :must]`, got: `:tests-pas`, nearest: `:tests-pass`},
		{reason: "done/score-min-not-number", v: with(`[:done]`, `{:score-min "0.8"}`), path: `[:done :score-min]`, expected: `[:number {:max 1 :min 0}]`, got: `"0.8"`},
		{reason: "done/score-min-out-of-range", v: with(`[:done]`, `{:score-min 2}`), path: `[:done :score-min]`, expected: `[:number {:max 1 :min 0}]`, got: `2`},
		{reason: "done/score-min-out-of-range", v: with(`[:done]`, `{:score-min -0.5M}`), path: `[:done :score-min]`, expected: `[:number {:max 1 :min 0}]`, got: `-0.5M`},
		{reason: "effects/not-map", v: with(`[:effects]`, `#{:none}`), path: `[:effects]`, expected: `:map`, got: `#{:none}`},
		{reason: "effects/allowed-not-keyword-coll", v: with(`[:effects]`, `{:allowed :none}`), path: `[:effects :allowed]`, expected: `[:set :keyword]`, got: `:none`},
		{reason: "effects/allowed-not-keywords", v: with(`[:effects]`, `{:allowed #{7}}`), path: `[:effects :allowed]`, expected: `:keyword`, got: `7`},
		{reason: "effects/unknown", v: with(`[:effects]`, `{:allowed #{:fs/wrte}}`), path: `[:effects :allowed]`, got: `:fs/wrte`, nearest: `:fs/write`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `[]`), path: `[:task :dispatch]`, expected: `:map`, got: `[]`},
		{reason: "dispatch/unknown-key", v: with(`[:task :dispatch]`, `{:candidate []}`), path: `[:task :dispatch]`, got: `:candidate`, nearest: `:candidates`},
		{reason: "dispatch/unknown-key", v: with(`[:task :dispatch]`, `{:retry {:same-cap 1}}`), path: `[:task :dispatch :retry]`, got: `:same-cap`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:retry {:same-cap-max -1}}`), path: `[:task :dispatch :retry :same-cap-max]`, expected: `[:int {:max 16 :min 0}]`, got: `-1`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:race {:width 1}}`), path: `[:task :dispatch :race :width]`, expected: `[:int {:max 16 :min 2}]`, got: `1`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:tournament {:width 99}}`), path: `[:task :dispatch :tournament :width]`, expected: `[:int {:max 16 :min 2}]`, got: `99`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:race 2}`), path: `[:task :dispatch :race]`, expected: `:map`, got: `2`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:candidates ["llm/code"]}`), path: `[:task :dispatch :candidates]`, expected: `[:vector {:max 64} [:or :keyword [:map {:closed true} [:cap/ref :keyword]]]]`, got: `["llm/code"]`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:strategy :lottery}`), path: `[:task :dispatch :strategy]`, expected: `[:enum :cascade :hedge :race :tournament]`, got: `:lottery`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:allow-failure? 1}`), path: `[:task :dispatch :allow-failure?]`, expected: `:boolean`, got: `1`},
		{reason: "dispatch/wrong-type", v: with(`[:task :dispatch]`, `{:switch-on :runtime/crashed}`), path: `[:task :dispatch :switch-on]`, expected: `[:set :keyword]`, got: `:runtime/crashed`},
		{reason: "budget/unknown-key", v: with(`[:budget]`, `{:max-token 1}`), path: `[:budget]`, got: `:max-token`, nearest: `:max-tokens`},
		{reason: "budget/not-number", v: with(`[:budget]`, `{:max-usd 0.1}`), path: `[:budget :max-usd]`, expected: `[:or :decimal :int]`, got: `0.1`},
		{reason: "budget/not-number", v: with(`[:budget]`, `{:max-tokens 1M}`), path: `[:budget :max-tokens]`, expected: `:int`, got: `1M`},
		{reason: "budget/not-number", v: with(`[:budget]`, `{:temperature "hot"}`), path: `[:budget :temperature]`, expected: `:number`, got: `"hot"`},
		{reason: "budget/negative", v: with(`[:budget]`, `{:max-attempts -1}`), path: `[:budget :max-attempts]`, expected: `[:number {:min 0}]`, got: `-1`},
		{reason: "budget/negative", v: with(`[:budget]`, `{:max-attempts -99999999999999999999}`), path: `[:budget :max-attempts]`, expected: `[:number {:min 0}]`, got: `-99999999999999999999N`},
		{reason: "budget/raised", v: with(`[:budget]`, `{:max-tokens 2001}`), path: `[:budget :max-tokens]`, expected: `[:number {:max 2000}]`, got: `2001`},
		{reason: "budget/raised", v: with(`[:budget]`, `{:usd 0.51M}`), path: `[:budget :max-usd]`, expected: `[:number {:max 0.5M}]`, got: `0.51M`},
		{reason: "input/schema-invalid", v: with(`[:input]`, `{:prompt " "}`), path: `[:input]`},
		{reason: "input/schema-invalid", v: with(`[:input]`, `{}`), path: `[:input]`},
	} {
		v := tt.v
		if tt.in != "" {
			v = edn.MustRead(tt.in)
		}
		t.Run(tt.reason+" "+tt.path, func(t *testing.T) {
			_, err := parse(v, testEnv())
			require.NotNil(t, err, v.String())
			assert.Equal(t, "invalid-request", err.Type)
			assert.Equal(t, contract.ClassFinal, err.Class)
			assert.Equal(t, 400, err.HTTPStatus())
			assert.Equal(t, ":"+tt.reason, err.Details.Key("reason").String())
			assert.Equal(t, tt.path, err.Details.Key("path").String())
			assert.Equal(t, orNil(tt.expected), err.Details.Key("expected").String())
			assert.Equal(t, orNil(tt.got), err.Details.Key("got").String())
			assert.Equal(t, orNil(tt.nearest), err.Details.Key("nearest").String())
			assert.NotEmpty(t, err.Message)
			if tt.reason == "input/schema-invalid" {
				assert.Positive(t, err.Details.Key("findings").Len())
			}
		})
	}
}

func orNil(s string) string {
	if s == "" {
		return "nil"
	}
	return s
}

// reasonsOfTheContract are the reasons of ENV-015 in order. The last reason of
// the shape group comes from the reader of the text.
var reasonsOfTheContract = []string{
	"shape/not-map", "shape/missing-key", "shape/unknown-key", "shape/wrong-type", "shape/out-of-range", "shape/conflict", "proto/unsupported",
	"intent/not-supported",
	"requires/not-map", "requires/unknown-keys", "requires/in-schema-not-keyword", "requires/out-schema-not-keyword", "requires/schema-unknown",
	"requires/result-type-not-supported", "requires/cap-kind-not-keyword", "requires/cap-tags-not-keywords", "requires/effects-not-keywords",
	"done/not-map", "done/must-not-keyword-coll", "done/must-not-keywords", "done/should-not-keyword-coll", "done/should-not-keywords",
	"done/unknown-check", "done/score-min-not-number", "done/score-min-out-of-range",
	"effects/not-map", "effects/allowed-not-keyword-coll", "effects/allowed-not-keywords", "effects/unknown",
	"dispatch/unknown-key", "dispatch/wrong-type",
	"budget/unknown-key", "budget/not-number", "budget/negative", "budget/raised",
	"input/schema-invalid",
}

// faults are single faults, each one edit of an otherwise valid request. A
// second edit of the same field would undo the first, so each names its field.
var faults = []struct{ reason, path, value string }{
	{"shape/missing-key", `[:trace]`, `{}`},
	{"shape/unknown-key", `[:routing]`, `{:x 1}`},
	{"shape/wrong-type", `[:role]`, `7`},
	{"shape/out-of-range", `[:deadline-ms]`, `0`},
	{"shape/conflict", `[:cap/id]`, `:other/cap`},
	{"proto/unsupported", `[:proto]`, `3`},
	{"intent/not-supported", `[:task :intent]`, `:no/body`},
	{"requires/unknown-keys", `[:task :requires :x]`, `1`},
	{"requires/in-schema-not-keyword", `[:task :requires :in-schema]`, `1`},
	{"requires/out-schema-not-keyword", `[:task :requires :out-schema]`, `1`},
	{"requires/result-type-not-supported", `[:task :requires :result/type]`, `:x`},
	{"requires/cap-kind-not-keyword", `[:task :requires :cap/kind]`, `1`},
	{"requires/cap-tags-not-keywords", `[:task :requires :cap/tags]`, `1`},
	{"requires/effects-not-keywords", `[:task :requires :effects/allowed]`, `1`},
	{"done/must-not-keyword-coll", `[:done :must]`, `1`},
	{"done/should-not-keyword-coll", `[:done :should]`, `1`},
	{"done/score-min-not-number", `[:done :score-min]`, `"x"`},
	{"effects/allowed-not-keyword-coll", `[:effects :allowed]`, `1`},
	{"dispatch/unknown-key", `[:task :dispatch :x]`, `1`},
	{"dispatch/wrong-type", `[:task :dispatch :retry]`, `1`},
	{"budget/unknown-key", `[:budget :x]`, `1`},
	{"budget/not-number", `[:budget :max-depth]`, `1.5`},
	{"budget/negative", `[:budget :max-attempts]`, `-1`},
	{"budget/raised", `[:budget :max-roundtrips]`, `4`},
	{"input/schema-invalid", `[:input :prompt]`, `7`},
}

// ENV-002, ENV-015: of two faults the one with the first reason is reported.
func TestValidationOrder(t *testing.T) {
	sound := with(`[:task :cap/id]`, `:some/cap`)
	for i, first := range faults {
		for _, second := range faults[i+1:] {
			if strings.HasPrefix(second.path, strings.TrimSuffix(first.path, "]")) || strings.HasPrefix(first.path, strings.TrimSuffix(second.path, "]")) {
				continue // the same field
			}
			v := edit(t, edit(t, sound, second.path, second.value), first.path, first.value)
			_, err := parse(v, testEnv())
			require.NotNil(t, err)
			got, _ := err.Details.Key("reason").AsKeyword()
			assert.Equal(t, first.reason, got, "%s before %s", first.reason, second.reason)
		}
		assert.Contains(t, reasonsOfTheContract, first.reason)
	}
	order := func(reason string) int { return slices.Index(reasonsOfTheContract, reason) }
	assert.True(t, slices.IsSortedFunc(faults, func(a, b struct{ reason, path, value string }) int { return order(a.reason) - order(b.reason) }))
}

func edit(t *testing.T, v edn.Value, path, value string) edn.Value {
	t.Helper()
	out, err := v.AssocIn(slices.Collect(edn.MustRead(path).Elems()), edn.MustRead(value))
	require.NoError(t, err)
	return out
}

// contracts.md 2.1: omitted fields have their defaults.
func TestRequestDefaults(t *testing.T) {
	r, err := parse(edn.MustRead(base), testEnv())
	require.Nil(t, err)
	assert.Equal(t, 1, r.Proto)
	assert.Equal(t, "text/respond", r.Intent)
	assert.Empty(t, r.CapID)
	assert.Equal(t, Requires{}, r.Requires)
	for _, m := range []edn.Value{r.Dispatch, r.Context, r.Constraints, r.Done, r.Budget, r.Routing} {
		assert.Equal(t, "{}", m.String())
	}
	assert.Equal(t, "{:allowed #{:none}}", r.Effects.String())
	assert.Equal(t, Budget{}, r.BudgetLimits)
	assert.Equal(t, "value", r.ResponseType)
	assert.Empty(t, r.QueueClass, "the host chooses")
	assert.Zero(t, r.Priority)
	assert.EqualValues(t, 120_000, r.DeadlineMS)
	assert.False(t, r.DebugPlan || r.DebugTranscript)
	for _, s := range []string{r.Role, r.Model, r.System, r.RequestID, r.SessionID, r.IdempotencyKey} {
		assert.Empty(t, s)
	}

	r, err = parse(with(`[:effects]`, `{:scope {:fs/read {}}}`), testEnv())
	require.Nil(t, err)
	assert.Equal(t, "{:allowed #{:none} :scope {:fs/read {}}}", r.Effects.String())

	r, err = parse(with(`[:response/type]`, `:accepted`), testEnv())
	require.Nil(t, err)
	assert.EqualValues(t, 900_000, r.DeadlineMS)
}

// RUN-006: the configuration says which deadline a request has that states none, and which
// one it may state.
func TestDeadlines(t *testing.T) {
	env := testEnv()
	env.Deadlines = Deadlines{Usual: 3 * time.Second, Accepted: time.Minute, Most: time.Hour}
	read := func(v edn.Value) int64 {
		r, err := parse(v, env)
		require.Nil(t, err)
		return r.DeadlineMS
	}
	assert.EqualValues(t, 3000, read(edn.MustRead(base)))
	assert.EqualValues(t, 60_000, read(with(`[:response/type]`, `:accepted`)))
	assert.EqualValues(t, 3_600_000, read(with(`[:deadline-ms]`, `3600000`)))
	_, err := parse(with(`[:deadline-ms]`, `3600001`), env)
	require.NotNil(t, err)
	assert.Equal(t, "[:int {:max 3600000 :min 1}]", err.Details.Key("expected").String())

	env.Deadlines = Deadlines{Most: time.Minute}
	assert.EqualValues(t, 60_000, read(edn.MustRead(base)), "the longest bounds the defaults")
	assert.EqualValues(t, 60_000, read(with(`[:response/type]`, `:accepted`)))
}

// contracts.md 2.1: every field that a client may set.
func TestRequestFields(t *testing.T) {
	v := edn.MustRead(`{:proto 1 :trace {:id "r-4a2b" :turn 17}
	 :task {:intent :text/respond :cap/id :llm/voice
	        :requires {:in-schema :req/text :out-schema :res/text :result/type :value :cap/kind :llm :cap/tags #{:b :a} :effects/allowed [:none]}
	        :dispatch {:candidates [:llm/voice {:cap/ref :llm/meta}] :strategy :cascade :retry {:same-cap-max 1 :fallback-max 2} :switch-on #{:runtime/crashed}
	                   :timeout {:extend-ms 100} :repair {:max 1} :checks #{:x} :exclude [] :allow-failure? true}}
	 :input {:prompt "hi"} :context {:summary "s" :anything [1 2]} :constraints {:language :en :style :plain :max-chars 12000 :no-web true :other 1}
	 :done {:must #{:schema-valid} :should [:tests-pass] :score-min 0.8}
	 :budget {:max-tokens 1200 :max-roundtrips 3 :max-usd 0.25M :temperature 0.4 :wall-ms 5000}
	 :effects {:allowed #{:fs/read} :scope {:fs/read {:allow ["src/"]}}}
	 :role :voice :model "openai/x" :system "Be brief." :request/id "q.1" :session/id "s:1" :cap/id :llm/voice
	 :response/type :stream :stream? true :routing {:meta? true :strict? false :on-error :fail-open :profile :fast :debug/plan? true}
	 :queue {:class :batch :priority -9} :deadline-ms 86400000 :idempotency/key "k~1" :debug/transcript? true}`)
	r, err := parse(v, testEnv())
	require.Nil(t, err)
	assert.Equal(t, "llm/voice", r.CapID)
	assert.Equal(t, Requires{
		InSchema: "req/text", OutSchema: "res/text", ResultType: "value", CapKind: "llm",
		CapTags: []string{"a", "b"}, Effects: []string{"none"}, HasEffects: true,
	}, r.Requires)
	assert.Equal(t, []string{"voice", "openai/x", "Be brief.", "q.1", "s:1", "stream", "batch", "k~1"},
		[]string{r.Role, r.Model, r.System, r.RequestID, r.SessionID, r.ResponseType, r.QueueClass, r.IdempotencyKey})
	assert.Equal(t, -9, r.Priority)
	assert.EqualValues(t, 86_400_000, r.DeadlineMS)
	assert.True(t, r.DebugPlan && r.DebugTranscript)
	assert.Equal(t, Limited(5000), r.BudgetLimits.MaxWallMS)
	assert.Equal(t, "0.25M", r.BudgetLimits.MaxUSD.String())
}

// ENV-003: requirements, omitted and present.
func TestParseRequires(t *testing.T) {
	r, err := parse(with(`[:task :requires]`, `{:cap/kind :solver :effects/allowed #{}}`), testEnv())
	require.Nil(t, err)
	assert.Equal(t, Requires{CapKind: "solver", HasEffects: true}, r.Requires)
	assert.Equal(t, "{:cap/kind :solver :effects/allowed #{}}", r.Requires.Value().String())
	r, err = parse(edn.MustRead(base), testEnv())
	require.Nil(t, err)
	assert.Zero(t, r.Requires)
}

// Errors repeat only a bounded part of the request.
func TestRequestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("ż", 10_000)
	for _, v := range []edn.Value{with(`[:role]`, `"`+long+`"`), with(`[:role]`, `["`+long+`"]`), edn.MustRead(base).AssocKey("role", edn.K("x")).AssocKey("budget", edn.Text(long))} {
		_, err := parse(v, testEnv())
		require.NotNil(t, err)
		got, ok := err.Details.Key("got").AsString()
		require.True(t, ok)
		assert.Len(t, []rune(got), 201, "200 code points and the mark that it was cut")
		assert.LessOrEqual(t, len([]rune(err.Message)), contract.MaxMessage)
	}
}

// ENV-030: the examples of the design are accepted unchanged.
func TestSeedRequests(t *testing.T) {
	for name, in := range map[string]string{
		"stratification": `{:proto 1
			 :trace {:id "r-4a2b" :turn 17}
			 :task  {:intent :code/patch
			         :requires {:out-schema :res/patch+tests}
			         :dispatch {:candidates [:llm/code :llm/meta]
			                    :policy :quality-aware}}
			 :input {:task "Fix NPE in foo()"
			         :lang :clojure}
			 :context {:summary "short context"}
			 :constraints {:no-web true :language :en}
			 :done {:must #{:schema-valid :patch-applies}
			        :should #{:tests-pass}
			        :score-min 0.8}
			 :budget {:max-tokens 1200 :max-roundtrips 3}
			 :effects {:allowed #{:none}}}`,
		"design": `{:proto 1
			 :trace {:id "demo-1"}
			 :task  {:intent :text/respond}
			 :input {:prompt "Explain ACID in two sentences."}
			 :context {}
			 :constraints {:language :en}
			 :done {:must #{:schema-valid}}
			 :budget {:max-roundtrips 3}
			 :effects {:allowed #{:none}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			v := edn.MustRead(in)
			translated, warnings, err := Translate(v)
			require.NoError(t, err)
			assert.Empty(t, warnings)
			assert.True(t, edn.Equal(v, translated), "nothing to translate")
			_, bad := parse(v, testEnv())
			require.Nil(t, bad)
		})
	}
}

// ENV-020: the envelope has one major version. Every other number is rejected
// with the supported ones; a value that is not a number is another fault.
func TestEnvelopeVersion(t *testing.T) {
	require.EqualValues(t, 1, contract.Proto)
	for _, number := range []string{"0", "2", "-1", "17", "99999999999999999999"} {
		_, err := parse(with(`[:proto]`, number), testEnv())
		require.NotNil(t, err, number)
		assert.Equal(t, "invalid-request", err.Type)
		assert.Equal(t, 400, err.HTTPStatus())
		assert.Equal(t, ":proto/unsupported", err.Details.Key("reason").String(), number)
		assert.Equal(t, "[:enum 1]", err.Details.Key("expected").String(), "the supported ones")
		assert.Equal(t, "[:proto]", err.Details.Key("path").String())
		assert.Contains(t, err.Message, "1", "in the sentence too")
	}
	for _, other := range []string{"1.0", "1M", ":one", "nil", `"2"`, `"one"`} {
		in, _, err := Translate(with(`[:proto]`, other))
		require.NoError(t, err)
		_, bad := parse(in, testEnv())
		require.NotNil(t, bad, other)
		assert.Equal(t, ":shape/wrong-type", bad.Details.Key("reason").String(), other)
	}
	for _, one := range []string{"1", "1N", `"1"`} {
		in, warnings, err := Translate(with(`[:proto]`, one))
		require.NoError(t, err)
		_, bad := parse(in, testEnv())
		assert.Nil(t, bad, one)
		assert.Empty(t, warnings, one)
	}
	// New fields are always optional: the three original fields are sufficient.
	_, bad := parse(edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "x"}}`), testEnv())
	assert.Nil(t, bad)
}
