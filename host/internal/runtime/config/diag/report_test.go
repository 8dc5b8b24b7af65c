package diag_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place returns a source whose line n has the text.
func place(name string, order, n int, lines ...string) *diag.Source {
	return diag.NewSource(name, name, order, []byte(strings.Repeat("\n", n-1)+strings.Join(lines, "\n")+"\n"))
}

// HCL-002: the form of a diagnostic as text and as JSON.
func TestRenderForm(t *testing.T) {
	unknown := place("ferment.hcl", 0, 16, "    max      = 2", "    stand_by = 1")
	missing := place("common/20-intents.hcl", 1, 4, `  candidates = ["chess/stockfsh", "chess/embedded"]`)
	declares := place("local/10-plugins.hcl", 0, 12, `capability "chess/stockfish" {`)
	depth := place("common/10-chess.hcl", 2, 8, "    depth  = 99")
	c := diag.NewCollector(diag.Sources{unknown.Name: unknown, missing.Name: missing, declares.Name: declares, depth.Name: depth})
	at := func(s *diag.Source, piece string) *diag.Range {
		i := bytes.Index(s.Text, []byte(piece))
		return s.Span(i, i+len(piece))
	}
	c.Add(diag.Diagnostic{Type: "config/unknown-name", Message: `unknown attribute "stand_by" in plugin "chess", instances`, Range: at(unknown, "stand_by"), Path: []string{"plugin", "chess", "instances", "stand_by"},
		Expected: diag.Words([]string{"idle_ttl", "max", "max_calls", "min", "pin", "standby"}), Found: edn.Text("stand_by"), Nearest: "standby", Context: true})
	c.Add(diag.Diagnostic{Type: "config/dangling-reference", Message: `intent "chess/best-move" names the unknown capability "chess/stockfsh"`, Range: at(missing, `"chess/stockfsh"`), Path: []string{"intent", "chess/best-move", "candidates"},
		Found: edn.Text("chess/stockfsh"), Nearest: "chess/stockfish", Related: []diag.Related{{Range: at(declares, `capability "chess/stockfish"`), Message: `declares capability "chess/stockfish"`}}})
	c.Add(diag.Diagnostic{Type: "config/plugin-schema", Message: `config of plugin "chess": depth is above its maximum`, Range: at(depth, "99"), Path: []string{"plugin", "chess", "config", "depth"},
		Expected: edn.Text("int 1..64, search depth in plies (chess 1.0.0, binary b3:77aa0c1e)"), Found: edn.Int(99), Hint: "ferment plugin inspect chess"})
	r := diag.NewReport(c.Result(), 0, 4, diag.DefaultMaxShown)
	configtest.Golden(t, "testdata/form.txt", []byte(r.Text(false)))
	out, err := r.JSON()
	require.NoError(t, err)
	require.True(t, json.Valid(out))
	configtest.Golden(t, "testdata/form.json", out)
	configtest.Golden(t, "testdata/form.edn", append(edn.WritePretty(r.Value(), edn.PrettyOptions{Width: 120}), '\n'))
}

// HCL-032: a long list of expected values is wrapped between words.
func TestExpectedFits(t *testing.T) {
	d := diag.Diagnostic{Type: "config/unknown-name", Message: "unknown", Expected: edn.Text(strings.TrimSuffix(strings.Repeat("twelve_words, ", 40), ", "))}
	text := d.Text()
	assert.Equal(t, 40, strings.Count(text, "twelve_words"))
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 100, line)
		assert.Equal(t, strings.TrimRight(line, " \n"), strings.TrimRight(line, "\n"))
	}
}

// HCL-002: what is counted as an error can be shown: repeated errors count once, and warnings neither count as errors nor
// take the place of one.
func TestCountedErrorsAreShown(t *testing.T) {
	c := diag.NewCollector(diag.Sources{})
	for i := range diag.MaxKept + 100 {
		c.Add(diag.Diagnostic{Type: "config/unused", Severity: diag.SeverityWarning, Message: fmt.Sprint("no use for ", i)})
		c.Add(diag.Diagnostic{Type: "config/limit", Message: "too many"})
	}
	assert.Zero(t, c.Dropped)
	r := diag.NewReport(c.Result(), c.Dropped, 1, 0)
	assert.Equal(t, 1, r.Errors)
	assert.Len(t, r.Shown, 1)
	assert.Zero(t, r.Omitted)

	c = diag.NewCollector(diag.Sources{})
	for i := range diag.MaxKept + 100 {
		c.Add(diag.Diagnostic{Type: "config/type", Message: fmt.Sprint("wrong ", i)})
		c.Fold("one cause", diag.Diagnostic{Type: "config/type", Message: "folded"})
	}
	assert.Equal(t, 101, c.Dropped)
	r = diag.NewReport(c.Result(), c.Dropped, 1, 0)
	assert.Equal(t, diag.MaxKept+101, r.Errors)
	assert.Len(t, r.Shown, diag.MaxKept)
	assert.Contains(t, r.Text(false), "a load keeps the first 1000")
}
