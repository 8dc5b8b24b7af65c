package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// AUTH-033: the default limits. The effect of each limit is tested in httpapi. The
// limits of sessions, run subscribers and logins are reserved because this build
// lacks these features.
func TestDefaultHTTPLimits(t *testing.T) {
	want := HTTPLimits{
		ActBody:              4 << 20,
		AdminBody:            64 << 10,
		Headers:              32 << 10,
		HeaderRead:           5 * time.Second,
		BodyRead:             30 * time.Second,
		Idle:                 120 * time.Second,
		Write:                30 * time.Second,
		StreamWrite:          10 * time.Second,
		Connections:          1024,
		PerAddress:           64,
		PrincipalSubscribers: 128,
		ActRate:              Rate{Events: 20, Per: time.Second},
		ActBurst:             40,
		AnonymousRate:        Rate{Events: 5, Per: time.Second},
	}
	for _, profile := range []string{ProfileProd, ProfileDev, ProfileAdmin} {
		c, ds := load(t, "ferment {\n  profile = \""+profile+"\"\n}\n")
		require.Empty(t, types(ds), profile)
		assert.Equal(t, want, c.HTTP.Limits, profile)
	}
	later := map[string]string{"session_body": `"1MiB"`, "run_subscribers": "64", "login_rate": `"5/min"`}
	for _, w := range everyAttribute() {
		if value, ok := later[w.attr.Name]; ok && w.specPath() == "http.limits."+w.attr.Name {
			assert.Equal(t, value, w.attr.Default, w.path)
			delete(later, w.attr.Name)
		}
	}
	assert.Empty(t, later, "not in the specification")
}
