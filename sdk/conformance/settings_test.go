package conformance

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// SECRET-001: each part of a secret counts, unless it may be a word or is in the
// configuration; a long secret has no more than a bounded number.
func TestPartsOfSecrets(t *testing.T) {
	t.Parallel()
	assert.Len(t, partsOf(markedSecret), len(markedSecret)-secretPart+1)
	assert.LessOrEqual(t, len(partsOf(strings.Repeat(markedSecret, 100))), secretParts)
	s := schema.MustCompile(edn.MustRead(`[:map [:key {:secret true} :string] [:url :string]]`))
	setup := wire.Setup{
		Config:  edn.MustRead(`{:key nil :url "db://localhost:5432/x"}`),
		Secrets: edn.MustMap(edn.Vector(edn.K("key")), edn.Text("password@localhost:5432-k3y9k3y9")),
	}
	_, secrets := (&bench{}).withSecrets(setup, s)
	for text, hidden := range map[string]bool{
		"no password": false, "connects to localhost:5432": false, "db://localhost:5432/x": false,
		"ends in 9k3y9": false, "ends in ...3y9k3y9": false, "ends in ...k3y9k3y9": true,
		"password@localhost:5432-k3y9k3y9": true,
	} {
		assert.Equal(t, hidden, secrets.Replace(text) != text, text)
	}
}

// configured records what Configure and Describe of a plugin receive.
type configured struct {
	*sdk.Service
	seen func(config, secrets edn.Value)
}

func (c configured) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	c.seen(config, edn.Nil())
	return c.Service.Describe(ctx, config, host)
}

func (c configured) Configure(ctx context.Context, setup wire.Setup, host *wire.Caller) (wire.Description, error) {
	c.seen(setup.Config, setup.Secrets)
	return c.Service.Configure(ctx, setup, host)
}

// CONFIGURE-001, SECRET-001: the plugin receives a secret of the run as from a host: nil in the
// configuration, and the text in the secrets of Configure. The report does not show it.
func TestSecretsOfTheRun(t *testing.T) {
	t.Parallel()
	type login struct {
		Key string `edn:"key" secret:"true"`
	}
	type settings struct {
		Word  string `edn:"word"`
		Login login  `edn:"login"`
	}
	const secret = "k3y-of-the-run"
	p := sound()
	p.Config = sdk.Config[settings]{Start: func(_ context.Context, s settings) error {
		if s.Login.Key != secret {
			return errors.New("no key")
		}
		return nil
	}}
	var mu sync.Mutex
	var configs, secrets []string
	target := InProcessService(Serving{Make: func(log *slog.Logger, level *slog.LevelVar) (Service, error) {
		service, err := sdk.NewService(p, log, level)
		return configured{service, func(config, given edn.Value) {
			mu.Lock()
			defer mu.Unlock()
			if !config.IsNil() {
				configs = append(configs, config.String())
			}
			if !given.IsNil() {
				secrets = append(secrets, given.String())
			}
		}}, err
	}})
	report := Run(t.Context(), target, Options{
		Seed:    1,
		Config:  edn.MustRead(`{:word "w" :login {:key "` + secret + `"}}`),
		Only:    regexp.MustCompile(`^core/(configure/(agrees|secrets)|describe/pure)$`),
		Command: CommandLine{Program: []string{"p", secret}},
	})
	assert.Equal(t, Pass, report.Outcome(), "%v", report.Results)
	require.NotEmpty(t, configs)
	require.NotEmpty(t, secrets)
	for _, config := range configs {
		assert.Equal(t, `{:login {:key nil} :word "w"}`, config)
	}
	for _, given := range secrets {
		assert.Equal(t, `{[:login :key] "`+secret+`"}`, given)
	}
	assert.NotContains(t, report.Value().String(), secret)
}
