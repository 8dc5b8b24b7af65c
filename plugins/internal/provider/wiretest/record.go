package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
)

// shortestPause is the shortest pause that is recorded.
const shortestPause = 20 * time.Millisecond

// Recording configures a Recorder.
type Recording struct {
	// Upstream is the base URL of the recorded server, with its scheme.
	Upstream string
	// Source describes the server, Date is the date of recording.
	Source, Date string
	// Secrets are removed from the transcripts.
	Secrets []string
	// Transport makes the requests; nil for http.DefaultTransport.
	Transport http.RoundTripper
	// Now returns the time; nil for the machine's clock.
	Now func() time.Time
}

// Recorder is a proxy between a client and a model server that records the
// answers piece by piece in the form that Server plays. Of requests it keeps
// only the lines that identify them, and of headers only those that adapters
// read.
type Recorder struct {
	// URL is the address for the client.
	URL string

	set   Recording
	scrub *failure.Scrubber
	mu    sync.Mutex
	done  []recorded
}

type recorded struct {
	text string
	err  error
}

// Record starts a recorder that stops when the test ends. Source and Date of set are required.
func Record(t testing.TB, set Recording) *Recorder {
	t.Helper()
	if set.Source == "" || set.Date == "" {
		t.Fatal("a recording needs its source and its date")
	}
	if set.Transport == nil {
		set.Transport = http.DefaultTransport
	}
	if set.Now == nil {
		set.Now = time.Now
	}
	r := &Recorder{set: set, scrub: failure.NewScrubber(set.Secrets...)}
	h := httptest.NewServer(r)
	r.URL = h.URL
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return r
}

// Texts returns the transcripts so far, in the order in which the answers
// ended. The error is that of a transcript that would contain a secret.
func (r *Recorder) Texts() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, d := range r.done {
		if d.err != nil {
			return nil, d.err
		}
		texts = append(texts, d.text)
	}
	return texts, nil
}

// ServeHTTP implements http.Handler.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	out, err := http.NewRequestWithContext(in.Context(), in.Method,
		strings.TrimSuffix(r.set.Upstream, "/")+in.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	out.Header = in.Header.Clone()
	out.Header.Set("Accept-Encoding", "identity") // same pieces as the adapter reads
	tape := &tape{began: r.set.Now(), now: r.set.Now}
	response, err := r.set.Transport.RoundTrip(out)
	if err != nil {
		tape.do = "reset"
		r.keep(in, body, 0, nil, tape)
		reset(w)
		return
	}
	defer func() { _ = response.Body.Close() }()
	for name, values := range response.Header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
	_ = http.NewResponseController(w).Flush()
	err = tape.copy(w, response.Body)
	r.keep(in, body, response.StatusCode, response.Header, tape)
	switch {
	case tape.do == "reset":
		reset(w)
	case err != nil:
		panic(http.ErrAbortHandler) // reproduce the broken end
	}
}

// keep writes the transcript of a tape.
func (r *Recorder) keep(in *http.Request, body []byte, status int, header http.Header, t *tape) {
	text, err := r.write(in, body, status, header, t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, recorded{text, err})
}

// keptHeaders are the headers that an adapter reads.
var keptHeaders = []string{"Content-Type", "Retry-After", "Retry-After-Ms", "Request-Id", "X-Request-Id"}

func (r *Recorder) write(in *http.Request, body []byte, status int, header http.Header, t *tape) (string, error) {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s: %s\n", key, r.scrub.Clean(value)) }
	line("origin", "recorded")
	line("source", r.set.Source)
	line("date", r.set.Date)
	line("request", in.Method+" "+in.URL.Path)
	for _, part := range told(body) {
		line("body", part)
	}
	if status != 0 {
		line("status", fmt.Sprint(status))
	}
	for _, name := range keptHeaders {
		for _, v := range header.Values(name) {
			line("header", name+": "+v)
		}
	}
	b.WriteString("\n")
	for i, p := range t.pieces {
		if i > 0 {
			b.WriteString("---\n")
		}
		if p.after >= shortestPause {
			fmt.Fprintf(&b, "wait %s\n", p.after.Round(time.Millisecond))
		}
		b.WriteString(lines(r.scrub.Clean(p.text)))
	}
	if t.do != "" {
		b.WriteString(t.do + "\n")
	}
	// A secret that is split over two pieces is not removed from either.
	if cleaned := t.cleaned(r.scrub); r.scrub.Clean(cleaned) != cleaned {
		return "", errors.New("a secret is split over two pieces of the answer: the recording cannot be kept")
	}
	return b.String(), nil
}

// told returns the parts of a request that identify it.
func told(body []byte) []string {
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return nil
	}
	var parts []string
	for _, name := range []string{"model", "stream"} {
		if v, ok := m[name]; ok {
			parts = append(parts, fmt.Sprintf("%q:%s", name, v))
		}
	}
	return parts
}

// lines encodes a piece in the form that Parse reads.
func lines(piece string) string {
	var b strings.Builder
	for piece != "" {
		line, rest, ended := strings.Cut(piece, "\n")
		switch {
		case !ended:
			b.WriteString("|- " + line + "\n")
		case strings.HasSuffix(line, "\r"):
			b.WriteString("|r " + strings.TrimSuffix(line, "\r") + "\n")
		case line == "":
			b.WriteString("|\n")
		default:
			b.WriteString("| " + line + "\n")
		}
		piece = rest
	}
	return b.String()
}

// tape is an answer as it arrives.
type tape struct {
	now    func() time.Time
	began  time.Time
	pieces []taped
	do     string
}

type taped struct {
	text  string
	after time.Duration // since the previous piece, or the request
}

// copy forwards each piece as it arrives.
func (t *tape) copy(w http.ResponseWriter, from io.Reader) error {
	buffer := make([]byte, 64<<10)
	last := t.began
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			at := t.now()
			t.pieces = append(t.pieces, taped{string(buffer[:n]), at.Sub(last)})
			last = at
			if _, err := w.Write(buffer[:n]); err != nil {
				t.do = "stall" // the client has gone: the rest is unknown
				return err
			}
			_ = http.NewResponseController(w).Flush()
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return nil
		case errors.Is(err, syscall.ECONNRESET):
			t.do = "reset"
			return err
		case errors.Is(err, io.ErrUnexpectedEOF):
			t.do = "abort"
			return err
		default:
			t.do = "stall"
			return err
		}
	}
}

// cleaned returns the whole answer after each of its pieces was cleaned.
func (t *tape) cleaned(s *failure.Scrubber) string {
	var b strings.Builder
	for _, p := range t.pieces {
		b.WriteString(s.Clean(p.text))
	}
	return b.String()
}
