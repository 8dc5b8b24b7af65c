package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// statusAt is the time of the screens in testdata/status.
var statusAt = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func screen(t *testing.T, v edn.Value) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, statusScreen(&out, v, statusAt))
	assert.LessOrEqual(t, strings.Count(out.String(), "\n"), screenLines)
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), diag.Columns, line)
	}
	return out.String()
}

// CLI-001, OPS-009: the screens of status, byte for byte: a quiet daemon, and one with
// everything that needs attention. Each fits 100 columns and 40 lines.
func TestStatusScreen(t *testing.T) {
	for _, name := range []string{"calm", "troubled"} {
		input, err := os.ReadFile(filepath.Join("testdata", "status", name+".edn"))
		require.NoError(t, err)
		text := screen(t, edn.MustRead(string(input)))
		path := filepath.Join("testdata", "status", name+".txt")
		if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), text, name)
	}
}

// CLI-001: a plugin without processes has the reason in its row.
func TestStatusOfAPluginLeftOut(t *testing.T) {
	row := pluginRow(edn.MustRead(`{:plugin "b01" :condition :unchecked :disabled nil :instances []
 :problem {:message "it ended"}}`), statusAt)
	assert.Equal(t, "it ended", row[len(row)-1])
}

// CLI-001: with more plugins than fit, those that need attention are shown and the
// others are counted.
func TestStatusOfManyPlugins(t *testing.T) {
	var plugins []edn.Value
	for i := range 60 {
		state := "ready"
		if i == 59 {
			state = "quarantined"
		}
		plugins = append(plugins, edn.MustRead(fmt.Sprintf(`{:plugin "p%02d" :condition :required :locked "1.0.0" :installed "1.0.0"
 :instances [{:state :%s :version "1.0.0" :in-flight 0 :restarts 0 :since #inst "2026-11-26T11:00:00Z"}]}`, i, state)))
	}
	calm, err := os.ReadFile(filepath.Join("testdata", "status", "calm.edn"))
	require.NoError(t, err)
	text := screen(t, edn.MustRead(string(calm)).AssocKey("plugins", edn.Vector(plugins...)))
	assert.Contains(t, text, "\np59 ")
	assert.Regexp(t, `\nand \d+ further plugins, see "ferment plugin list"\n$`, text)
	shown := strings.Count(text, "\np")
	var hidden int
	_, err = fmt.Sscanf(text[strings.LastIndex(text, "\nand "):], "\nand %d", &hidden)
	require.NoError(t, err)
	assert.Equal(t, 60, shown-1+hidden, "the heading begins with p too")
}
