package httpapi

import (
	"net/http"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// valueRoutes returns the routes of values that runs refer to by hash.
func valueRoutes() []Route {
	return []Route{{
		Method: http.MethodGet, Path: "/v1/values/{hash}", Operation: OpReadRuns, failed: formEnvelope,
		Summary: "a value that the records of a run name by its hash",
		Doc: "A caller has the values of its own runs, an operator all of them. With run, only that run is searched; if its values were purged the status is 410. " +
			"JSON has no keywords, sets and decimals: ask for application/edn to get the value that has the hash.",
		Query: `[:run {:optional true :doc "id of a run that names the value"} [:re "` + runID.String() + `"]]`,
		serve: serveRuns(func(x *exchange, r Runs) (edn.Value, *contract.Error) {
			hash := x.params["hash"]
			v, err := r.Value(x.r.Context(), hash, text(x.query, "run"))
			if err != nil {
				return edn.Nil(), err
			}
			return edn.MustMap(edn.K("hash"), edn.Text(hash), edn.K("value"), v), nil
		}),
		Answers: []Answer{
			{200, "the value", "answer/value"},
			{400, "a query parameter is wrong", "envelope/response"},
			{404, "no run of the caller names the value", "envelope/response"},
			{410, "the values of the run were purged", "envelope/response"},
		},
	}}
}

// replayRoute returns a route that executes a finished run again.
func replayRoute(path string) Route {
	return Route{
		Method: http.MethodPost, Path: path, Operation: OpReplayRuns,
		Summary: "execute a finished run once more from its records, and compare",
		Doc: "By default no plugin is called: the evaluator reads what the records have, and a difference is the error replay/miss. " +
			"With mode fill a new run makes the calls that are not recorded; the answer is sent when it has ended, and has its id and the differences. Without a body the replay is strict.",
		Body: &Body{Schema: "envelope/replay", Types: []mediaType{typeJSON, typeEDN}, optional: true,
			limit: func(s *Settings) int { return s.Limits.AdminBody }},
		serve: serveRuns(audited("runs-replay", replayRun)),
		Answers: []Answer{
			{200, "the replay has ended: in strict mode all values are equal", "answer/replayed"},
			{409, "a value differs from the record, or the run is not finished", "envelope/response"},
			{410, "the values of the run were purged", "envelope/response"},
		},
	}
}

func replayRun(x *exchange, r Runs) (edn.Value, *contract.Error) {
	body, err := x.input("envelope/replay")
	if err != nil {
		return edn.Nil(), err
	}
	q, err := replayQuery(x.run, body)
	if err != nil {
		return edn.Nil(), err
	}
	return q.run(x.traced(x.called(x.r.Context())), r)
}
