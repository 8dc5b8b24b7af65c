package setup

import (
	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
)

// Settings returns the supervisor settings of a plugin block, without its secrets.
func Settings(p plugins.Plugin) plugin.Settings {
	approved, parts := "", []string(nil)
	if p.Lock == lock.StateMatches {
		approved, parts = p.Binary, p.Hashes.All()
	}
	s := plugin.Settings{
		Approved: approved, ApprovedParts: parts,
		Name: p.Name, Command: p.Command, Files: p.Files,
		Env: p.Env, EnvPass: p.EnvPass, Workdir: p.Workdir,
		StartTimeout: p.StartTimeout, ConfigureTimeout: p.ConfigureTimeout,
		StopGrace: p.StopGrace, DrainTimeout: p.DrainTimeout,
		MaxInFlight: p.MaxInFlight, Queue: p.Queue, MaxMessage: p.MaxMessage, Encoding: p.Encoding, NoMux: !p.Mux,
		CallDepth: p.CallDepth, LogLevel: p.LogLevel,
		Config: p.Config, ConfigFiles: p.Reads, Names: p.Names(), Needs: p.Needs, Isolation: p.Isolation,
		Restart: plugin.Restart{
			Policy:     plugin.RestartPolicy(p.Restart.Policy),
			Max:        p.Restart.Max,
			Window:     p.Restart.Window,
			Backoff:    p.Restart.Backoff,
			MaxBackoff: p.Restart.MaxBackoff,
			Jitter:     p.Restart.Jitter,
			ResetAfter: p.Restart.ResetAfter,
		},
		Health: plugin.Health{
			Interval:     p.Health.Interval,
			Timeout:      p.Health.Timeout,
			Misses:       p.Health.Misses,
			ReadyTimeout: p.Health.ReadyTimeout,
		},
		Instances: plugin.Instances{
			Min: p.Instances.Min, Max: p.Instances.Max, Standby: p.Instances.Standby,
			IdleTTL: p.Instances.IdleTTL, MaxCalls: p.Instances.MaxCalls, Pin: plugin.Pin(p.Instances.Pin),
		},
		Swap: plugin.Swap{
			Mode:       plugin.SwapMode(p.Swap.Mode),
			Share:      p.Swap.Share,
			MinSamples: p.Swap.MinSamples,
			Timeout:    p.Swap.Timeout,
		},
	}
	if p.Described && p.Attached == "" { // the description of an attached plugin was modified
		s.Described = p.Description.Value()
	}
	return s
}

// WithSecrets returns s with the secrets of the plugin in the form that Configure receives. The
// error means that a secret cannot be read.
func WithSecrets(s plugin.Settings, p plugins.Plugin) (plugin.Settings, error) {
	secrets, err := p.SecretTexts()
	if err != nil {
		return s, err
	}
	if secrets.Len() > 0 {
		s.Secrets = secrets
	}
	return s, nil
}
