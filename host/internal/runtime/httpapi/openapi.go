package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// document is an OpenAPI document.
type document edn.Value

// object builds a JSON object. A name that is a valid keyword becomes one, as
// when JSON is read.
type object struct{ b edn.MapBuilder }

func (o *object) put(name string, v edn.Value) {
	if k, err := edn.Keyword(name); err == nil {
		o.b.Set(k, v)
		return
	}
	o.b.Set(edn.Text(name), v)
}

func (o *object) text(name, s string) {
	if s != "" {
		o.put(name, edn.Text(s))
	}
}

func (o *object) value() edn.Value { return o.b.Map() }

func objectOf(pairs ...any) edn.Value {
	var o object
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			o.put(name, edn.Text(v))
		case edn.Value:
			o.put(name, v)
		}
	}
	return o.value()
}

// describe generates the document from the tables of routes and actions.
func describe(rows []Route, tables []*actionTable, version string) document {
	paths := map[string]*object{}
	var order []string
	for i := range rows {
		r := &rows[i]
		if paths[r.Path] == nil {
			paths[r.Path] = &object{}
			order = append(order, r.Path)
		}
		paths[r.Path].put(strings.ToLower(r.Method), operation(r))
		if r.Method == "GET" {
			head := *r
			head.Summary, head.Doc = r.Summary+" (headers only)", ""
			paths[r.Path].put("head", headOperation(&head))
		}
	}
	var all object
	for _, path := range order {
		all.put(path, paths[path].value())
	}
	var schemas object
	for _, name := range envelopeNames() {
		schemas.put(component(name), envelopes()[name].JSONSchema().Dissoc(edn.Text("$schema"), edn.K("$schema")))
	}
	for _, t := range tables {
		any := make([]edn.Value, len(t.rows))
		for i := range t.rows {
			a := &t.rows[i]
			schemas.put(component(a.schemaName()), a.schema.JSONSchema().Dissoc(edn.Text("$schema"), edn.K("$schema")).
				Assoc(edn.K("description"), edn.Text(a.Doc+" (operation "+a.Operation()+")")))
			any[i] = reference(a.schemaName())
		}
		schemas.put(component(t.space+anyAction), objectOf("oneOf", edn.Vector(any...)))
	}
	return document(objectOf(
		"openapi", "3.1.0",
		"info", objectOf("title", "Ferment", "version", version, "summary", "A plugin host in which an accepted answer is the unit of work."),
		"paths", all.value(),
		"components", objectOf(
			"schemas", schemas.value(),
			"securitySchemes", objectOf(
				"token", objectOf("type", "http", "scheme", "bearer", "description", "A token of a user, as \"ferment token create\" prints it."),
				"password", objectOf("type", "http", "scheme", "basic", "description", "Login and password of a user, unless auth.basic.enabled is false."),
				"session", objectOf("type", "apiKey", "in", "header", "name", SessionTokenHeader,
					"description", "The token of a session, which identifies its caller."),
				"cookie", objectOf("type", "apiKey", "in", "cookie", "name", loginCookieName,
					"description", "The login of a browser, as POST /v1/auth/login sets it."),
				"certificate", objectOf("type", "mutualTLS", "description", "A client certificate, if auth.client_cert is configured."),
				"adminToken", objectOf("type", "http", "scheme", "bearer",
					"description", "The token of one daemon process, in run/admin.token of its data directory. Only the admin socket accepts it."),
			),
		),
	))
}

// anyAction is the schema name of a body with any action of a namespace.
const anyAction = "/action"

// component returns the name of a schema in the document, where slashes are
// not allowed.
func component(name string) string { return strings.ReplaceAll(name, "/", ".") }

func reference(schema string) edn.Value {
	return objectOf("$ref", "#/components/schemas/"+component(schema))
}

// security returns the alternative credentials of a route. An empty alternative means that an
// anonymous caller may be permitted, which it is not on admin routes.
func security(r *Route) (all []edn.Value) {
	if !r.admin() {
		all = append(all, edn.MustMap())
	}
	for _, scheme := range []string{"token", "password", "session", "cookie", "certificate", "adminToken"} {
		all = append(all, objectOf(scheme, edn.Vector()))
	}
	return all
}

func operation(r *Route) edn.Value {
	var o object
	o.text("operationId", operationID(r.Method, r.Path))
	o.text("summary", r.Summary)
	o.text("description", r.Doc)
	if all := parameters(r); len(all) > 0 {
		o.put("parameters", edn.Vector(all...))
	}
	if r.Operation != OpOpen {
		o.text("x-ferment-operation", string(r.Operation))
		o.put("security", edn.Vector(security(r)...))
	}
	if r.Body != nil {
		var content object
		for _, t := range r.Body.Types {
			if t == typeJSON {
				content.put(string(t), objectOf("schema", reference(r.Body.Schema)))
			} else {
				content.put(string(t), objectOf("schema", objectOf("type", "string")))
			}
		}
		o.put("requestBody", objectOf("required", edn.Bool(!r.Body.optional), "content", content.value()))
	}
	o.put("responses", responses(r, true))
	return o.value()
}

func operationID(method, path string) string {
	return strings.ToLower(method) + strings.NewReplacer("/", "-", ".", "-", "{", "", "}", "").Replace(path)
}

// parameters returns the parameters in the path, in headers and in the query.
func parameters(r *Route) (all []edn.Value) {
	for _, segment := range strings.Split(r.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			all = append(all, objectOf("name", strings.TrimSuffix(name, "}"), "in", "path", "required", edn.Bool(true),
				"schema", objectOf("type", "string", "pattern", paramForms[strings.TrimSuffix(name, "}")].form.String())))
		}
	}
	for _, h := range r.Headers {
		all = append(all, objectOf("name", h.Name, "in", "header", "description", h.Doc, "schema", objectOf("type", "string")))
	}
	if r.query == nil {
		return all
	}
	for name, s := range r.query.JSONSchema().Key("properties").Entries() {
		all = append(all, objectOf("name", strings.TrimPrefix(name.String(), ":"), "in", "query", "schema", s))
	}
	return all
}

func headOperation(r *Route) edn.Value {
	var o object
	o.text("operationId", operationID(http.MethodHead, r.Path))
	o.text("summary", r.Summary)
	if all := parameters(r); len(all) > 0 {
		o.put("parameters", edn.Vector(all...))
	}
	o.put("responses", responses(r, false))
	return o.value()
}

func responses(r *Route, bodies bool) edn.Value {
	var out object
	for _, a := range r.all() {
		var one object
		one.text("description", a.Doc)
		var content object
		if a.Schema != "" {
			content.put(string(typeJSON), objectOf("schema", reference(a.Schema)))
			content.put(string(typeEDN), objectOf("schema", objectOf("type", "string")))
		}
		if r.text != "" && a.Status == 200 {
			content.put(r.text.bare(), objectOf("schema", objectOf("type", "string")))
		}
		if r.events != eventsNever && a.Status == 200 {
			content.put(string(typeSSE), objectOf("schema", objectOf("type", "string")))
		}
		if c := content.value(); bodies && c.Len() > 0 {
			one.put("content", c)
		}
		var headers object
		if r.Operation == OpAct {
			headers.put("Ferment-Run-Id", header("the run, if one was started"))
			headers.put(CacheHeader, header("of a cacheable act: hit, miss or bypass"))
			headers.put(replayedHeader, header("true if the response is the stored one of an earlier request with the idempotency key"))
		}
		if strings.Contains(r.Path, "{id}") {
			headers.put("Ferment-Run-Id", header("the run"))
		}
		if r.text == typeLines && a.Status == 200 {
			headers.put(cursorHeader, header("the cursor behind the lines"))
		}
		switch a.Status {
		case 202:
			headers.put("Location", header("path of what the request started, if it has one"))
		case 401:
			headers.put("WWW-Authenticate", header("the scheme of credentials"))
		case 429, 503:
			headers.put("Retry-After", header("seconds after which a retry may succeed"))
		}
		if h := headers.value(); h.Len() > 0 {
			one.put("headers", h)
		}
		out.put(strconv.Itoa(a.Status), one.value())
	}
	return out.value()
}

func header(doc string) edn.Value {
	return objectOf("description", doc, "schema", objectOf("type", "string"))
}
