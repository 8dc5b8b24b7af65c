package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reply is the response of a handler.
type reply struct {
	status int
	body   edn.Value
	// text is the body on routes whose response is text.
	text []byte
	// err is the error in the body, nil on success.
	err *contract.Error
	// run is the id of the run, empty if there is none.
	run string
	// location is the path of the job, empty if there is none.
	location string
	// allow is the value of the header Allow, for status 405.
	allow string
	// sent is set if the response was already written.
	sent bool
}

// errorForm is the format of an error body (HTTP-003).
type errorForm uint8

const (
	formPlain    errorForm = iota // {:error {..}}
	formEnvelope                  // the response envelope
	formAdmin                     // {:ok? false ..}
)

func (f errorForm) schema() string {
	switch f {
	case formEnvelope:
		return "envelope/response"
	case formAdmin:
		return "answer/admin"
	}
	return "answer/error"
}

// failure returns the reply for err in the format f.
func (f errorForm) failure(err *contract.Error) reply {
	r := reply{status: err.HTTPStatus(), err: err}
	if r.status < 400 {
		r.status = http.StatusInternalServerError
	}
	switch f {
	case formEnvelope:
		r.body = edn.MustMap(edn.K("proto"), edn.Int(contract.Proto), edn.K("error"), err.Value())
	case formAdmin:
		var b edn.MapBuilder
		b.Key("ok?", edn.Bool(false))
		b.Key("error", err.Value())
		b.Key("type", edn.K(err.Type))
		b.Key("message", edn.Text(err.FullMessage()))
		b.Key("retryable?", edn.Bool(err.Retryable))
		if err.Details.Len() > 0 {
			b.Key("details", err.Details)
		}
		r.body = b.Map()
	default:
		r.body = edn.MustMap(edn.K("error"), err.Value())
	}
	return r
}

// write sends a reply in the format that the caller accepts.
func (x *exchange) write(r reply) {
	if r.status == http.StatusNoContent {
		x.w.Header().Set("Ferment-Run-Id", r.run)
		x.w.WriteHeader(r.status)
		return
	}
	text, form := r.text, mediaType("")
	if text != nil {
		form = x.route.text
	} else {
		text, form = encode(r.body, x.accept)
	}
	if text == nil {
		// Two map keys have the same name in JSON; only EDN can represent the value.
		r = x.form().failure(contract.Errorf("value/json-collision",
			"the answer cannot be written as JSON: two keys of a map have the same name there"))
		text, form = encode(r.body, typeJSON)
	}
	h := x.w.Header()
	h.Set("Content-Type", string(form))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if r.run != "" {
		h.Set("Ferment-Run-Id", r.run)
	}
	if r.location != "" {
		h.Set("Location", r.location)
	}
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	if r.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if after := retryAfter(r); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	if limit := x.settings.Limits.Write; limit > 0 {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(limit))
	}
	x.w.WriteHeader(r.status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(text) // the caller is gone
	}
}

// retryAfter returns the number of seconds after which a retry may succeed; 0 if unknown.
func retryAfter(r reply) int {
	if r.err == nil || r.status != http.StatusServiceUnavailable && r.status != http.StatusTooManyRequests {
		return 0
	}
	if ms, ok := r.err.Details.Key("retry-after-ms").AsInt(); ok && ms > 0 {
		return int(min((ms+999)/1000, 3600))
	}
	if r.err.Retryable {
		return 1
	}
	return 0
}

// encode returns the text of a value and its media type. The text is nil if JSON cannot represent
// the value.
func encode(v edn.Value, form mediaType) ([]byte, mediaType) {
	if form == typeEDN {
		return append(edn.Write(v), '\n'), typeEDN
	}
	text, err := edn.WriteJSON(v)
	var collision *edn.JSONCollisionError
	if errors.As(err, &collision) || err != nil {
		return nil, typeJSON
	}
	return append(text, '\n'), typeJSON
}
