package httpapi

import (
	"context"
	"net/http"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// FollowingLog calls show with lines of the log of a plugin, oldest first, until ctx
// ends or show fails. The error is that of ctx, of show, or of reading the log.
type FollowingLog func(ctx context.Context, show func(line edn.Value) error) error

const defaultLines = 100

// logRoutes are the routes of the logs of plugins.
func logRoutes() []Route {
	return []Route{{
		Method: http.MethodGet, Path: "/v1/admin/plugins/{name}/logs", Operation: policy.PluginLogs, events: eventsAsked,
		Summary: "the last lines of a plugin's log, and those to come",
		Doc: "With follow=1, or Accept: text/event-stream, the response is a stream: each line is an event log. It ends with the event shutdown when the daemon goes down. " +
			"The action plugin-logs returns the last lines too.",
		Query: `[:lines {:optional true :default 100} [:int {:min 1 :max 1000}]]
			[:follow {:optional true :doc "1: also send new lines" :default "0"} [:enum "0" "1"]]
			[:format {:optional true :doc "of the data of events" :default "json"} [:enum "json" "edn"]]`,
		failed: formAdmin,
		serve:  serveLogs,
		Answers: []Answer{
			{200, "the lines", "answer/logs"},
			{400, "a query parameter is wrong", "answer/admin"},
			{404, "no plugin has this name", "answer/admin"},
		},
	}}
}

// serveLogs handles GET /v1/admin/plugins/{name}/logs.
func serveLogs(x *exchange) reply {
	control := x.api.backend.Control()
	if control == nil {
		return x.failure(contract.Errorf("runtime/starting", "the daemon is coming up"))
	}
	name, lines := x.params["name"], int(intOr(x.query, "lines", defaultLines))
	if !x.events && text(x.query, "follow") != "1" {
		v, err := control.Logs(name, lines)
		if err != nil {
			return x.failure(err)
		}
		return reply{status: http.StatusOK, body: v}
	}
	log, err := control.FollowLog(name, lines)
	switch {
	case err != nil:
		return x.failure(err)
	case x.r.Method == http.MethodHead:
		x.beginStream("")
		return reply{sent: true}
	}
	s, err := x.newStream()
	if err != nil {
		return x.failure(err)
	}
	defer s.leave()
	s.follow("", func(ctx context.Context) error {
		return log(ctx, func(line edn.Value) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.write(s.frame("", "log", line))
			return s.err
		})
	})
	return reply{sent: true}
}
