package httpapi

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// The schemas of bodies. The OpenAPI document exports them, and JSON bodies
// are typed by them. They check the shape only; the contract checks the
// meaning.
const (
	specError = `[:map
  [:type :keyword] [:message :string] [:class :keyword] [:retryable? :boolean]
  [:source {:optional true} :keyword] [:hint {:optional true} :string]
  [:where {:optional true} :map] [:details {:optional true} :map] [:cause {:optional true} :map]]`

	specSummary = `[:map {:closed true}
  [:run :string] [:status :keyword] [:intent :keyword] [:principal :string] [:epoch [:int {:min 1}]] [:records [:int {:min 1}]]
  [:accepted-at :inst] [:finished-at {:optional true} :inst] [:latency-ms {:optional true} [:int {:min 0}]]
  [:cost-usd {:optional true} :decimal] [:error/type {:optional true} :keyword]
  [:imported? {:optional true} :boolean] [:pinned? {:optional true} :boolean] [:dry-run? {:optional true} :boolean]
  [:purged-at {:optional true} :inst] [:removed-at {:optional true} :inst]]`

	specTally = `[:map {:closed true} [:total [:int {:min 0}]] [:by-status {:optional true} [:map-of :keyword :int]]
  [:by-outcome {:optional true} [:map-of :keyword :int]] [:latency-ms {:optional true} [:map {:closed true} [:p50 :int] [:p95 :int]]]
  [:cost-usd {:optional true} :decimal]]`

	specKPI = `[:map {:closed true}
  [:parse-rate [:maybe :decimal]] [:retry-rate [:maybe :decimal]] [:fallback-rate [:maybe :decimal]]
  [:judge-pass-rate [:maybe :decimal]] [:must-failed-rate [:maybe :decimal]] [:must-failed-rate-final [:maybe :decimal]]
  [:cache-hit-rate [:maybe :decimal]] [:accepted-cost {:doc "USD"} [:maybe :decimal]]
  [:failure-taxonomy [:map {:closed true} [:by-type [:map-of :keyword :int]] [:by-domain [:map-of :keyword :int]]]]]`

	specWindowed = `[:map {:closed true} [:since-boot :map] [:minutes-5 :map] [:hour-1 :map]]`

	specRequest = `[:map {:closed true}
  [:proto {:doc "version of the envelope"} [:enum 1]]
  [:trace [:map {:closed true} [:id [:string {:min 1 :max 128}]] [:turn {:optional true} [:int {:min 0}]]]]
  [:task [:map {:closed true}
    [:intent :keyword]
    [:cap/id {:optional true} :keyword]
    [:requires {:optional true} [:map {:closed true}
      [:in-schema {:optional true} :keyword] [:out-schema {:optional true} :keyword]
      [:result/type {:optional true} [:enum :value :plan :stream]]
      [:cap/kind {:optional true} :keyword] [:cap/tags {:optional true} [:set :keyword]]
      [:effects/allowed {:optional true} [:set :keyword]]]]
    [:dispatch {:optional true} [:map
      [:candidates {:optional true} [:vector {:max 64} [:or :keyword [:map [:cap/ref :keyword]]]]]
      [:policy {:optional true} :keyword] [:strategy {:optional true} :keyword]
      [:fallback-to {:optional true} [:vector :keyword]]
      [:switch-on {:optional true} [:set :keyword]] [:switch-on/replace {:optional true} [:set :keyword]]
      [:checks {:optional true} [:vector :keyword]]
      [:retry {:optional true} :map]]]]]
  [:input :map]
  [:context {:optional true} :map]
  [:constraints {:optional true} [:map
    [:language {:optional true} :keyword] [:style {:optional true} :keyword]
    [:max-chars {:optional true} [:int {:min 1 :max 12000}]] [:no-web {:optional true} :boolean]]]
  [:done {:optional true} [:map {:closed true}
    [:must {:optional true} [:set :keyword]] [:should {:optional true} [:set :keyword]] [:score-min {:optional true} :number]]]
  [:budget {:optional true} [:map
    [:max-usd {:optional true} [:or :int :decimal]] [:usd {:optional true} [:or :int :decimal]]]]
  [:effects {:optional true} [:map {:closed true} [:allowed {:optional true} [:set :keyword]] [:scope {:optional true} [:map-of :keyword :any]]]]
  [:routing {:optional true} [:map {:closed true}
    [:meta? {:optional true} :boolean] [:strict? {:optional true} :boolean] [:force? {:optional true} :boolean]
    [:on-error {:optional true} [:enum :fail-open :fail-closed]]
    [:profile {:optional true} :keyword] [:intent {:optional true} :keyword] [:cap/id {:optional true} :keyword]
    [:debug/plan? {:optional true} :boolean] [:debug/transcript? {:optional true} :boolean]]]
  [:queue {:optional true} [:map {:closed true} [:class {:optional true} :keyword] [:priority {:optional true} [:int {:min -9 :max 9}]]]]
  [:role {:optional true} :keyword]
  [:model {:optional true} :string]
  [:system {:optional true} :string]
  [:cap/id {:optional true} :keyword]
  [:request/id {:optional true} [:string {:min 1 :max 128}]]
  [:response/type {:optional true :doc "default: stream with Accept: text/event-stream, else value"} [:enum :value :stream :accepted]]
  [:stream? {:optional true} :boolean]
  [:deadline-ms {:optional true} [:int {:min 1 :max 86400000}]]
  [:debug/plan? {:optional true} :boolean]
  [:debug/transcript? {:optional true} :boolean]
  [:session/id {:optional true :doc "a session of the caller"} :string]
  [:idempotency/key {:optional true :doc "requests of one caller with one key share one run"} [:string {:min 1 :max 128}]]]`

	specResponse = `[:map {:closed true}
  [:proto [:enum 1]]
  [:trace {:optional true} :map]
  [:run/id {:optional true} [:re "^run_[0-9A-HJKMNP-TV-Z]{26}$"]]
  [:request/id {:optional true} :string]
  [:result {:optional true} [:map [:type [:enum :value]] [:out :any] [:usage {:optional true} :map]]]
  [:error {:optional true} ERROR]
  [:invoke/meta {:optional true} :map]
  [:quality {:optional true} :map]
  [:usage {:optional true} :map]
  [:budget {:optional true} [:map {:closed true}
    [:reserved :map] [:settled :map] [:refunded :map] [:mark :keyword]
    [:scopes [:vector [:map [:scope :keyword] [:limit :map] [:used :map] [:reserved :map] [:left :map] [:mark :keyword]
      [:user {:optional true} :string] [:per {:optional true} :keyword] [:resets {:optional true} :inst]]]]]]
  [:models/used {:optional true} [:vector [:vector :any]]]
  [:warnings {:optional true} [:vector :map]]
  [:session/warnings {:optional true :doc "bindings and turns of the session that were left out"} [:vector [:map [:reason :keyword] [:target [:vector :keyword]] [:var {:optional true} :keyword]]]]
  [:plan/run {:optional true} :map]
  [:plan/debug {:optional true} :map]
  [:transcript {:optional true} [:vector :map]]]`
)

var specs = map[string]string{
	"envelope/request":  specRequest,
	"envelope/response": specResponse,
	"envelope/cancel":   `[:map {:closed true} [:reason {:optional true :doc "recorded with the run"} [:string {:min 1 :max 200}]]]`,
	"envelope/answer":   `[:map {:closed true} [:answer {:doc "in the schema of the interrupt"} :any]]`,
	"answer/error":      `[:map {:closed true} [:error ERROR]]`,
	"answer/health": `[:map {:closed true}
  [:ok? :boolean] [:service [:enum "ferment"]] [:version :string] [:routes [:int {:min 1}]]
  [:isolation {:optional true :doc "confinement of the plugin processes by the kernel"}
   [:map [:level [:enum :none :limits :strict]] [:enforcement {:doc "number of processes per enforcement"} [:map-of :keyword :int]]
    [:best-effort :int] [:udp [:enum :held :open]]]]
  [:quality {:optional true} [:vector [:map {:closed true} [:cap/id :keyword] [:intent :keyword] [:state :keyword]]]]
  [:judges {:optional true :doc "in use with reduced weight"} [:vector [:map {:closed true} [:judge :string] [:state [:enum :uncalibrated :expired :weak :drifted]]]]]]`,
	"answer/ready": `[:map {:closed true}
  [:ok? :boolean] [:phase [:enum :starting :ready :draining]] [:profile {:optional true} :keyword] [:boot :string]
  [:failed [:vector [:map {:closed true} [:condition :keyword] [:since :inst] [:why :string]]]]
  [:weaker-than-prod {:optional true} [:vector :map]]]`,
	"answer/routes": `[:map {:closed true}
  [:routes [:vector [:map {:closed true}
    [:method [:enum "DELETE" "GET" "POST"]] [:path [:re "^/"]] [:open? :boolean] [:operation {:optional true} :keyword] [:summary :string]]]]]`,
	"answer/whoami": `[:map {:closed true}
  [:principal :string] [:principal/type :keyword] [:login {:optional true} :string] [:token/id {:optional true} :string]
  [:session/id {:optional true :doc "the only session that it may use"} :string] [:expires-at {:optional true} :inst]
  [:roles [:set :keyword]] [:narrow {:optional true :doc "limits of the token"} [:map-of :keyword [:set :keyword]]]
  [:operations [:set :keyword]]]`,
	"auth/login":     `[:map {:closed true} [:login [:string {:min 1 :max 64}]] [:password [:string {:min 1 :max 4096}]]]`,
	"answer/logout":  `[:map {:closed true} [:ok? :boolean]]`,
	"answer/summary": specSummary,
	"answer/runs": `[:map {:closed true}
  [:runs [:vector SUMMARY]] [:more? :boolean]
  [:next {:optional true :doc "cursor of the next page"} :string]]`,
	"answer/statistics": `[:map {:closed true}
  [:since :inst] [:until :inst] [:runs TALLY] [:intents [:map-of :keyword TALLY]] [:failures [:map-of :keyword :int]]
  [:operations [:map-of :keyword :int]] [:attempts TALLY] [:capabilities [:map-of :keyword TALLY]]
  [:gates [:map-of :keyword [:map {:closed true} [:verdicts :int] [:passed :int] [:share :decimal]]]]
  [:cache {:optional true :doc "runs of cacheable intents, by their use of the cache"} [:map-of :keyword :int]]
  [:routing {:optional true :doc "runs whose router was asked, by what became of it: decided, planned, static, closed"} [:map-of :keyword :int]]
  [:runs/without-records {:optional true} :int] [:kpi KPI]]`,
	"answer/telemetry": `[:map {:closed true} [:ok? :boolean] [:service :string] [:telemetry [:map {:closed true}
  [:windows WINDOWED] [:act WINDOWED] [:workflow WINDOWED] [:kpi [:map {:closed true} [:since-boot KPI] [:minutes-5 KPI] [:hour-1 KPI]]]
  [:cache WINDOWED] [:queue :map] [:lifecycle :map] [:journal :map] [:budget :map] [:session :map] [:plugins [:vector :map]]]]]`,
	"answer/interrupts": `[:map {:closed true} [:interrupts [:vector [:map [:run :string] [:intent :keyword] [:interrupt :string]
  [:host {:optional true :doc "id of the host that executes the run, if it is another one; only that host takes the answer"} :string]]]]]`,
	"answer/run": `[:map {:closed true}
  [:run SUMMARY] [:epochs [:vector :map]] [:nodes [:vector :map]]
  [:deadline-at {:optional true} :inst] [:cancel {:optional true} :map] [:suspended {:optional true} :map] [:error {:optional true} ERROR]
  [:interrupts {:optional true :doc "questions to people that are open"} [:vector :map]]
  [:resumable? {:optional true :doc "it failed, and a resume without the request may succeed"} :boolean]
  [:cache {:optional true :doc "its use of the cache of answers, if the intent is cacheable"} [:enum :hit :miss :bypass]]
  [:cache/run {:optional true :doc "the run that gave the answer of a hit"} :string]
  [:response {:optional true :doc "the response envelope of a finished run"} :map]]`,
	"answer/records": `[:map {:closed true}
  [:run :string] [:records [:vector :map]] [:last [:int {:min 0}]] [:more? :boolean]]`,
	"answer/verified": `[:map {:closed true}
  [:ok? :boolean] [:runs [:int {:min 0}]] [:damaged [:vector :map]]]`,
	"envelope/resume": `[:map {:closed true} ` + decisionEntry + `]`,
	"envelope/replay": `[:map {:closed true} ` + replayEntries + `]`,
	"answer/replayed": `[:map {:closed true}
  [:run {:doc "of a replay with mode fill: the new one"} :string] [:status :keyword]
  [:records {:optional true} [:int {:min 0}]] [:hash {:optional true :doc "of the response, which is that of the record"} :string] [:latency-ms {:optional true} [:int {:min 0}]]
  [:replay/of {:optional true} :string] [:replay/mode {:optional true} :keyword]
  [:recorded {:optional true :doc "number of calls that were taken from the records"} [:int {:min 0}]] [:made {:optional true :doc "number of calls that were made"} [:int {:min 0}]]
  [:diff {:optional true} :map]]`,
	"answer/value":   `[:map {:closed true} [:hash [:re "^b3:[0-9a-f]{64}$"]] [:value :any]]`,
	"answer/logs":    `[:map {:closed true} [:plugin :string] [:lines {:doc "maps, and texts where a line is not JSON"} [:vector :any]]]`,
	"answer/resumed": `[:map {:closed true} [:run :string] [:status :keyword]]`,
	"answer/diff": `[:map {:closed true}
  [:equal? :boolean] [:values? :boolean] [:differs [:vector :keyword]] [:a :map] [:b :map] [:nodes [:vector :map]]]`,
	"answer/canceled": `[:map {:closed true}
  [:run :string] [:status :keyword] [:cancel/accepted? :boolean]]`,
	"answer/interrupt":  `[:map {:closed true} [:run :string] [:interrupt :string]]`,
	"answer/job":        "[:or " + builtin("res/job-accepted") + builtin("res/job-status") + "]",
	"answer/job-cancel": builtin("res/job-cancel"),
	"answer/openapi":    `[:map [:openapi [:re "^3\\.1\\."]] [:info :map] [:paths :map] [:components :map]]`,
	"answer/admin": `[:map {:closed true}
  [:ok? :boolean] [:action {:optional true} :keyword] [:result {:optional true} :any]
  [:error {:optional true} ERROR] [:type {:optional true} :keyword] [:message {:optional true} :string]
  [:retryable? {:optional true} :boolean] [:details {:optional true} :map]]`,
}

func builtin(name string) string { return schema.Builtin()[name].String() }

// envelopes compiles the schemas of bodies, once.
var envelopes = sync.OnceValue(func() map[string]*schema.Schema {
	out := make(map[string]*schema.Schema, len(specs))
	for name, text := range specs {
		out[name] = schema.MustCompile(edn.MustRead(strings.NewReplacer("ERROR", specError, "SUMMARY", specSummary, "TALLY", specTally, "KPI", specKPI, "WINDOWED", specWindowed).Replace(text)))
	}
	return out
})

// typedRequest is the request schema for typing JSON. No number of a request is beyond what a JSON number represents,
// so a text is not read as one: it is of the wrong type, as it is in EDN. Amounts of money are texts in JSON.
var typedRequest = sync.OnceValue(func() *schema.Schema {
	return schema.MustCompile(edn.MustRead(strings.NewReplacer("[:int ", "[:number ", ":int ", ":number ").Replace(specRequest)))
})

func envelopeNames() []string { return slices.Sorted(maps.Keys(specs)) }
