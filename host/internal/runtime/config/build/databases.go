package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
)

// connections reports unknown databases in a scope.
func (b *builder) connections(s *decode.Section) {
	names, written := s.Texts("connections")
	if !written {
		return
	}
	var known []string
	for _, x := range b.Root.Block("effects").All("db") {
		known = append(known, x.Label())
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			b.dangling(s, "connections", "db", name, known, s.Attrs["connections"].Items[i].At)
		}
	}
}

// databases checks the databases of the effects block: the attributes for their driver, and that
// their directory has no file of Ferment (FX-012). An engine creates files in the directory of its
// database, so its plugin may write there.
func (b *builder) databases(s *decode.Section) {
	kept, guarded := b.forbidden()
	served := slices.ContainsFunc(b.Plugins, func(p plugins.Plugin) bool {
		return p.Described && p.Description.Name == plugins.DatabasePlugin
	})
	for _, x := range s.All("db") {
		if x.Node.Damaged || x.Text("driver") == "" {
			continue // already reported
		}
		needs, other := "path", "dsn"
		if x.Text("driver") == plugins.DriverPostgres {
			needs, other = other, needs
		}
		b.driverNeeds(x, needs, other)
		if v := x.Attrs["dsn"]; v.Secret != nil && !served {
			b.SecretThere(decode.SecretAt{Secret: *v.Secret, At: v.At, Needed: true}, x.Node.Title(), x.PathOf("dsn"))
		}
		path := x.Text("path")
		if path == "" || needs != "path" {
			continue
		}
		if dir := filepath.Dir(path); !isDir(dir) {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/dangling-reference",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("path in %s is in the directory %s, which is not there", x.Node.Title(), diag.Quote(dir)),
				Range:    x.Attrs["path"].At,
				Path:     x.PathOf("path"),
				Hint:     "make the directory before the start: its plugin cannot, and gets no access to it later",
			})
		}
		_, own := policy.Overlap(realPaths([]string{filepath.Dir(path)}), slices.Concat(kept, guarded))
		if own == "" {
			continue
		}
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("%s is in a directory with %s, which belongs to ferment", x.Node.Title(), own),
			Range:   x.Attrs["path"].At,
			Path:    x.PathOf("path"),
			Found:   edn.Text(path),
			Hint:    "keep the database in a directory of its own",
		})
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// driverNeeds reports a missing attribute, and one that the driver does not have.
func (b *builder) driverNeeds(x *decode.Section, needs, other string) {
	driver := x.Text("driver")
	if !x.Written(needs) && !x.Unread(needs) {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/missing",
			Message:  fmt.Sprintf("%s has no %s, which driver %s needs", x.Node.Title(), needs, driver),
			Range:    x.At(),
			Path:     x.PathOf(needs),
			Expected: edn.Text(needs),
			Hint:     fmt.Sprintf("add %s to %s", needs, x.Node.Title()),
		})
	}
	if x.Written(other) {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("%s in %s is not for driver %s", other, x.Node.Title(), driver),
			Range:   x.Attrs[other].At,
			Path:    x.PathOf(other),
			Hint:    "remove " + other + ", or change driver",
		})
	}
}
