package httpapi

import (
	"net/http"
	"slices"
)

// Headers of responses to pages of other origins.
const (
	pageMethods = "GET, HEAD, POST, DELETE"
	pageHeaders = "Authorization, Content-Type, Accept, Cache-Control, Idempotency-Key, Last-Event-ID, Prefer, Traceparent, " +
		AnnounceHeader + ", " + SessionTokenHeader
	pageAnswers = "Ferment-Run-Id, " + cursorHeader + ", " + CacheHeader + ", Location, Retry-After, " + replayedHeader
	pageMaxAge  = "600" // seconds
)

// guest reports whether the request comes from a page of an origin in http.cors_origins (AUTH-032).
func (x *exchange) guest() bool {
	return !x.via.admin && slices.Contains(x.settings.Origins, x.r.Header.Get("Origin"))
}

// letIn sets the headers that make a browser show the response to a page of such an origin. They
// never permit cookies.
func (x *exchange) letIn() {
	if x.via.admin || len(x.settings.Origins) == 0 {
		return
	}
	h := x.w.Header()
	h.Add("Vary", "Origin")
	if x.guest() {
		h.Set("Access-Control-Allow-Origin", x.r.Header.Get("Origin"))
		h.Set("Access-Control-Expose-Headers", pageAnswers)
	}
}

// preflight reports whether the request is a CORS preflight request of such an origin, and answers
// it.
func (x *exchange) preflight() bool {
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" || !x.guest() {
		return false
	}
	h := x.w.Header()
	h.Set("Access-Control-Allow-Methods", pageMethods)
	h.Set("Access-Control-Allow-Headers", pageHeaders)
	h.Set("Access-Control-Max-Age", pageMaxAge)
	x.w.WriteHeader(http.StatusNoContent)
	return true
}
