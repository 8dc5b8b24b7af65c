package files_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// HCL-013: the precedence is option, environment, file, prod.
func TestProfilePrecedence(t *testing.T) {
	file := "ferment {\n  profile = \"dev\"\n}\n"
	for _, row := range []struct {
		name, text, option, variable, want string
	}{
		{"nothing", "", "", "", "prod"},
		{"file", file, "", "", "dev"},
		{"environment over file", file, "", "test", "test"},
		{"an empty variable is none", file, "", "", "dev"},
		{"option over environment", file, "admin", "test", "admin"},
		{"env in the file", "ferment {\n  profile = env(\"STAGE\", \"test-live\")\n}\n", "", "", "test-live"},
		{"null is the default", "ferment {\n  profile = null\n}\n", "", "", "prod"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, ds := config.Load(context.Background(), configtest.Write(t, row.text), config.Options{Profile: row.option, Env: func(name string) (string, bool) {
				return row.variable, name == files.ProfileVariable
			}})
			require.Empty(t, configtest.Types(ds))
			assert.Equal(t, row.want, c.Profile)
			assert.NotNil(t, c.Generation)
		})
	}
}

// HCL-013: ferment.profile must not depend on other files.
func TestProfileIsLiteral(t *testing.T) {
	for expr, typ := range map[string]string{
		`local.p`:            "config/type",
		`upper("DEV")`:       "config/type",
		`file("profile")`:    "config/type",
		`"development"`:      "config/range",
		`1`:                  "config/type",
		`env("NOT_THERE")`:   "config/env-missing",
		`"${env("A", "x")}"`: "config/range",
	} {
		t.Run(expr, func(t *testing.T) {
			c, ds := configtest.Load(t, "locals {\n  p = \"dev\"\n}\n\nferment {\n  profile = "+expr+"\n}\n")
			require.Contains(t, configtest.Types(ds), typ, ds)
			assert.Equal(t, "ferment.hcl", ds[len(ds)-1].Range.File)
			assert.Equal(t, language.ProfileProd, c.Profile, "the strictest where nothing is known")
		})
	}
}

// An unknown profile from the option or the environment is an error.
func TestUnknownProfile(t *testing.T) {
	_, ds := config.Load(context.Background(), configtest.Write(t, ""), config.Options{Env: configtest.NoEnv, Profile: "prd"})
	require.Equal(t, []string{"config/range"}, configtest.Types(ds))
	assert.Equal(t, "prod", ds[0].Nearest)
	_, ds = config.Load(context.Background(), configtest.Write(t, ""), config.Options{Env: func(name string) (string, bool) { return "staging", name == files.ProfileVariable }})
	require.Equal(t, []string{"config/range"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "FERMENT_PROFILE")
}
