package httpapitest_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi/httpapitest"
)

const small = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},
"paths":{
 "/a/b":{"get":{"operationId":"plain","responses":{"200":{"description":"d"}}}},
 "/a/{x}":{"post":{"operationId":"one","parameters":[{"name":"x","in":"path","required":true,"schema":{"type":"string","pattern":"^[a-z]+$"}}],
  "requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/in"}}}},
  "responses":{"200":{"description":"d","headers":{"N":{"required":true,"schema":{"type":"string","pattern":"^[0-9]+$"}}},
   "content":{"application/json":{"schema":{"$ref":"#/components/schemas/out"}},"application/edn":{"schema":{"type":"string"}}}},
   "404":{"description":"d"}}}}},
"components":{"schemas":{
 "in":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}},
 "out":{"type":"object","additionalProperties":false,"required":["ok"],"properties":{"ok":{"type":"boolean"},"v":{"type":["string","null"]}}}}}}`

// HTTP-001: a document that breaks the rules of OpenAPI 3.1 is not read.
func TestRead(t *testing.T) {
	doc, err := httpapitest.Read([]byte(small))
	require.NoError(t, err)
	assert.Equal(t, map[string][]int{"GET /a/b": {200}, "POST /a/{x}": {200, 404}}, doc.Statuses())
	for what, change := range map[string][2]string{
		"version":   {`"openapi":"3.1.0"`, `"openapi":"three"`},
		"reference": {`#/components/schemas/out`, `#/components/schemas/absent`},
		"parameter": {`"name":"x","in":"path"`, `"name":"y","in":"path"`},
		"type":      {`"type":"boolean"`, `"type":"bool"`},
		"info":      {`"title":"t",`, ``},
	} {
		wrong := bytes.Replace([]byte(small), []byte(change[0]), []byte(change[1]), 1)
		require.NotEqual(t, small, string(wrong), what)
		_, err := httpapitest.Read(wrong)
		assert.Error(t, err, what)
	}
}

// HTTP-001: each way in which an exchange can differ from the document is found.
func TestCheck(t *testing.T) {
	doc, err := httpapitest.Read([]byte(small))
	require.NoError(t, err)
	exchange := func(change func(*httpapitest.Exchange)) error {
		x := httpapitest.Exchange{
			Method: "POST", Target: "/a/x", Sent: []byte(`{"n":1}`), SentHeader: http.Header{"Content-Type": {"application/json"}},
			Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "N": {"1"}}, Body: []byte(`{"ok":true,"v":null}`),
		}
		change(&x)
		return doc.Check(x)
	}
	assert.NoError(t, exchange(func(*httpapitest.Exchange) {}))
	assert.NoError(t, exchange(func(x *httpapitest.Exchange) {
		x.Header.Set("Content-Type", "application/edn")
		x.Body = []byte("{:ok true}")
	}))
	assert.NoError(t, exchange(func(x *httpapitest.Exchange) { x.Sent, x.Status = []byte("?"), 404 }), "refused requests need not fit")
	for what, change := range map[string]func(*httpapitest.Exchange){
		"path":            func(x *httpapitest.Exchange) { x.Target = "/b" },
		"method":          func(x *httpapitest.Exchange) { x.Method = "GET" },
		"status":          func(x *httpapitest.Exchange) { x.Status = 409 },
		"media type":      func(x *httpapitest.Exchange) { x.Header.Set("Content-Type", "text/html") },
		"required key":    func(x *httpapitest.Exchange) { x.Body = []byte(`{}`) },
		"unknown key":     func(x *httpapitest.Exchange) { x.Body = []byte(`{"ok":true,"w":1}`) },
		"type":            func(x *httpapitest.Exchange) { x.Body = []byte(`{"ok":1}`) },
		"no JSON":         func(x *httpapitest.Exchange) { x.Body = []byte(`{"ok"`) },
		"required header": func(x *httpapitest.Exchange) { x.Header.Del("N") },
		"header":          func(x *httpapitest.Exchange) { x.Header.Set("N", "x") },
		"sent body":       func(x *httpapitest.Exchange) { x.Sent = []byte(`{"m":1}`) },
		"no sent body":    func(x *httpapitest.Exchange) { x.Sent = nil },
		"sent type":       func(x *httpapitest.Exchange) { x.SentHeader.Set("Content-Type", "text/plain") },
		"path parameter":  func(x *httpapitest.Exchange) { x.Target = "/a/1" },
	} {
		assert.Error(t, exchange(change), what)
	}
}
