package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-002, VAL-006: the same request as JSON and as EDN reaches the
// capability as the same value, and the responses are the same value too.
func TestJSONAndEDNAreTheSame(t *testing.T) {
	answerOf := `{:text "x" :set #{:a :b} :dec 1.50M :list [1 2.5 nil] :kw :some/name :deep {:k {"two words" 1}}}`
	for name, tc := range map[string]struct{ intent, json, edn string }{
		"plain": {"t/any", `{"a":1,"b":[1,2.5,null,true],"c":{"d/e":"f"}}`, `{:a 1 :b [1 2.5 nil true] :c {:d/e "f"}}`},
		"typed": {"t/typed", `{"kw":"a/b","set":["x","y"],"dec":"1.25","at":"2026-11-20T09:00:00.000Z"}`, `{:kw :a/b :set #{:x :y} :dec 1.25M :at #inst "2026-11-20T09:00:00.000Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.exec.On(tc.intent, dispatchtest.Step{Value: edn.MustRead(answerOf)})
			more := `"done":{"must":["schema-valid"]},"constraints":{"language":"en"},"effects":{"allowed":["none"]},"deadline-ms":5000,`
			a := w.call("POST /v1/act", strings.Replace(jsonAct(tc.intent, tc.json), `"proto"`, more+`"proto"`, 1))
			require.Equal(t, 200, a.status, "%s", a.body)
			b := w.call("POST /v1/act", fmt.Sprintf(`{:proto 1 :trace {:id "t"} :task {:intent :%s} :input %s :done {:must #{:schema-valid}} :constraints {:language :en} :effects {:allowed #{:none}} :deadline-ms 5000}`, tc.intent, tc.edn),
				"Content-Type", "application/edn", "Accept", "application/edn")
			require.Equal(t, 200, b.status, "%s", b.body)
			calls := w.exec.Calls()
			require.Len(t, calls, 2)
			same := []edn.Value{edn.K("trace"), edn.K("request/id"), edn.K("deadline-ms"), edn.K("budget")}
			assert.Equal(t, calls[1].Request.Dissoc(same...).String(), calls[0].Request.Dissoc(same...).String())
			asJSON, err := edn.WriteJSON(b.value(t).Key("result"))
			require.NoError(t, err)
			again, err := edn.WriteJSON(a.value(t).Key("result"))
			require.NoError(t, err)
			assert.Equal(t, string(asJSON), string(again))
		})
	}
}

// ENV-008, ENV-015: a text in the place of a number or boolean of the envelope is of the wrong type in JSON and in EDN,
// except the words for flags of the edge.
func TestTextIsNoNumber(t *testing.T) {
	for _, tt := range []struct {
		at       []string // path of the field
		text     string
		expected string
		reason   string
	}{
		{[]string{"deadline-ms"}, "5", ":int", "shape/wrong-type"},
		{[]string{"debug/plan?"}, "true", ":boolean", "shape/wrong-type"},
		{[]string{"debug/transcript?"}, "true", ":boolean", "shape/wrong-type"},
		{[]string{"trace", "turn"}, "5", ":int", "shape/wrong-type"},
		{[]string{"queue", "priority"}, "5", ":int", "shape/wrong-type"},
		{[]string{"constraints", "max-chars"}, "5", ":int", "shape/wrong-type"},
		{[]string{"constraints", "no-web"}, "true", ":boolean", "shape/wrong-type"},
		{[]string{"done", "score-min"}, "0.5", "[:number {:max 1 :min 0}]", "done/score-min-not-number"},
		{[]string{"budget", "max-tokens"}, "5", ":int", "budget/not-number"},
		{[]string{"budget", "max-wall-ms"}, "5", ":int", "budget/not-number"},
		{[]string{"budget", "temperature"}, "0.5", ":number", "budget/not-number"},
		{[]string{"task", "dispatch", "retry", "fallback-max"}, "1", "[:int {:max 32 :min 0}]", "dispatch/wrong-type"},
		{[]string{"task", "dispatch", "allow-failure?"}, "true", ":boolean", "dispatch/wrong-type"},
	} {
		t.Run(strings.Join(tt.at, " "), func(t *testing.T) {
			w := newWorld(t)
			keys := make([]edn.Value, len(tt.at))
			request := edn.MustRead(`{:proto 1 :trace {:id "t"} :task {:intent :t/any} :input {}}`)
			for i, key := range tt.at {
				keys[i] = edn.K(key)
			}
			request = assocIn(request, edn.Text(tt.text), keys...)
			asJSON, err := edn.WriteJSON(request)
			require.NoError(t, err)
			for media, body := range map[string]string{"application/json": string(asJSON), "application/edn": request.String()} {
				a := w.call("POST /v1/act", body, "Content-Type", media, "Accept", "application/edn")
				assert.Equal(t, 400, a.status, "%s", a.body)
				e := a.value(t).Key("error")
				assert.Equal(t, ":invalid-request", e.Key("type").String())
				details := e.Key("details")
				assert.Equal(t, edn.Vector(keys...).String(), details.Key("path").String(), media)
				assert.Equal(t, tt.expected, details.Key("expected").String(), media)
				assert.Equal(t, edn.Text(tt.text).String(), details.Key("got").String(), media)
				assert.Equal(t, ":"+tt.reason, details.Key("reason").String(), media)
			}
			assert.Empty(t, w.exec.Calls())
		})
	}
}

// assocIn returns v with a value at a path of keys.
func assocIn(v, val edn.Value, keys ...edn.Value) edn.Value {
	if len(keys) == 0 {
		return val
	}
	inner, _ := v.Get(keys[0])
	if !inner.IsMap() {
		inner = edn.MustMap()
	}
	return v.Assoc(keys[0], assocIn(inner, val, keys[1:]...))
}

// VAL-006: a plan in JSON runs as its EDN form does, with tools and messages typed by the schema of their intent.
func TestPlanInJSON(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:text "x" :more {:n 1}}`)})
	w.exec.On("t/chat", dispatchtest.Step{Value: edn.MustRead(`{:text "fine" :finish :stop}`)})
	const chat = `{"messages":[{"role":"user","content":{"slot/path":["a","text"]}}],` +
		`"tools":[{"tool/id":"fs/read","description":"reads","in-schema":["map",["path","string"]]}]}`
	const plan = `{"plan":{"nodes":[
	  {"op":"call","intent":"t/any","input":{"kind":"a"},"as":"a","done":{"must":["schema-valid"]}},
	  {"op":"call","intent":"model/chat","input":` + chat + `,"as":"b","when":{"present?":"a"}},
	  {"op":"emit","input":{"said":{"slot/path":["b","text"]},"n":{"slot/path":["a","more","n"]}}}]}}`
	a := w.call("POST /v1/act", jsonAct("plan/run", plan))
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Contains(t, string(a.body), `"said":"fine"`)
	assert.Contains(t, string(a.body), `"n":1`)
	calls := w.exec.Calls()
	require.Len(t, calls, 2)
	assert.Equal(t, `{:messages [{:content "x" :role :user}] :tools [{:description "reads" :in-schema ["map" ["path" "string"]] :tool/id :fs/read}]}`,
		calls[1].Request.Key("input").String())

	a = w.call("POST /v1/act", jsonAct("plan/run", `{"plan":{"nodes":[{"op":"call","intent":"t/nothing","input":{}}]}}`))
	assert.Equal(t, 400, a.status, "%s", a.body)
	assert.Contains(t, string(a.body), "CHECK-011")
}

// HTTP-002: negotiation of response and request formats.
func TestNegotiation(t *testing.T) {
	w := newWorld(t)
	for accept, want := range map[string]string{
		"":                                  "application/json",
		"*/*":                               "application/json",
		"application/*":                     "application/json",
		"application/edn":                   "application/edn",
		"application/json, application/edn": "application/json",
		"application/json;q=0.5, application/edn":   "application/edn",
		"application/edn;q=0.5, */*;q=0.1":          "application/edn",
		"application/json;q=0, */*":                 "application/edn",
		"text/html, */*;q=0.1":                      "application/json",
		"APPLICATION/EDN":                           "application/edn",
		"text/html":                                 "",
		"application/json;q=0, application/edn;q=0": "",
		"nonsense": "",
	} {
		var a answer
		if accept == "" {
			a = w.call("GET /health", "")
		} else {
			a = w.call("GET /health", "", "Accept", accept)
		}
		if want == "" {
			assert.Equal(t, 406, a.status, accept)
			continue
		}
		assert.Equal(t, 200, a.status, accept)
		assert.Equal(t, want, a.header.Get("Content-Type"), accept)
	}
}

// Section 1, bad input: each malformed body has one typed error.
func TestBodies(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`)})
	const asEDN, asText = "application/edn", "text/plain; charset=utf-8"
	for name, tc := range map[string]struct {
		body, media string
		status      int
		typ, say    string
	}{
		"text":              {"say hello", asText, 200, "", ""},
		"bare string":       {`"say hello"`, asEDN, 200, "", ""},
		"only a prompt":     {`{"prompt":"say hello"}`, "application/json", 200, "", ""},
		"truncated":         {`{:proto 1`, asEDN, 400, "invalid-request", ""},
		"two forms":         {`{} {}`, asEDN, 400, "invalid-request", ""},
		"two documents":     {`{} {}`, "application/json", 400, "invalid-request", ""},
		"duplicate keys":    {`{:a 1 :a 2}`, asEDN, 400, "invalid-request", "duplicate key"},
		"duplicate names":   {`{"a":1,"a":2}`, "application/json", 400, "invalid-request", ""},
		"a mile of vectors": {strings.Repeat("[", 1<<20), asEDN, 400, "invalid-request", ""},
		"a mile of arrays":  {strings.Repeat("[", 1<<20), "application/json", 400, "invalid-request", ""},
		"no UTF-8":          {"\xff\xfe", asText, 400, "http/bad-encoding", "UTF-8"},
		"number":            {"7", asEDN, 400, "invalid-request", "not a map"},
		"deadline zero":     {`{:proto 1 :trace {:id "t"} :task {:intent :t/any} :input {} :deadline-ms 0}`, asEDN, 400, "invalid-request", "deadline-ms"},
		"other proto":       {`{:proto 2 :trace {:id "t"} :task {:intent :t/any} :input {}}`, asEDN, 400, "invalid-request", "proto"},
		"unknown intent":    {`{:proto 1 :trace {:id "t"} :task {:intent :t/anny} :input {}}`, asEDN, 400, "invalid-request", "t/any"},
	} {
		a := w.call("POST /v1/act", tc.body, "Content-Type", tc.media)
		assert.Equal(t, tc.status, a.status, "%s: %s", name, a.body)
		if tc.typ != "" {
			assert.Equal(t, tc.typ, a.failure(t), name)
			assert.Contains(t, string(a.body), tc.say, name)
		}
	}
	empty := w.call("POST /v1/act", "")
	assert.Equal(t, 400, empty.status)
	assert.Contains(t, string(empty.body), "lacks")
	assert.Equal(t, "shape/missing-key", func() string { s, _ := empty.value(t).Key("error").Key("details").Key("reason").AsString(); return s }())
}

// shortForms are the bodies of acts that are no envelopes.
var shortForms = []struct{ media, body string }{
	{"text/plain; charset=utf-8", "say hello"},
	{"application/edn", `"say hello"`},
	{"application/edn", `{:prompt "say hello"}`},
	{"application/json", `"say hello"`},
	{"application/json", `{"prompt":"say hello"}`},
}

// RUN-020: the header Idempotency-Key counts for acts in a short form too. TestIdempotencyKeys
// of the command line shows that they share a run.
func TestKeysOfShortForms(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`)})
	for _, form := range shortForms {
		for key, refused := range map[string]string{"two words": "idempotency/invalid-key", "k": "db/not-configured"} {
			a := w.call("POST /v1/act", form.body, "Content-Type", form.media, "Idempotency-Key", key)
			assert.Equal(t, refused, a.failure(t), "%s: %s", form.body, a.body)
		}
	}
}

// VAL-006: a response with keys that collide in JSON is rejected.
func TestJSONCollision(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:a 1 "a" 2}`)})
	a := w.call("POST /v1/act", jsonAct("t/any", "{}"))
	assert.Equal(t, 406, a.status)
	assert.Equal(t, "value/json-collision", a.failure(t))
	b := w.call("POST /v1/act", jsonAct("t/any", "{}"), "Accept", "application/edn")
	assert.Equal(t, 200, b.status, "%s", b.body)
}

// HTTP-002: any body yields one typed response through both decoders, and the
// daemon survives.
func FuzzActBody(f *testing.F) {
	for _, body := range []string{jsonAct("t/any", "{}"), ednAct("t/any", "{}"), `{`, `[[[[`, `"x"`, "\xff", `{:proto 1 :proto 1}`, `{"proto":1e999}`, `#inst "x"`, "\x00", `{"#tag":"a","#value":1}`} {
		f.Add(body, true)
		f.Add(body, false)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, body string, asJSON bool) {
		w.t = t
		w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
		media := "application/edn"
		if asJSON {
			media = "application/json"
		}
		a := w.call("POST /v1/act", body, "Content-Type", media)
		if a.status != 200 && a.failure(t) == "" {
			t.Fatalf("%d without a type: %s", a.status, a.body)
		}
		if a.status == 500 {
			t.Fatalf("a defect: %s", a.body)
		}
	})
}
