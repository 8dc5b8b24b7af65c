package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// AUTH-033: the default limits. The effect of each limit is tested in httpapi.
func TestDefaultHTTPLimits(t *testing.T) {
	want := config.HTTPLimits{
		ActBody:              4 << 20,
		SessionBody:          1 << 20,
		AdminBody:            64 << 10,
		Headers:              32 << 10,
		HeaderRead:           5 * time.Second,
		BodyRead:             30 * time.Second,
		Idle:                 120 * time.Second,
		Write:                30 * time.Second,
		StreamWrite:          10 * time.Second,
		Connections:          1024,
		PerAddress:           64,
		RunSubscribers:       64,
		PrincipalSubscribers: 128,
		ActRate:              config.Rate{Events: 20, Per: time.Second},
		ActBurst:             40,
		AnonymousRate:        config.Rate{Events: 5, Per: time.Second},
		LoginRate:            config.Rate{Events: 5, Per: time.Minute},
	}
	for _, profile := range []string{language.ProfileProd, language.ProfileDev, language.ProfileAdmin} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n")
		require.Empty(t, configtest.Types(ds), profile)
		assert.Equal(t, want, c.HTTP.Limits, profile)
	}
}
