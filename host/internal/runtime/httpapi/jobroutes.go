package httpapi

import (
	"net/http"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const jobPath = "/v1/act/jobs/"

// jobRoutes returns the routes of jobs, which are acts that are answered before they run. The id of
// a job is that of its run.
func jobRoutes() []Route {
	const id = jobPath + "{id}"
	missing := Answer{404, "the caller has no such job", "envelope/response"}
	return []Route{
		{
			Method: http.MethodGet, Path: id, Operation: OpReadRuns, failed: formEnvelope,
			Summary: "state of an accepted act",
			Doc:     "A completed job has the result, a failed one the error. GET /v1/runs/{id} has the whole response.",
			serve:   serveRuns(job),
			Answers: []Answer{{200, "the job", "answer/job"}, missing},
		},
		{
			Method: http.MethodPost, Path: id + "/cancel", Operation: OpCancelRuns, failed: formEnvelope,
			Summary: "request the cancellation of an accepted act",
			Doc:     "A job that waits for its turn is canceled at once. A finished one stays as it is: cancel/accepted? is false.",
			Query:   `[:wait {:optional true :doc "milliseconds to wait for the end of the job" :default 0} [:int {:min 0 :max 30000}]]`,
			Body: &Body{Schema: "envelope/cancel", Types: []mediaType{typeJSON, typeEDN}, optional: true,
				limit: func(s *Settings) int { return s.Limits.AdminBody }},
			serve:   serveRuns(cancelJob),
			Answers: []Answer{{200, "the request was recorded, or the job is finished", "answer/job-cancel"}, {400, "the body or the query is wrong", "envelope/response"}, missing},
		},
	}
}

func job(x *exchange, r Runs) (edn.Value, *contract.Error) {
	v, err := r.Job(x.r.Context(), x.run)
	if err != nil && err.Type == "run/not-found" {
		err = contract.Errorf("queue/job-not-found", "the caller has no job %s", x.run)
	}
	return v, err
}

func cancelJob(x *exchange, r Runs) (edn.Value, *contract.Error) {
	body, err := x.input("envelope/cancel")
	if err != nil {
		return edn.Nil(), err
	}
	if _, err := job(x, r); err != nil {
		return edn.Nil(), err
	}
	done, err := r.Cancel(x.r.Context(), x.run, Cancellation{
		By:   x.who.Name,
		Why:  text(body, "reason"),
		Wait: time.Duration(intOr(x.query, "wait", 0)) * time.Millisecond,
	})
	if err != nil {
		return edn.Nil(), err
	}
	now, err := job(x, r)
	return edn.MustMap(
		edn.K("job/id"), edn.Text(x.run),
		edn.K("job/status"), now.Key("job/status"),
		edn.K("cancel/accepted?"), done.Key("cancel/accepted?"),
		edn.K("updated-at"), now.Key("updated-at"),
	), err
}
