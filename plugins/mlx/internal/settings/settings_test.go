package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
)

func some(change func(*Settings)) Settings {
	s := Defaults()
	s.Model, s.Serve = "a/model", map[string]Serve{"voice": {}}
	change(&s)
	return s
}

// LM-005, MLX-006, MLX-021: every mistake is reported at its setting.
func TestCheck(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Settings)
		want   []string
	}{
		"fine":                      {change: func(*Settings) {}},
		"no placeholder":            {func(s *Settings) { s.Command = []string{"server"} }, []string{"[:command]: does not set the port on which"}},
		"a fixed port in words":     {func(s *Settings) { s.Port, s.Command = 8080, []string{"server", "-p", "8080"} }, nil},
		"unknown placeholder":       {func(s *Settings) { s.Command = []string{"server", "{prot}", "{port}"} }, []string{"[:command 1]: {prot} is not known"}},
		"braces of JSON":            {func(s *Settings) { s.Command = []string{"server", `{"a":{"b":1}}`, "{port}"} }, nil},
		"no program":                {func(s *Settings) { s.Command = []string{" ", "{port}"} }, []string{"[:command 0]: is empty"}},
		"open":                      {func(s *Settings) { s.Command = []string{"server", "--host", "0.0.0.0", "{port}"} }, []string{"[:command 2]: opens the server"}},
		"open, joined":              {func(s *Settings) { s.Command = []string{"server", "--host=::", "{port}"} }, []string{"[:command 1]: opens the server"}},
		"loopback":                  {func(s *Settings) { s.Command = []string{"server", "--host=::1", "--bind", "127.0.0.2", "{port}"} }, nil},
		"ports beyond the last":     {func(s *Settings) { s.Port, s.Workers = 65534, "per-session" }, []string{"[:port]: with 4 workers"}},
		"paths":                     {func(s *Settings) { s.ReadyPath, s.Quit.Path = "health", "http://x/quit" }, []string{"[:ready-path]", "[:quit :path]"}},
		"two lines":                 {func(s *Settings) { s.Quit.Stdin = "a\nb" }, []string{"[:quit :stdin]"}},
		"environment":               {func(s *Settings) { s.Env = map[string]string{"A=B": "", "PLUGIN_X": "", "OK": "a\x00"} }, []string{`[:env "A=B"]`, `[:env "PLUGIN_X"]`, `[:env "OK"]`}},
		"no serve block":            {func(s *Settings) { s.Serve = nil }, []string{"[:serve]"}},
		"the label of operators":    {func(s *Settings) { s.Serve = map[string]Serve{"server": {}} }, []string{`[:serve "server"]`}},
		"a label that is none":      {func(s *Settings) { s.Serve = map[string]Serve{"a/b": {Intents: []string{"chat"}}} }, []string{`[:serve "a/b"]`, `[:serve "a/b" :intents]`}},
		"a model that is not there": {func(s *Settings) { s.Serve = map[string]Serve{"a": {Name: "other"}} }, []string{`[:serve "a" :name]`}},
		"one that is allowed":       {func(s *Settings) { s.Serve, s.AllowModels = map[string]Serve{"a": {Name: "other"}}, []string{"other"} }, nil},
		"eager without a session":   {func(s *Settings) { s.Start, s.Workers = "eager", "per-session" }, []string{"[:start]"}},
	} {
		err := some(row.change).Check()
		if row.want == nil {
			assert.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		for _, want := range row.want {
			assert.Contains(t, err.Error(), want, name)
		}
		assert.Len(t, strings.Split(err.Error(), "\n"), len(row.want), "%s: %v", name, err)
	}
}

// MLX-003: the ports depend on the settings alone.
func TestPorts(t *testing.T) {
	one := some(func(*Settings) {})
	assert.Equal(t, one.Ports(), some(func(*Settings) {}).Ports())
	assert.Equal(t, one.Ports(), some(func(s *Settings) { s.Model = "another" }).Ports(), "what was approved for one model holds for the next")
	assert.NotEqual(t, one.Ports(), some(func(s *Settings) { s.Command = []string{"llama-server", "--port", "{port}"} }).Ports())
	assert.Len(t, one.Ports(), 16)
	for _, port := range one.Ports() {
		assert.GreaterOrEqual(t, port, uint16(20000))
		assert.Less(t, port, uint16(32768))
	}
	assert.Equal(t, []uint16{8080}, some(func(s *Settings) { s.Port = 8080 }).Ports())
	assert.Equal(t, []uint16{8080, 8081, 8082}, some(func(s *Settings) { s.Port, s.Workers, s.MaxWorkers = 8080, "per-session", 3 }).Ports())
	assert.Len(t, some(func(s *Settings) { s.Workers, s.MaxWorkers = "per-session", 64 }).Ports(), 128)
}

// MLX-005: the name of the model in requests, and the environment of the
// server.
func TestNames(t *testing.T) {
	s := some(func(s *Settings) {
		s.Serve = map[string]Serve{"voice": {}, "other": {Name: "adapter"}}
		s.AllowModels = []string{"adapter"}
	})
	require.NoError(t, s.Check())
	provider, models, err := s.Build(20001, transport.System())
	require.NoError(t, err)
	defer provider.Client.Close()
	for _, row := range []failure.Row{failure.Unavailable, failure.Foreign} {
		hint := provider.Report.Error(row, failure.Known{}, "x").Hint
		assert.NotContains(t, hint, "base_url", "this plugin has no such setting")
	}
	assert.Equal(t, []string{"a/model", "default_model"}, []string{models["voice"].Name, models["voice"].Wire})
	assert.Equal(t, []string{"adapter", "adapter"}, []string{models["other"].Name, models["other"].Wire})
	assert.EqualValues(t, 4096, models["voice"].Options.MaxTokens, "MLX-006: there is always a bound")
	s.Preset = "llama-server"
	assert.Equal(t, "a/model", s.Wire(""))
	assert.False(t, s.Allows("elsewhere/model"))
	assert.Equal(t, "1", s.Environment()["HF_HUB_OFFLINE"])
	s.Offline, s.Env = false, map[string]string{"PYTHONUNBUFFERED": "0"}
	assert.Equal(t, map[string]string{"PYTHONUNBUFFERED": "0"}, s.Environment())
	assert.Equal(t, []string{"mlx_lm.server", "--host", "127.0.0.1", "--port", "20001", "--model", "a/model"}, s.Fill(20001))
}
