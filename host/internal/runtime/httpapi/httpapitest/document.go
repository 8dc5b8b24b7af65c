package httpapitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Document is an OpenAPI document.
type Document struct{ doc *openapi3.T }

// plainTypes registers media types whose bodies the document describes as texts.
var plainTypes = sync.OnceFunc(func() {
	for _, name := range []string{"application/edn", "application/x-ndjson", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(name, openapi3filter.PlainBodyDecoder)
	}
})

// Read reads a document. The error reports a violation of the rules of OpenAPI.
func Read(text []byte) (*Document, error) {
	plainTypes()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("the OpenAPI document is invalid: %w", err)
	}
	return &Document{doc}, nil
}

// Version returns the version of OpenAPI.
func (d *Document) Version() string { return d.doc.OpenAPI }

// Statuses returns the documented statuses by route, in the form "METHOD /path".
func (d *Document) Statuses() map[string][]int {
	out := map[string][]int{}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			what := method + " " + path
			for status := range op.Responses.Map() {
				n, _ := strconv.Atoi(status)
				out[what] = append(out[what], n)
			}
			slices.Sort(out[what])
		}
	}
	return out
}

// Operations returns the ids of all operations.
func (d *Document) Operations() (ids []string) {
	for _, item := range d.doc.Paths.Map() {
		for _, op := range item.Operations() {
			ids = append(ids, op.OperationID)
		}
	}
	return ids
}

// Schema returns an error if a value of encoding/json does not match a schema of the document.
func (d *Document) Schema(name string, v any) error {
	ref, ok := d.doc.Components.Schemas[name]
	if !ok {
		return fmt.Errorf("the document has no schema %q", name)
	}
	return ref.Value.VisitJSON(v, openapi3.EnableJSONSchema2020())
}

// Exchange is a request and its response.
type Exchange struct {
	Method, Target string // Target is the path with the query
	Sent           []byte
	SentHeader     http.Header
	Status         int
	Header         http.Header
	Body           []byte
}

// Check returns an error if an exchange does not match the document. The request is checked only if
// the status is below 300.
func (d *Document) Check(x Exchange) error {
	at, err := url.Parse(x.Target)
	if err != nil {
		return err
	}
	route, params := d.find(x.Method, at.EscapedPath())
	if route == nil {
		return fmt.Errorf("%s %s is not documented", x.Method, x.Target)
	}
	r, err := http.NewRequest(x.Method, "http://localhost"+x.Target, bytes.NewReader(x.Sent))
	if err != nil {
		return err
	}
	if r.Header = x.SentHeader.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	if len(x.Sent) == 0 {
		r.Header.Del("Content-Type")
	}
	request := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
	}}
	if x.Status < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), request); err != nil {
			return fmt.Errorf("%s %s: the request was served and does not fit the document: %w", x.Method, x.Target, err)
		}
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request,
		Status:                 x.Status,
		Header:                 x.Header,
		Body:                   io.NopCloser(bytes.NewReader(x.Body)),
		Options:                request.Options,
	})
	if err != nil {
		return fmt.Errorf("%s %s %d does not fit the document: %w", x.Method, x.Target, x.Status, err)
	}
	return nil
}

// find returns the route of a request and the parameters in its path; nil if there is none. A path
// without parameters has precedence.
func (d *Document) find(method, path string) (*routers.Route, map[string]string) {
	all := d.doc.Paths.Map()
	patterns := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return strings.Count(a, "{") - strings.Count(b, "{")
	})
	for _, pattern := range patterns {
		params, ok := match(pattern, path)
		if op := all[pattern].GetOperation(method); ok && op != nil {
			return &routers.Route{Spec: d.doc, Path: pattern, PathItem: all[pattern], Method: method, Operation: op}, params
		}
	}
	return nil, nil
}

func match(pattern, path string) (params map[string]string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params = map[string]string{}
	for i, segment := range want {
		if name, isParam := strings.CutPrefix(segment, "{"); isParam {
			params[strings.TrimSuffix(name, "}")], _ = url.PathUnescape(got[i])
		} else if segment != got[i] {
			return nil, false
		}
	}
	return params, true
}
