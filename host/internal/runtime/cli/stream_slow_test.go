//go:build slow

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStreams follows every row and compares the events with a golden file.
func TestStreams(t *testing.T) {
	names := map[string]bool{}
	for _, s := range streamed {
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t)
			got := w.run("run", "plan.edn", "--stream", "--transcript", "-o", "edn")
			events := got.events(t)
			last := events[len(events)-1]
			assert.Equal(t, "finished", word(last.Key("event")))
			response := last.Key("response")
			assert.Equal(t, s.exit, got.code, got.stderr)
			assert.Equal(t, s.fails, word(response.Key("error").Key("type")), "%s", response.Key("error"))
			if s.fails == "" {
				assert.Equal(t, s.out, response.Key("result").Key("out").String())
			}
			assert.Equal(t, s.asked, asks(response.Key("transcript"), s.loose))
			golden(t, filepath.Join("streams", s.name+".edn"), w.story(events, s.loose))
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "streams"))
	require.NoError(t, err)
	for _, f := range files {
		assert.True(t, names[strings.TrimSuffix(f.Name(), ".edn")], "no row makes %s", f.Name())
	}
}
