package language

import "time"

// The shipped queue classes.
const (
	ClassSync        = "sync"
	ClassInteractive = "interactive"
	ClassBatch       = "batch"
)

// queueBlock configures the order in which accepted runs start.
var queueBlock = Block{
	Name: "queue", Doc: "order in which accepted runs start",
	Attrs: []Attr{
		{
			Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "RUN-011",
			Doc: "whether acts with :response/type :accepted are taken; they need a journal on disk",
		},
		{
			Name: "default_class", Type: ref("class"), Default: `"batch"`, Reload: ReloadUse, Serves: "RUN-011",
			Doc: "class of such acts that name none; a run whose caller waits has the class sync",
		},
		{
			Name: "max_queued", Type: integer(0, most), Default: `10000`, Reload: ReloadUse, Serves: "RUN-011, RUN-012",
			Doc: "runs of all classes that may wait; beyond it acts are rejected with :runtime/overloaded",
		},
		{
			Name: "deadline", Type: dur(time.Millisecond, day), Default: `"2m"`, Reload: ReloadUse, Serves: "RUN-006",
			Doc: "deadline of a run whose caller waits, unless the request has :deadline-ms; the time in the queue counts",
		},
		{
			Name: "async_deadline", Type: dur(time.Millisecond, day), Default: `"15m"`, Reload: ReloadUse, Serves: "RUN-006",
			Doc: "the same of an act with :response/type :accepted",
		},
		{
			Name: "max_deadline", Type: dur(time.Millisecond, day), Default: `"24h"`, Reload: ReloadUse, Serves: "RUN-006",
			Doc: "the longest :deadline-ms that a request may have; it bounds the two defaults too",
		},
		{
			Name: "cancel_grace", Type: dur(100*time.Millisecond, 10*time.Minute), Default: `"2s"`, Reload: ReloadUse, Serves: "RUN-013",
			Doc: "time that a plugin has to end a call that was canceled; then its process is replaced",
		},
	},
	Blocks: []Block{{
		Name: "retry", Doc: "how often a job is executed whose run fails with a retryable error; what it has committed is not executed again",
		Attrs: []Attr{
			{
				Name: "max_attempts", Type: integer(1, 10), Default: `1`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "executions in all",
			},
			{
				Name: "backoff", Type: dur(0, time.Hour), Default: `"100ms"`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "wait before the second execution; it doubles with each",
			},
			{
				Name: "jitter", Type: dur(0, time.Hour), Default: `"0s"`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "the most that is added to each wait, at random",
			},
		},
	}, {
		Name: "class", Label: LabelIdent,
		Doc: "a class of runs; sync, interactive and batch exist without a block",
		Attrs: []Attr{
			{
				Name: "workers", Type: integer(1, 100_000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "runs of the class that are under way at once; ferment.max_runs limits all classes together",
			},
			{
				Name: "workers_per_core", Type: Type{Kind: KindNum}.between(0.1, 1000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "the same, per core of the machine",
			},
			{
				Name: "max_queued", Type: integer(0, most), Reload: ReloadUse, Serves: "RUN-011, RUN-012",
				Doc: "runs of the class that may wait, by default 256, and 1024 of the class sync",
			},
			{
				Name: "weight", Type: integer(1, 1000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "runs that start in turn while other classes wait too, by default 1, and 4 of the classes sync and interactive",
			},
		},
	}},
}
