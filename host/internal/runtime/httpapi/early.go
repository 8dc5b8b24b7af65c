package httpapi

import (
	"github.com/fermenthq/ferment/sdk/edn"
)

// serveHealth handles GET /health.
func serveHealth(x *exchange) reply {
	h := x.api.backend.Health()
	status := 200
	if !h.OK {
		status = 503
	}
	var b edn.MapBuilder
	b.Key("ok?", edn.Bool(h.OK))
	b.Key("service", edn.Text("ferment"))
	b.Key("version", edn.Text(h.Version))
	b.Key("routes", edn.Int(int64(len(x.api.table.rows))))
	b.Opt("isolation", h.Isolation)
	b.Opt("quality", h.Quality)
	b.Opt("judges", h.Judges)
	return reply{status: status, body: b.Map()}
}

// serveReady handles GET /ready.
func serveReady(x *exchange) reply {
	r := x.api.backend.Ready()
	status := 200
	if !r.OK() {
		status = 503
	}
	return reply{status: status, body: r.Value()}
}

// serveRoutes handles GET /routes.
func serveRoutes(x *exchange) reply {
	rows := make([]edn.Value, len(x.api.table.rows))
	for i := range x.api.table.rows {
		rows[i] = x.api.table.rows[i].Value()
	}
	return reply{status: 200, body: edn.MustMap(edn.K("routes"), edn.Vector(rows...))}
}

// serveOpenAPI handles GET /openapi.json.
func serveOpenAPI(x *exchange) reply { return reply{status: 200, body: edn.Value(x.api.document)} }
