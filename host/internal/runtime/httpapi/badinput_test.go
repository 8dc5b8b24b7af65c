package httpapi_test

import (
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// Section 7, bad input: a body that a decoder rejects at its beginning or at its end
// costs at most twice its size in memory. Three times its size is allocated in all: its
// parts, the whole, and the text of the decoder, when the parts are not in use any more.
func TestMemoryOfBadBodies(t *testing.T) {
	const size = 1 << 20
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.ActBody = size })
	for media, bodies := range map[string]map[string]string{
		"application/json": {
			"nested":    strings.Repeat("[", size),
			"truncated": `{"a":"` + strings.Repeat("x", size-6),
			"two":       `{} ` + strings.Repeat(" ", size-4) + `1`,
		},
		"application/edn": {
			"nested":    strings.Repeat("[", size),
			"truncated": `{:a "` + strings.Repeat("x", size-5),
			"two":       `{} ` + strings.Repeat(" ", size-4) + `1`,
		},
	} {
		for name, body := range bodies {
			require.Len(t, body, size)
			request := fmt.Sprintf("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", media, size, body)
			sent := []byte(request)
			conn, err := net.Dial("tcp", w.address)
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err = conn.Write(sent)
			require.NoError(t, err)
			a, err := read(conn)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			assert.Equal(t, 400, a.status, "%s %s: %s", media, name, a.body)
			assert.Equal(t, "invalid-request", a.failure(t), "%s %s", media, name)
			const rest = 1 << 20 // connection, reply and this client
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*size+rest), "%s %s", media, name)
		}
	}
}

// FuzzTarget: any id, query, cursor and idempotency key gets a typed answer from the real
// handler, and none is a defect.
func FuzzTarget(f *testing.F) {
	for _, seed := range [][4]string{
		{sampleRun, "limit=2", sampleRun + ".1", "k"}, {"last", "status=%zz", ".1", "\x01"}, {"%2F", "a=1&a=2", sampleRun + ".999999999999", strings.Repeat("k", 129)},
		{"%00", "since=2026-11-20T09:00:00Z&until=x", "x", "é"}, {sampleHash, "cursor=cnVuXw", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, id, query, cursor, key string) {
		w.t = t
		header := func(s string) string { // what net/http lets a client send
			return strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return -1
				}
				return r
			}, s)
		}
		id = url.PathEscape(id)
		for _, what := range []string{
			"GET /v1/runs/" + id, "GET /v1/runs/" + id + "/events", "GET /v1/values/" + id, "GET /v1/runs", "GET /v1/act/jobs/" + id,
			"POST /v1/runs/" + sampleRun + "/interrupts/" + id,
		} {
			a := w.call(what+"?"+url.PathEscape(query), `{"answer":1}`, "Last-Event-ID", header(cursor))
			check(t, what, a)
		}
		check(t, "act", w.call("POST /v1/act", jsonAct("t/none", "{}"), "Idempotency-Key", header(key)))
	})
}

// check reports an answer without a type, and a defect.
func check(t *testing.T, what string, a answer) {
	t.Helper()
	switch {
	case a.status == 500:
		t.Fatalf("%s: a defect: %s", what, a.body)
	case a.status >= 400 && a.failure(t) == "":
		t.Fatalf("%s: %d without a type: %s", what, a.status, a.body)
	}
}
