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
			Doc: "queue class of acts with :response/type :accepted that name none; a run whose caller waits has the class sync",
		},
		{
			Name: "max_queued", Type: integer(0, most), Default: `10000`, Reload: ReloadUse, Serves: "RUN-011, RUN-012",
			Doc: "maximum number of waiting runs of all classes; beyond it acts are rejected with :runtime/overloaded",
		},
		{
			Name: "deadline", Type: dur(time.Millisecond, day), Default: `"2m"`, Reload: ReloadUse, Serves: "RUN-006",
			Doc: "deadline of a run whose caller waits, unless the request has :deadline-ms; the time in the queue counts",
		},
		{
			Name: "async_deadline", Type: dur(time.Millisecond, day), Default: `"15m"`, Reload: ReloadUse, Serves: "RUN-006",
			Doc: "deadline of a run with :response/type :accepted, unless the request has :deadline-ms; the time in the " +
				"queue counts",
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
		Name: "retry", Doc: "further executions of a job whose run failed with a retryable error; committed nodes are not " +
			"executed again",
		Attrs: []Attr{
			{
				Name: "max_attempts", Type: integer(1, 10), Default: `1`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "maximum number of executions, including the first",
			},
			{
				Name: "backoff", Type: dur(0, time.Hour), Default: `"100ms"`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "wait before the second execution; it doubles with each further one",
			},
			{
				Name: "jitter", Type: dur(0, time.Hour), Default: `"0s"`, Reload: ReloadUse, Serves: "RUN-015",
				Doc: "maximum of the random time that is added to each wait",
			},
		},
	}, {
		Name: "class", Label: LabelIdent,
		Doc: "a class of runs; sync, interactive and batch exist without a block",
		Attrs: []Attr{
			{
				Name: "workers", Type: integer(1, 100_000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "maximum number of runs of the class in progress; ferment.max_runs limits all classes together",
			},
			{
				Name: "workers_per_core", Type: Type{Kind: KindNum}.between(0.1, 1000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "maximum number of runs of the class in progress, per core of the machine",
			},
			{
				Name: "max_queued", Type: integer(0, most), Reload: ReloadUse, Serves: "RUN-011, RUN-012",
				Doc: "maximum number of waiting runs of the class; default: 256, of the class sync 1024",
			},
			{
				Name: "weight", Type: integer(1, 1000), Reload: ReloadUse, Serves: "RUN-011",
				Doc: "number of runs of the class that start in its turn while other classes wait too; default: 1, of the " +
					"classes sync and interactive 4",
			},
		},
	}},
}
