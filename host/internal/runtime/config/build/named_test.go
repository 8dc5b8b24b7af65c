package build_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-064: a setting of a plugin that holds the id of a capability must name one;
// the error has the line of the setting and the id that was meant.
func TestSettingsNameCapabilities(t *testing.T) {
	chess := configtest.Chess()
	chess.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true}
		[:agent {:block true :labels 1 :optional true} [:map-of :string [:map {:closed true} [:model {:unit :capability :optional true} :string]
			[:tools {:unit :capability :optional true} [:vector :string]]]]]]}`)
	for model, want := range map[string]string{
		`"chess/engine"`: "", `"chess/engin"`: "config/dangling-reference at 6:15 chess/engine", `""`: "",
		"null\n      tools = [\"chess/engine\"]": "", "null\n      tools = [\"chess/engine\", \"chess/engin\"]": "config/dangling-reference at 7:15 chess/engine",
	} {
		path := configtest.Write(t, `plugin "chess" {
  command = ["bin/chess"]

  config {
    agent "docs" {
      model = `+model+`
    }
  }
}
`)
		_, ds := config.Load(context.Background(), path, config.Options{Describer: configtest.Describer{"chess": chess}, Env: configtest.NoEnv})
		got := ""
		for _, d := range ds {
			if d.Type == "config/dangling-reference" {
				require.NotNil(t, d.Range)
				got = fmt.Sprintf("%s at %d:%d %s", d.Type, d.Range.Start.Line, d.Range.Start.Column, d.Nearest)
			}
		}
		assert.Equal(t, want, got, "%v", ds)
	}
}
