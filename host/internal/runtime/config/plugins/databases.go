package plugins

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/sdk/edn"
)

// DatabasePlugin is the name of the plugin of the database tools. It enforces the scope of each
// call.
const DatabasePlugin = "db"

// The drivers of databases.
const (
	DriverSQLite   = "sqlite"
	DriverPostgres = "postgres"
)

// connect adds the databases of the effects block to the configuration of their plugin.
func (r *Reader) connect(s *decode.Section, p *Plugin) {
	var all edn.MapBuilder
	for _, x := range s.All("db") {
		var m edn.MapBuilder
		m.Key("driver", edn.K(x.Text("driver")))
		if path := x.Text("path"); path != "" {
			m.Key("path", edn.Text(path))
		}
		if v := x.Attrs["dsn"]; v.Secret != nil {
			m.Key("dsn", edn.Nil())
			p.Secrets = append(p.Secrets, decode.SecretAt{
				Path:   []edn.Value{edn.K("connections"), edn.Text(x.Label()), edn.K("dsn")},
				Secret: *v.Secret,
				At:     v.At,
				Needed: true,
			})
		}
		all.Set(edn.Text(x.Label()), m.Map())
	}
	p.Config = p.Config.AssocKey("enforcement", edn.K(s.Text("enforcement"))).AssocKey("connections", all.Map())
}

// databaseReach returns what the plugin of the database tools may reach: the databases that an
// enabled scope names.
func (r *Reader) databaseReach(p *Plugin) plugin.DatabaseReach {
	var reach plugin.DatabaseReach
	if p.Description.Name != DatabasePlugin {
		return reach
	}
	var named []string
	for _, scoped := range r.standing(p) {
		named = append(named, scoped.Scope.Connections.V...)
	}
	effects := r.Root.Block("effects")
	reach.Dirs = DatabaseDirs(effects, named)
	for _, x := range effects.All("db") {
		if !slices.Contains(named, x.Label()) {
			continue
		}
		if v := x.Attrs["dsn"]; v.Secret != nil && x.Text("driver") == DriverPostgres {
			r.serverReach(v, &reach)
		}
	}
	return reach
}

// DatabaseDirs returns the directories of the SQLite databases with these connection names, which
// their plugin may write: SQLite makes files beside a database, also to read it. s is the effects
// block.
func DatabaseDirs(s *decode.Section, connections []string) (dirs []string) {
	for _, x := range s.All("db") {
		path := x.Text("path")
		if path != "" && x.Text("driver") == DriverSQLite && slices.Contains(connections, x.Label()) {
			dirs = append(dirs, realDir(path))
		}
	}
	return dirs
}

// serverReach adds the servers of a connection string. A string that cannot be read is ignored
// here; the call reports it.
func (r *Reader) serverReach(v decode.Value, reach *plugin.DatabaseReach) {
	text, err := v.Secret.Read(r.Set.Lookup)
	if err != nil {
		return
	}
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return
	}
	add := func(host string, port uint16) {
		if strings.HasPrefix(host, "/") {
			reach.Dirs = append(reach.Dirs, host)
		} else if host != "" {
			reach.Ports = append(reach.Ports, port)
		}
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
}

// realDir returns the directory of a file without symbolic links; unchanged if it does not exist.
func realDir(file string) string {
	dir := filepath.Dir(file)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}
