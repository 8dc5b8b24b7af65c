package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Operations that a caller needs for the routes of metrics and counters.
const (
	OpReadMetrics Operation = policy.ReadMetrics
	OpReadDiag    Operation = policy.ReadDiag
)

// Telemetry provides the counters of the daemon. Its methods are safe for concurrent use.
type Telemetry interface {
	// Metrics returns all metrics as text of the media type typeMetrics.
	Metrics() ([]byte, error)
	// Diag returns the counts of the daemon, as the body of GET /diag/telemetry has them.
	Diag() edn.Value
}

// typeMetrics is the text format of Prometheus.
const typeMetrics mediaType = "text/plain; version=0.0.4; charset=utf-8"

// telemetryRoutes returns the routes of telemetry.
func telemetryRoutes() []Route {
	diag := Route{
		Method: http.MethodGet, Path: "/diag/telemetry", Operation: OpReadDiag,
		Summary: "what the daemon has counted, by branch",
		Doc: "The branches act, workflow, kpi and cache, and the waiting times of the queue, are counts since the start and of the last 5 minutes and hour; windows has their bounds. The others are the present state. " +
			"Everything that is counted comes from the records of runs, as do GET /metrics and GET /v1/runs/stats.",
		failed: formAdmin,
		serve: serveTelemetry(func(t Telemetry) reply {
			return reply{status: 200, body: edn.MustMap(
				edn.K("ok?"), edn.Bool(true), edn.K("service"), edn.Text("ferment"), edn.K("telemetry"), t.Diag())}
		}),
		Answers: []Answer{{200, "the counts", "answer/telemetry"}},
	}
	posted := diag
	posted.Method, posted.Summary, posted.Doc = http.MethodPost,
		"what the daemon has counted, by branch, for clients that only send POST", "The request has no body."
	return []Route{
		{
			Method: http.MethodGet, Path: "/metrics", Operation: OpReadMetrics, text: typeMetrics,
			Summary: "metrics for Prometheus",
			Doc:     "Labels are names of the configuration, error types of the catalogue, or fixed words; every other value is counted as \"other\". No metric has more series than telemetry.max_series.",
			failed:  formPlain,
			serve: serveTelemetry(func(t Telemetry) reply {
				text, err := t.Metrics()
				if err != nil {
					return formPlain.failure(contract.Errorf("runtime/internal", "collect metrics: %w", err))
				}
				return reply{status: 200, text: text}
			}),
			Answers: []Answer{{200, "the metrics", ""}, {500, "a defect of the host", "answer/error"}},
		},
		diag, posted,
	}
}

// telemetryActions returns the admin actions of telemetry.
func telemetryActions() []Action {
	words := func(names []string) string { return "[:enum :" + strings.Join(names, " :") + "]" }
	return []Action{{
		Name: "log-level", Doc: "the levels of the log, after a change of one until a reload changes the block telemetry",
		Input: `[:module {:optional true :doc "a part of the host; default: all parts without a level of their own"} ` + words(language.LogModules()) +
			`] [:level {:optional true :doc "default: no change"} ` + words(language.LogLevels()) + `]`,
		do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
			module, _ := in.Key("module").AsKeyword()
			level, _ := in.Key("level").AsKeyword()
			if module != "" && level == "" {
				return edn.Nil(), contract.Errorf("invalid-request", "log-level with :module lacks :level").
					WithHint("write :level, or leave out :module to see the levels")
			}
			return c.SetLogLevel(module, level)
		},
	}}
}

func serveTelemetry(answer func(Telemetry) reply) func(*exchange) reply {
	return func(x *exchange) reply {
		t := x.api.backend.Telemetry()
		if t == nil {
			return x.form().failure(contract.Errorf("runtime/starting", "the daemon is coming up"))
		}
		return answer(t)
	}
}
