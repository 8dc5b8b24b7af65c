package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// RUN-030, RUN-033: the cache is off by default, with 256 answers of 64 MiB for 120 s;
// an intent is not cacheable unless it says so, and then for one principal.
func TestCacheBlock(t *testing.T) {
	c, ds := configtest.Load(t, configtest.OnePlugin)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, config.Cache{Settings: cache.Settings{TTL: 2 * time.Minute, MaxEntries: 256, MaxBytes: 64 << 20}}, c.Cache)
	in, _ := c.Generation.Registry.Intent("chess/best-move")
	assert.False(t, in.Cacheable)
	c, ds = configtest.Load(t, configtest.OnePlugin+`
cache {
  enabled     = true
  ttl         = "5s"
  max_entries = 7
  max_bytes   = "1KiB"
}
intent "chess/best-move" {
  in          = "req/chess.position"
  out         = "res/chess.move+pv+eval"
  effects     = ["fs/read", "db/read", "none"]
  cacheable   = true
  cache_scope = "tenant"
}
`)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, config.Cache{Enabled: true, Settings: cache.Settings{TTL: 5 * time.Second, MaxEntries: 7, MaxBytes: 1 << 10}}, c.Cache)
	in, _ = c.Generation.Registry.Intent("chess/best-move")
	assert.True(t, in.Cacheable)
	assert.Equal(t, registry.CacheTenant, in.CacheScope)

	_, ds = configtest.Load(t, configtest.OnePlugin+`
intent "chess/best-move" {
  in        = "req/chess.position"
  out       = "res/chess.move+pv+eval"
  effects   = ["fs/read", "net/http"]
  cacheable = true
}
`)
	require.Equal(t, []string{"config/range"}, configtest.Types(ds), "RUN-031, HCL-031: with effects")
	assert.Equal(t, []string{"intent", "chess/best-move", "cacheable"}, ds[0].Path)
}

const answering = `
ferment {
  data_dir = "var"
}
plugin "chess" {
  command = ["bin/chess"]
  env     = { A = "1" }
}
schema "a/b" {
  spec = edn("[:map [:n :int]]")
}
check "c" {
  condition = result.n > 1
}
dispatch "d" {
  retry {
    fallback = 1
  }
}
intent "chess/best-move" {
  in       = "req/chess.position"
  out      = "res/chess.move+pv+eval"
  dispatch = "d"
  done {
    should = ["c"]
  }
}
rubric "r" {
  criterion "k" {
    ask = "Is it right?"
  }
}
judge "j" {
  intent = "chess/best-move"
  rubric = "r"
}
prompts {
  roles = { voice = file("voice.txt") }
}
effects {
  rule "fs/read" {
    any = ["admin"]
  }
}
http {
  heartbeat = "15s"
}
queue {
  max_queued = 10
}
store {
  min_free = "1MiB"
}
cache {
  ttl = "9s"
}
session {
  window_turns = 3
}
budget "user" {
  max_usd = 1
}
log {
  format = "json"
}
`

// RUN-030: the hash of what decides about answers changes with the plugins, schemas,
// gates, policies, judges and prompts, also with a file that they name, and with nothing
// else.
func TestAnswersHash(t *testing.T) {
	load := func(text, voice string) *config.Config {
		file := configtest.Write(t, text)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "voice.txt"), []byte(voice), 0o600))
		c, ds := config.Load(t.Context(), file, config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess()}})
		require.False(t, ds.HasErrors(), "%s", c.Report(0).Text(false))
		return c
	}
	base := load(answering, "Speak.")
	assert.Equal(t, base.Answers, load(strings.ReplaceAll(answering, "\n", "\n\n"), "Speak.").Answers, "the same values")
	assert.NotEqual(t, base.Answers, load(answering, "Sing.").Answers, "the text of a prompt")
	for from, changes := range map[string]struct {
		to      string
		answers bool
	}{
		`A = "1"`:                       {`A = "2"`, true},
		`[:map [:n :int]]`:              {`[:map [:n :any]]`, true},
		`result.n > 1`:                  {`result.n > 2`, true},
		`fallback = 1`:                  {`fallback = 2`, true},
		`should = ["c"]`:                {`must = ["c"]`, true},
		`Is it right?`:                  {`Is it short?`, true},
		`rubric = "r"`:                  {`votes = 1`, true},
		`any = ["admin"]`:               {`all = ["admin"]`, true},
		`data_dir = "var"`:              {`max_runs = 7`, false},
		`heartbeat = "15s"`:             {`heartbeat = "16s"`, false},
		`max_queued = 10`:               {`max_queued = 11`, false},
		`min_free = "1MiB"`:             {`min_free = "2MiB"`, false},
		`ttl = "9s"`:                    {`ttl = "8s"`, false},
		`window_turns = 3`:              {`window_turns = 4`, false},
		`max_usd = 1`:                   {`max_usd = 2`, false},
		`format = "json"`:               {`format = "text"`, false},
		"log {\n  format = \"json\"\n}": {"", false},
	} {
		require.Equal(t, 1, strings.Count(answering, from), from)
		c := load(strings.Replace(answering, from, changes.to, 1), "Speak.")
		assert.NotEqual(t, base.Hash, c.Hash, from)
		assert.Equal(t, changes.answers, base.Answers != c.Answers, from)
	}
}
