package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
)

// TEL-001: a line of the log has no value that is a secret by the name of its field or
// by its form, in any module, as JSON and as text; the rest of the line stays.
func TestLogHidesSecrets(t *testing.T) {
	const canary = "canary3b7f29c1e5aa"
	for _, text := range []bool{false, true} {
		var out bytes.Buffer
		log, _, flush := telemetry.NewLog(&out, text)
		for _, l := range []string{"host", "audit", "plugin"} {
			log.Named(l).Info("with Bearer "+canary, "password", canary, "api_key", []string{canary}, "n", 12345678901234567, "user", "ann",
				"input", `{:login "ann" :password "`+canary+`"}`, "more", map[string]any{"X-Auth-Token": canary, "url": "https://ann:" + canary + "@db/x"})
		}
		log.Info("a line with token create in it", "tokens", 7)
		flush()
		assert.NotContains(t, out.String(), canary)
		assert.Equal(t, 3*6, strings.Count(out.String(), "[hidden]"), out.String())
		if text {
			continue
		}
		for line := range strings.Lines(out.String()) {
			require.True(t, json.Valid([]byte(line)), line)
		}
		assert.Equal(t, 3, strings.Count(out.String(), "12345678901234567"))
		assert.Contains(t, out.String(), `"tokens":7`)
	}
}
