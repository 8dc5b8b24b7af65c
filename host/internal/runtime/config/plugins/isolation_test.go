package plugins_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/confine"
)

// FX-005, HCL-021: with effects.enforcement = "strict" a plugin is not started if
// the machine cannot enforce its needs, or its effects with an enabled scope. In
// prod this is an error, elsewhere a warning; best-effort, for all or for one
// plugin, accepts it.
func TestStrictEnforcement(t *testing.T) {
	require.Equal(t, confine.Strict, confine.Probe().Best(), "this machine cannot hold level strict")
	const scope = "  scope \"fs/read\" {\n    enabled = true\n    roots   = [\"data\"]\n    allow   = [\"\"]\n  }\n"
	for _, row := range []struct {
		name, profile, effects, isolation string
		needs, with                       []string // needs and effects of the plugin
		typ                               string
		severity                          diag.Severity
		what                              []string
	}{
		{name: "held", profile: language.ProfileProd, needs: []string{"process/run"}, isolation: `exec = ["/bin"]`},
		{name: "a lower level in prod", profile: language.ProfileProd, needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"limits\"", typ: "config/range", severity: diag.SeverityError, what: []string{"process/run"}},
		{name: "a lower level in test", profile: language.ProfileTest, needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"none\"", typ: "config/range", severity: diag.SeverityWarning, what: []string{"process/run"}},
		{name: "accepted for one", profile: language.ProfileProd, needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"limits\"\n    best_effort = true"},
		{name: "accepted for all", profile: language.ProfileProd, effects: "  enforcement = \"best-effort\"\n", needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"limits\""},
		{name: "not strict in dev", profile: language.ProfileDev, needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"limits\""},
		{name: "strict in dev", profile: language.ProfileDev, effects: "  enforcement = \"strict\"\n", needs: []string{"process/run"}, isolation: "exec = [\"/bin\"]\n    level = \"limits\"", typ: "config/range", severity: diag.SeverityWarning, what: []string{"process/run"}},
		{name: "nothing to hold", profile: language.ProfileProd, isolation: `level = "none"`},
		{name: "an effect without scope", profile: language.ProfileProd, with: []string{"fs/read"}, isolation: `level = "limits"`},
		{name: "an enabled scope", profile: language.ProfileProd, effects: scope, with: []string{"fs/read"}, isolation: `level = "limits"`, typ: "config/range", severity: diag.SeverityError, what: []string{"fs/read"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := configtest.Chess()
			d.Needs = row.needs
			if row.with != nil {
				d.Capabilities[0].Effects = row.with
			}
			text := fmt.Sprintf("effects {\n%s}\n\nplugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  isolation {\n    %s\n  }\n}\n", row.effects, row.isolation)
			dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "data/x": "", "ferment.hcl": text})
			c, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{Profile: row.profile, Describer: configtest.Describer{"chess": d}})
			require.Len(t, c.Plugins, 1, c.Report(0).Text(false))
			assert.Equal(t, row.what, c.Plugins[0].Isolation.Unheld.What)
			if row.typ == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, row.typ, ds[0].Type)
			assert.Equal(t, row.severity, ds[0].Severity)
			assert.Contains(t, ds[0].Message, "plugin \"chess\" is not started: nothing would confine its use of "+row.what[0])
			assert.Contains(t, ds[0].Hint, "best_effort = true")
			require.NotNil(t, ds[0].Range)
			assert.Equal(t, []string{"plugin", "chess", "isolation"}, ds[0].Path)
		})
	}
}

// ISO-002, HCL-021: a limit that the level does not hold is reported where it is written.
func TestLimitsThatNothingHolds(t *testing.T) {
	for attr, severity := range map[string]diag.Severity{
		"memory = \"64MiB\"":    diag.SeverityWarning,
		"file_size = \"64MiB\"": diag.SeverityWarning,
		"open_files = 64":       diag.SeverityWarning,
		"processes = 50":        diag.SeverityWarning,
		"cpu = 2":               diag.SeverityError,
		"memory = 0":            0,
	} {
		t.Run(attr, func(t *testing.T) {
			text := "plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  isolation {\n    level = \"none\"\n    " + attr + "\n  }\n}\n"
			dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": text})
			c, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{Profile: language.ProfileDev,
				Describer: configtest.Describer{"chess": configtest.Chess()}})
			if strings.HasSuffix(attr, "= 0") {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			name, _, _ := strings.Cut(attr, " ")
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, "config/range", ds[0].Type)
			assert.Equal(t, severity, ds[0].Severity)
			assert.Contains(t, ds[0].Message, name+" in ")
			assert.Equal(t, []string{"plugin", "chess", "isolation", name}, ds[0].Path)
		})
	}
}

// HCL-021: a write path that is missing and cannot be created is reported, because the plugin
// would not start: as an error in prod, else as a warning. Nothing is created by the check.
func TestWritePathThatCannotBeCreated(t *testing.T) {
	require.Equal(t, confine.Strict, confine.Probe().Best(), "this machine cannot hold level strict")
	for profile, severity := range map[string]diag.Severity{language.ProfileProd: diag.SeverityError, language.ProfileDev: diag.SeverityWarning} {
		for _, row := range []struct {
			path, level string
			fits        bool
		}{
			{"new/below", "strict", true},
			{"bin", "strict", true},
			{"data/x/below", "strict", false},
			{"link", "strict", false},
			{"link/below", "strict", false},
			{"data/x/below", "limits", true}, // confines no files
		} {
			t.Run(profile+" "+row.path+" "+row.level, func(t *testing.T) {
				d := configtest.Chess()
				d.Needs = []string{"fs/write"}
				text := fmt.Sprintf("plugin \"chess\" {\n  command = [\"bin/chess\"]\n\n  isolation {\n    level       = %q\n"+
					"    write_paths = [%q]\n  }\n}\n", row.level, row.path)
				dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "data/x": "", "ferment.hcl": text})
				require.NoError(t, os.Symlink("nowhere", dir+"/link"))
				c, ds := configtest.LoadDir(t, dir+"/ferment.hcl", config.Options{Profile: profile, Describer: configtest.Describer{"chess": d}})
				assert.NoDirExists(t, dir+"/new")
				ds = slices.DeleteFunc(ds, func(d diag.Diagnostic) bool { return !strings.Contains(d.Message, "write path") })
				if row.fits {
					assert.Empty(t, ds, c.Report(0).Text(false))
					return
				}
				require.Len(t, ds, 1, c.Report(0).Text(false))
				assert.Equal(t, "config/range", ds[0].Type)
				assert.Equal(t, severity, ds[0].Severity)
				assert.Equal(t, []string{"plugin", "chess", "isolation", "write_paths"}, ds[0].Path)
				assert.Contains(t, ds[0].Message, row.path)
			})
		}
	}
}
