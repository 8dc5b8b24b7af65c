package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// RUN-011, RUN-015: the shipped classes; jobs are not retried.
func TestQueueDefaults(t *testing.T) {
	c, ds := configtest.Load(t, "")
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, config.Queue{
		Enabled: true, Default: "batch", MaxQueued: 10_000, Intents: map[string]string{},
		Deadlines: request.Deadlines{Usual: 2 * time.Minute, Accepted: 15 * time.Minute, Most: 24 * time.Hour},
		Grace:     2 * time.Second,
		Retry:     config.QueueRetry{MaxAttempts: 1, Backoff: 100 * time.Millisecond},
		Classes: []config.QueueClass{
			{Name: "sync", Workers: 256, MaxQueued: 1024, Weight: 4},
			{Name: "interactive", PerCore: 8, MaxQueued: 256, Weight: 4},
			{Name: "batch", PerCore: 2, MaxQueued: 256, Weight: 1},
		},
	}, c.Queue)
}

// RUN-011: classes are changed and added, and intents choose one.
func TestQueueClasses(t *testing.T) {
	c, ds := configtest.Load(t, `queue {
  default_class = "night"
  max_queued    = 50000
  class "batch" {
    workers = 3
  }
  class "night" {
    workers_per_core = 0.5
    max_queued       = 20000
    weight           = 2
  }
}
intent "a/b" {
  in          = "req/any"
  out         = "res/any"
  queue_class = "night"
}
`)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, "night", c.Queue.Default)
	assert.Equal(t, map[string]string{"a/b": "night"}, c.Queue.Intents)
	assert.Equal(t, []config.QueueClass{
		{Name: "batch", Workers: 3, MaxQueued: 256, Weight: 1},
		{Name: "night", PerCore: 0.5, MaxQueued: 20_000, Weight: 2},
	}, c.Queue.Classes[2:])

	for text, wrong := range map[string]string{
		"queue {\n  default_class = \"nigth\"\n  class \"night\" {\n    workers = 1\n  }\n}\n":                   "config/dangling-reference",
		"queue {\n  max_deadline = \"1m\"\n  deadline     = \"2m\"\n}\n":                                         "config/range",
		"queue {\n  class \"night\" {\n  }\n}\n":                                                                 "config/range",
		"queue {\n  class \"night\" {\n    workers          = 1\n    workers_per_core = 2\n  }\n}\n":             "config/range",
		"queue {\n  class \"night\" {\n    workers = 1\n    weight  = 0\n  }\n}\n":                               "config/range",
		"intent \"a/b\" {\n  in          = \"req/any\"\n  out         = \"res/any\"\n  queue_class = \"x\"\n}\n": "config/dangling-reference",
	} {
		_, ds := configtest.Load(t, text)
		assert.Equal(t, []string{wrong}, configtest.Types(ds), text)
	}
}
