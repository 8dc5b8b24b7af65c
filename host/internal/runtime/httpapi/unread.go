package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// net/http answers malformed requests itself, in plain text, before a handler runs. These responses
// are replaced by typed errors. Responses of this package cannot be mistaken for them: none is
// plain text, and both formats escape line ends.
const (
	refusedBegin = "HTTP/1.1 "
	refusedRest  = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	// unexpected starts the response to an unknown Expect header.
	unexpected = "417 Expectation Failed\r\nConnection: close\r\n"
	// inClear is the complete response to a plain HTTP request on a TLS
	// listener.
	inClear = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)

// typed returns the replacement for a response that net/http writes in one call; nil if text should
// be sent unchanged.
func typed(text []byte) []byte {
	if err := unreadable(text); err != nil {
		return lastAnswer(err)
	}
	return nil
}

// unreadable returns the typed error for a plain-text response of net/http.
func unreadable(text []byte) *contract.Error {
	if string(text) == inClear {
		return contract.Errorf("http/bad-encoding", "this listener requires TLS, and the request is plain HTTP").
			WithHint("use https://")
	}
	line, ok := bytes.CutPrefix(text, []byte(refusedBegin))
	if !ok {
		return nil
	}
	if bytes.HasPrefix(line, []byte(unexpected)) {
		return contract.Errorf("http/bad-encoding", "the value of the header Expect is not supported").
			WithHint("omit the header, or send the value 100-continue")
	}
	status, said, ok := bytes.Cut(line, []byte(refusedRest))
	if !ok || bytes.ContainsAny(status, "\r\n") || bytes.ContainsAny(said, "\r\n") {
		return nil
	}
	code, words, _ := strings.Cut(string(status), " ")
	_, why, _ := strings.Cut(words, ": ")
	switch code {
	case "408":
		return lateHead()
	case "431":
		return contract.Errorf("http/headers-too-large", "the headers are longer than %d bytes", serverHeaders)
	case "501":
		return contract.Errorf("http/bad-encoding", "the transfer encoding is not supported").
			WithHint("use chunked only, or send a Content-Length")
	case "505":
		return contract.Errorf("http/bad-encoding", "the HTTP version is not supported").WithHint("use HTTP/1.1")
	}
	if why == "" {
		why = "a line, a header or a length in it is malformed"
	}
	return contract.Errorf("http/bad-encoding", "malformed HTTP/1.1 request: %s", why).
		WithHint("send a request line, headers of name and value, an empty line")
}

// lastAnswer returns a complete HTTP response for a request that was not read. The connection must
// be closed after it.
func lastAnswer(err *contract.Error) []byte {
	r := formPlain.failure(err)
	body, _ := encode(r.body, typeJSON)
	h := http.Header{}
	setHeaders(h, "")
	h.Set("Content-Type", string(typeJSON))
	h.Set("Content-Length", fmt.Sprint(len(body)))
	h.Set("Connection", "close")
	if after := retryAfter(r); after > 0 {
		h.Set("Retry-After", fmt.Sprint(after))
	}
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", r.status, http.StatusText(r.status))
	_ = h.Write(&b) // bytes.Buffer never fails
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
