package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// runRoutes returns the routes of recorded runs. A caller sees only its own runs, an operator all;
// other runs do not exist for the caller (AUTH-012).
func runRoutes() []Route {
	const get, post, id = http.MethodGet, http.MethodPost, "/v1/runs/{id}"
	rows := []Route{
		{
			Method: get, Path: "/v1/runs", Operation: OpReadRuns,
			Summary: "list recorded runs, the latest first",
			Doc:     "With more? true the answer has a cursor under next. The list behind a cursor has no run that was recorded after it was made.",
			Query: filterEntries + ` [:key {:optional true :doc "idempotency key of the principal, else of the caller"} [:string {:min 1 :max 128}]]
				[:limit {:optional true :default 20} [:int {:min 1 :max 200}]]
				[:cursor {:optional true :doc "of the answer before"} [:string {:min 1 :max 64}]]`,
			serve:   serveRuns(listRuns),
			Answers: []Answer{{200, "the runs", "answer/runs"}, {400, "a query parameter is wrong", "envelope/response"}},
		},
		{
			Method: get, Path: "/v1/runs/stats", Operation: OpReadRuns,
			Summary: "what the recorded runs of a period did",
			Doc: "Runs are counted by status, intent and error type, operations by state, attempts by outcome and capability, verdicts by gate; " +
				"share is the part of the verdicts that passed. What ended in the period is counted, and what had not ended then; runs that were imported are not. Rates of kpi are null where nothing was counted. runs/without-records are old runs of which only the summary is kept.",
			Query: statisticsEntries,
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Statistics(x.r.Context(), runFilter(x.query))
			}),
			Answers: []Answer{{200, "the counts", "answer/statistics"}, {400, "a query parameter is wrong", "envelope/response"}},
		},
		{
			Method: get, Path: "/v1/interrupts", Operation: OpAnswerRuns,
			Summary: "list the open questions of runs to people",
			Doc:     "POST /v1/runs/{id}/interrupts/{interrupt} answers one.",
			serve:   serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) { return r.Interrupts(x.r.Context()) }),
			Answers: []Answer{{200, "the questions", "answer/interrupts"}},
		},
		{
			Method: get, Path: id, Operation: OpReadRuns,
			Summary: "state of a run",
			Doc:     "Summary, epochs and nodes as far as they are recorded; deadline, error and response of a finished run. A response that was purged is absent.",
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Show(x.r.Context(), x.run, RunParts{Response: true})
			}),
			Answers: []Answer{{200, "the run", "answer/run"}},
		},
		{
			Method: get, Path: id + "/records", Operation: OpReadRuns,
			Summary: "records of a run in order, a page of them",
			Doc:     "The records after last are on the next page, if more? is true or the run goes on.",
			Query: `[:after {:optional true :doc "number of the last record before them" :default 0} [:int {:min 0}]]
				[:limit {:optional true :default 500} [:int {:min 1 :max 10000}]]
				[:values {:optional true :doc "with the values that the records name, by hash, except those above 16 MiB"} [:enum "true" "false"]]`,
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Records(x.r.Context(), RecordsQuery{
					Run:    x.run,
					After:  int(intOr(x.query, "after", 0)),
					Limit:  int(intOr(x.query, "limit", 0)),
					Values: text(x.query, "values") == "true",
				})
			}),
			Answers: []Answer{{200, "the records", "answer/records"}},
		},
		{
			Method: get, Path: id + "/events", Operation: OpReadRuns, events: eventsAlways,
			Summary: "events of a run, as a stream",
			Doc: "The events are those of POST /v1/act with Accept: text/event-stream, each sent once its record is durable. The id of an event is a cursor: the header Last-Event-ID, else the parameter after, continues with the event after it, also after a restart of the daemon. " +
				"The stream ends with finished, which holds the response. When the daemon goes down, the last event is shutdown. A run that failed and went on has the event reopened in place of the first finished.",
			Query:   `[:after {:optional true :doc "the id of an event"} :string] [:format {:optional true :doc "of the data" :default "json"} [:enum "json" "edn"]]`,
			Headers: []Header{{"Last-Event-ID", "the id of an event; takes precedence over the parameter after"}},
			serve:   serveEvents,
			Answers: []Answer{
				{200, "the events", ""},
				{204, "the run is finished, and the cursor is its last event", ""},
				{429, "the run or the caller has too many open streams, or the caller exceeds its rate limit", "envelope/response"},
				{409, "the cursor is beyond the last record of the run", "envelope/response"},
				{410, "the events of the run were removed or purged", "envelope/response"},
			},
		},
		{
			Method: get, Path: id + "/verify", Operation: OpReadRuns,
			Summary: "compare the records and values of a run with their hashes",
			Doc:     "Damage is reported with status 200 and ok? false.",
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Verify(x.r.Context(), x.run)
			}),
			Answers: []Answer{{200, "the outcome", "answer/verified"}},
		},
		{
			Method: post, Path: id + "/cancel", Operation: OpCancelRuns,
			Summary: "request the cancellation of a run",
			Doc:     "The answer is sent once the request is durable. No attempt is started any more, and those in progress are canceled. A finished run stays as it is: cancel/accepted? is false.",
			Query: `[:why {:optional true :doc "recorded with the run"} [:string {:min 1 :max 200}]]
				[:wait {:optional true :doc "milliseconds to wait for the end of the run" :default 0} [:int {:min 0 :max 30000}]]`,
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Cancel(x.r.Context(), x.run, Cancellation{
					By:   x.who.Name,
					Why:  text(x.query, "why"),
					Wait: time.Duration(intOr(x.query, "wait", 0)) * time.Millisecond,
				})
			}),
			Answers: []Answer{
				{200, "the request was recorded, or the run is finished", "answer/canceled"},
				{409, "the run is open, and no daemon executes it", "envelope/response"},
			},
		},
		{
			Method: post, Path: id + "/interrupts/{interrupt}", Operation: OpAnswerRuns,
			Summary: "answer a question that a run puts to people",
			Doc:     "interrupt is the id of an open interrupt, or of the node that asks. The answer is checked against its schema and taken once; the response is sent once it is durable. GET /v1/runs/{id} lists the open interrupts.",
			Body: &Body{Schema: "envelope/answer", Types: []mediaType{typeJSON, typeEDN},
				limit: func(s *Settings) int { return s.Limits.ActBody }},
			serve: serveRuns(answerInterrupt),
			Answers: []Answer{
				{200, "the answer was taken", "answer/interrupt"},
				{409, "the interrupt was answered before, or no daemon executes the run", "envelope/response"},
				{422, "the answer does not fit the schema of the interrupt", "envelope/response"},
			},
		},
		{
			Method: post, Path: id + "/resume", Operation: OpResumeRuns,
			Summary: "continue a suspended or failed run",
			Doc:     "The body has a decision for each open call, which GET /v1/runs/{id} lists under suspended. A run that failed with a retryable error needs none: its failed nodes are executed again, with a new deadline. The answer is sent once the run goes on.",
			Body: &Body{Schema: "envelope/resume", Types: []mediaType{typeJSON, typeEDN}, optional: true,
				limit: func(s *Settings) int { return s.Limits.AdminBody }},
			serve: serveRuns(audited("runs-resume", resumeRun)),
			Answers: []Answer{
				{200, "the run goes on", "answer/resumed"},
				{409, "the run is neither suspended nor failed with a retryable error, or a decision is missing", "envelope/response"},
				{410, "the values of the run were purged", "envelope/response"},
				{422, "a decision does not fit", "envelope/response"},
			},
		},
		replayRoute(id + "/replay"),
		{
			Method: get, Path: id + "/diff/{other}", Operation: OpReadRuns,
			Summary: "compare two runs node by node",
			serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Diff(x.r.Context(), x.run, x.params["other"])
			}),
			Answers: []Answer{{200, "the comparison", "answer/diff"}},
		},
		pinRoute(id+"/pin", "exempt a run from removal by age or size", true),
		pinRoute(id+"/unpin", "let a pinned run be removed again", false),
		{
			Method: http.MethodDelete, Path: id, Operation: OpPurgeRuns,
			Summary: "delete the values of a finished run",
			Doc:     "Requests, inputs, answers and the response are deleted from the disk. Records and hashes stay, so that the run can still be verified.",
			Query:   `[:dry-run {:optional true :doc "only return what would be deleted"} [:enum "true" "false"]]`,
			serve: serveRuns(audited("runs-purge", func(x *exchange, r Runs) (edn.Value, *contract.Error) {
				return r.Purge(x.r.Context(), x.run, text(x.query, "dry-run") == "true")
			})),
			Answers: []Answer{
				{200, "the values are deleted", "answer/summary"},
				{409, "the run is not finished", "envelope/response"},
			},
		},
	}
	for i := range rows {
		r := &rows[i]
		r.failed = formEnvelope
		if strings.HasPrefix(r.Path, id) {
			r.Answers = append(r.Answers, Answer{400, "a query parameter is wrong", "envelope/response"},
				Answer{404, "the caller has no such run", "envelope/response"})
		}
	}
	return rows
}

func answerInterrupt(x *exchange, r Runs) (edn.Value, *contract.Error) {
	body, err := x.input("envelope/answer")
	if err != nil {
		return edn.Nil(), err
	}
	return r.Answer(x.r.Context(), x.run, x.params["interrupt"], body.Key("answer"), x.who.Name)
}

func pinRoute(path, summary string, on bool) Route {
	action := "runs-unpin"
	if on {
		action = "runs-pin"
	}
	return Route{
		Method: http.MethodPost, Path: path, Operation: OpPurgeRuns, Summary: summary,
		serve: serveRuns(audited(action, func(x *exchange, r Runs) (edn.Value, *contract.Error) {
			return r.Pin(x.r.Context(), x.run, on)
		})),
		Answers: []Answer{{200, "the run", "answer/summary"}},
	}
}

// resumeRun handles POST /v1/runs/{id}/resume.
func resumeRun(x *exchange, r Runs) (edn.Value, *contract.Error) {
	body, err := x.input("envelope/resume")
	if err != nil {
		return edn.Nil(), err
	}
	return r.Resume(x.traced(x.r.Context()), x.run, decisionsOf(body, x.who.Name), x.who.Name)
}

// serveRuns returns a handler that calls do with the runs that the caller may see.
func serveRuns(do func(*exchange, Runs) (edn.Value, *contract.Error)) func(*exchange) reply {
	return func(x *exchange) reply {
		runs, err := x.runs()
		if err != nil {
			return x.failure(err)
		}
		body, err := do(x, runs)
		if err != nil {
			return x.failure(err)
		}
		return reply{status: 200, body: body, run: x.run}
	}
}

// runs returns the runs of the caller.
func (x *exchange) runs() (Runs, *contract.Error) {
	control := x.api.backend.Control()
	if control == nil {
		return nil, contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	named := x.query
	for key, param := range map[string]string{"run": "id", "other": "other"} {
		if name := x.params[param]; name != "" {
			named = named.AssocKey(key, edn.Text(name))
		}
	}
	return x.reach(control.Runs(), named), nil
}

// audited returns do with an audit record of each call, as admin actions have one (HTTP-008).
func audited(
	action string, do func(*exchange, Runs) (edn.Value, *contract.Error),
) func(*exchange, Runs) (edn.Value, *contract.Error) {
	return func(x *exchange, r Runs) (edn.Value, *contract.Error) {
		control, row := x.api.backend.Control(), x.api.actions.byName[action]
		if err := row.recordable(control); err != nil {
			return edn.Nil(), err
		}
		logged := x.query
		if form := x.route.Body; form != nil {
			if body, wrong := x.input(form.Schema); wrong == nil { // else do fails
				for key, part := range body.Entries() {
					logged = logged.Assoc(key, part)
				}
			}
		}
		v, err := do(x, r)
		control.Audit(AuditEntry{
			Action:      "admin/" + action,
			Principal:   x.who.Name,
			Address:     x.client(),
			Input:       row.input(logged.AssocKey("run", edn.Text(x.run)), v),
			Err:         row.unquoted(err),
			TraceParent: x.traceParent(),
			Access:      x.decisions,
		})
		return v, err
	}
}

// listRuns handles GET /v1/runs (HTTP-006). A cursor has the id of the last run of a page. New runs
// are listed before it, so they do not move later pages.
func listRuns(x *exchange, r Runs) (edn.Value, *contract.Error) {
	f := runFilter(x.query)
	if f.Key = text(x.query, "key"); f.Key != "" && f.Principal == "" {
		f.Principal = x.who.Name
	}
	if cursor := text(x.query, "cursor"); cursor != "" {
		last, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || !runID.Match(last) {
			return edn.Nil(), wrongPart("query", "a value of next", cursor, "the cursor %.64q is not one of a list of runs", cursor).
				WithHint("use the value of next of the answer before, or no cursor")
		}
		f.Before = string(last)
	}
	list, err := r.List(x.r.Context(), f)
	if err != nil || !list.Key("more?").Truthy() {
		return list, err
	}
	runs := list.Key("runs")
	last, _ := runs.Nth(runs.Len() - 1)
	return list.AssocKey("next", edn.Text(base64.RawURLEncoding.EncodeToString([]byte(text(last, "run"))))), nil
}

// serveEvents handles GET /v1/runs/{id}/events (RUN-040, RUN-041, RUN-044).
func serveEvents(x *exchange) reply {
	after, err := x.cursor()
	if err != nil {
		return x.failure(err)
	}
	runs, err := x.runs()
	if err != nil {
		return x.failure(err)
	}
	watch, err := runs.Watch(x.r.Context(), x.run, after)
	switch {
	case err != nil:
		return x.failure(err)
	case watch == nil:
		return reply{status: http.StatusNoContent, run: x.run}
	case x.r.Method == http.MethodHead:
		x.beginStream(x.run)
		return reply{sent: true}
	}
	s, err := x.newStream()
	if err == nil {
		defer s.leave()
		err = s.ofRun(x.run)
	}
	if err != nil {
		return x.failure(err)
	}
	s.follow(x.run, func(ctx context.Context) error { return watch(ctx, s.show) })
	return reply{sent: true}
}

// cursor returns the number of the last record that the caller has; 0 if it sends no cursor. A
// client that reconnects sends the header with the URL of its first request, so the header takes
// precedence.
func (x *exchange) cursor() (after int, err *contract.Error) {
	given := strings.Join(x.r.Header.Values("Last-Event-ID"), ", ")
	if given == "" {
		given = text(x.query, "after")
	}
	if given == "" {
		return 0, nil
	}
	of, seq, _ := strings.Cut(given, ".")
	n, failed := strconv.ParseInt(seq, 10, 32)
	if of != x.run || failed != nil || n < 1 || strconv.FormatInt(n, 10) != seq {
		return 0, contract.Errorf("stream/bad-cursor", "the cursor %.80q is not the id of an event of run %s", given, x.run).
			WithHint("send the id of the last event that was received, or no cursor")
	}
	return int(n), nil
}
