package act_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The secrets of these tests.
const (
	secretText   = "CANARY-token"
	secretNumber = "77712345"
	secretAnswer = "CANARY-answer"
)

// secretWorld has an intent whose input and answer have secrets. a/one answers with what
// it was told, a/flaky fails as its first attempt and says a secret in its error.
func secretWorld(t testing.TB) *dispatchtest.World {
	t.Helper()
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/flaky", ""), router("r/pick", "")},
		Schemas: map[string]string{
			"t/in":  `[:map [:token {:secret true} :string] [:pin {:secret true :optional true} :int] [:n {:optional true} :int]]`,
			"t/out": `[:map [:ticket {:secret true} :string] [:told :string]]`,
		},
		Intents: []registry.Intent{{ID: "text/respond", In: "t/in", Out: "t/out", ResultTypes: []string{"value"}},
			{ID: "route/decide", In: "req/route", Out: "res/route"}},
	})
	answer := func(c dispatch.Call) dispatchtest.Step {
		token, _ := c.Request.Key("input").Key("token").AsString()
		return dispatchtest.Step{Value: edn.MustMap(edn.K("ticket"), edn.Text(secretAnswer+token), edn.K("told"), edn.Text("you said "+token))}
	}
	w.Func("a/one", func(_ context.Context, c dispatch.Call) dispatchtest.Step { return answer(c) })
	w.Func("a/flaky", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		if token, _ := c.Request.Key("input").Key("token").AsString(); c.Attempt == 1 {
			return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "%s", token).WithHint("the token " + token + " is not known")}
		}
		return answer(c)
	})
	return w
}

// assertSilent checks that records and values have no secret.
func assertSilent(t *testing.T, records []journal.Record, secrets ...string) {
	t.Helper()
	var all bytes.Buffer
	for _, rec := range records {
		dispatchtest.Verify(t, rec)
		all.WriteString(rec.Value().String())
		rec.Refs(func(ref journal.Ref) { all.WriteString(ref.Value().String()) })
	}
	for _, secret := range append(secrets, secretText, secretNumber, secretAnswer) {
		at := strings.Index(all.String(), secret)
		assert.Negative(t, at, "%s: %s", secret, all.String()[max(0, at-300):max(0, at)+20])
	}
}

// secretCases are acts whose secrets come from their input, literals, bindings and
// answers.
var secretCases = map[string]string{
	"intent": `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/one]}} :input {:token "` + secretText + `" :pin ` + secretNumber + `}}`,
	"fails":  `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/flaky] :retry {:same-cap-max 1}}} :input {:token "` + secretText + `" :pin ` + secretNumber + `}}`,
	"plan": ownPlan(`{:nodes [
	  {:op :let :value {:of ["`+secretText+`-let"]} :as :kept}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token "`+secretText+`" :pin {:slot/id :pin}} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky] :retry {:same-cap-max 1}} :input {:token {:slot/path [:x :out :ticket]}} :as :y}
	  {:op :plan :as :inner :plan {:nodes [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token {:slot/path [:kept :of 0]} :n 1} :as :z}
	    {:op :emit :input {:slot/path [:z :out]}}]}}
	  {:op :emit :input [{:slot/path [:y :out]} {:slot/path [:inner :out]}]}]}`, ":bindings {:pin "+secretNumber+"}", ""),
}

// JRN-022: values that a schema marks as secret are in no record and no event, also where
// an answer or an error repeats them; plugins and the caller get them. Equal secrets have
// equal hashes, and a strict replay works without them.
func TestSecretsAreNotRecorded(t *testing.T) {
	for name, text := range secretCases {
		t.Run(name, func(t *testing.T) {
			w := secretWorld(t)
			s := service(t, w)
			response, err, records := do(t, s, text)
			require.Nil(t, err, "%v", err)
			assertSilent(t, records)
			assert.Contains(t, response.Key("result").String(), secretAnswer, "the caller gets the answer")
			var tokens []string // of calls that run at once, in any order
			for _, c := range w.Calls() {
				token, _ := c.Request.Key("input").Key("token").AsString()
				tokens = append(tokens, token)
			}
			assert.Contains(t, tokens, secretText, "the plugin gets the secret")
			require.NoError(t, journal.Watch(t.Context(), journal.Recorded(records), func(e journal.Event) bool {
				assert.NotContains(t, e.Value().String()+e.Response.String(), "CANARY")
				return true
			}))
			again, err, records2 := do(t, s, text)
			require.Nil(t, err, "%v", err)
			require.NotNil(t, again)
			assert.Equal(t, finished(t, records).Response.Value().Key("result").String(), finished(t, records2).Response.Value().Key("result").String())
			_, _, other := do(t, service(t, w), text)
			assert.NotEqual(t, finished(t, records).Response.Value().Key("result").String(),
				finished(t, other).Response.Value().Key("result").String(), "another key gives other hashes")
		})
	}
}

// JRN-022: a run that is resumed without its secrets never sends their hashes to a
// plugin: it ends with run/secret-missing, unless all calls that need them are recorded.
func TestResumeWithoutSecrets(t *testing.T) {
	for name, text := range secretCases {
		t.Run(name, func(t *testing.T) {
			_, err, records := do(t, service(t, secretWorld(t)), text)
			require.Nil(t, err, "%v", err)
			ended := map[string]bool{}
			for n := 1; n < len(records); n++ {
				w := secretWorld(t)
				all, err := resumed(t, w, records[:n], crashed)
				assert.Empty(t, w.Calls(), "after %d records", n)
				assertSilent(t, all)
				ended[fmt.Sprint(err == nil)] = true
				if err != nil {
					assert.Equal(t, "run/secret-missing", err.Type, "after %d records: %v", n, err)
					assert.True(t, err.Retryable && err.Class != contract.ClassFinal)
				}
			}
			assert.Len(t, ended, 2, "some go on, some do not")
		})
	}
}

// JRN-022, RUN-022: the key of a run that lost its secrets continues it with those of the
// request that has the key. A job of the same host has them while it waits and is retried.
func TestSecretsOfLaterStarts(t *testing.T) {
	text := strings.TrimSuffix(secretCases["plan"], "}") + keyed + "}"
	kept := newKeeper()
	key := bytes.Repeat([]byte{7}, 32)
	host := func(w *dispatchtest.World) *act.Service {
		return service(t, w, func(c *act.Config) { c.Journal, c.Keys, c.SecretKey = kept, &act.Keys{}, key })
	}
	w := secretWorld(t)
	want, err := host(w).Do(t.Context(), request(text))
	require.Nil(t, err, "%v", err)
	var id string
	for run := range kept.runs {
		id = run
	}
	whole := kept.runs[id]
	at := 0
	for i, rec := range whole {
		if rec.Body.Kind() == journal.KindNodeCommitted && rec.Path.String() == "[1]" {
			at = i + 1
		}
	}
	require.NotZero(t, at)
	past := decoded(t, whole[:at])
	cut := func() { // as a crash of the host does
		kept.runs[id] = past
		kept.Memory.Drop(id)
		kept.Load(id, past)
	}
	cut()
	w = secretWorld(t)
	s := host(w)
	run, refused := s.Resume(t.Context(), id, past, crashed)
	require.Nil(t, refused)
	_, err = run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "run/secret-missing", err.Type)
	_, err = s.Do(t.Context(), request(strings.ReplaceAll(text, secretText, "CANARY-other")))
	require.NotNil(t, err)
	assert.Equal(t, "idempotency/mismatch", err.Type, "the secret is part of the request")
	got, err := s.Do(t.Context(), request(text))
	require.NotNil(t, err, "the answer of the first node is lost")
	assert.Equal(t, "run/secret-missing", err.Type)
	require.NotNil(t, got)
	assertSilent(t, kept.runs[id])
	for _, c := range w.Calls() {
		assert.False(t, journal.Masked(c.Request), "%s", c.Request)
	}
	assert.NotEqual(t, "nil", want.Key("result").String())

	text = strings.TrimSuffix(secretCases["intent"], "}") + `:idempotency/key "k-2"}`
	_, err = s.Do(t.Context(), request(text))
	require.Nil(t, err)
	first := id
	for run := range kept.runs {
		if run != first {
			id = run
		}
	}
	past = decoded(t, kept.runs[id][:3])
	cut()
	run, refused = s.Resume(t.Context(), id, past, crashed)
	require.Nil(t, refused)
	_, err = run.Wait()
	require.NotNil(t, err)
	response, err := s.Do(t.Context(), request(text))
	require.Nil(t, err, "%v", err)
	assert.Contains(t, response.Key("result").String(), secretAnswer)
	assertSilent(t, kept.runs[id])

	jobs := journal.NewMemory()
	one := queue.New(queue.Settings{Workers: 1, MaxQueued: 9, Classes: []queue.Class{{Name: "batch", Workers: 1, MaxQueued: 9, Weight: 1}}}, time.Now)
	w = secretWorld(t)
	s = service(t, w, func(c *act.Config) {
		c.Journal, c.Queue, c.Classes, c.Retry = memory{jobs}, one, act.Classes{Names: []string{"batch"}, Accepted: "batch"}, act.Retry{MaxAttempts: 2}
	})
	job, err := s.Submit(request(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/flaky]}} :input {:token "` + secretText + `"} :response/type :accepted}`))
	require.Nil(t, err)
	require.True(t, job.AwaitTurn())
	records, _ := jobs.Records(job.ID())
	require.Nil(t, s.Begin(job, records, ""))
	_, err = job.Wait()
	require.Nil(t, err, "%v", err)
	assert.Len(t, w.Calls(), 2)
	records, _ = jobs.Records(job.ID())
	assertSilent(t, records)
}

// JRN-022: a request with the hash that replaces a secret in the journal is refused.
func TestMaskedRequest(t *testing.T) {
	_, _, records := do(t, service(t, secretWorld(t)), secretCases["intent"])
	masked := records[0].Body.(*journal.RunAccepted).Request.Value()
	require.True(t, journal.Masked(masked))
	_, err := service(t, secretWorld(t)).Do(t.Context(), act.Act{Request: masked})
	require.NotNil(t, err)
	assert.Equal(t, "invalid-request", err.Type)
}
