package wiretest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Request is one received request.
type Request struct {
	Method, Path string
	Escaped      string // the path as it was sent, with the query
	Header       http.Header
	Body         string
	// Gone is closed when the client has closed the connection, or when the
	// answer is complete.
	Gone <-chan struct{}
}

// Server plays transcripts in the given order; the last one repeats.
type Server struct {
	URL string
	// Pace waits for the recorded pause d, or until done; nil for no pauses. It
	// must be set before the first request.
	Pace func(d time.Duration, done <-chan struct{})

	t    testing.TB
	mu   sync.Mutex
	list []Transcript
	seen []Request
	news chan struct{}
	// Answers of side requests, by the end of their path.
	beside map[string]Transcript
	others []Request
}

// Serve starts a server that stops when the test ends.
func Serve(t testing.TB, list ...Transcript) *Server {
	t.Helper()
	s := &Server{t: t, list: list, news: make(chan struct{})}
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return s
}

// Then replaces the remaining transcripts.
func (s *Server) Then(list ...Transcript) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
}

// Beside sets the transcripts for side requests, in place of earlier ones. A request whose path
// ends with the path of such a transcript gets its answer, any number of times and in any
// order. It is listed by Besides, not by Requests.
func (s *Server) Beside(list ...Transcript) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beside = map[string]Transcript{}
	for _, tr := range list {
		s.beside[tr.Path] = tr
	}
}

// Besides returns the requests so far that were answered by transcripts of
// Beside.
func (s *Server) Besides() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.others)
}

// Requests returns all other requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Arrived returns a channel that is closed at the next request that is not answered by Beside.
func (s *Server) Arrived() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

// next returns the transcript for a request.
func (s *Server) next(r Request) (Transcript, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, tr := range s.beside {
		if strings.HasSuffix(r.Path, path) {
			s.others = append(s.others, r)
			return tr, true
		}
	}
	s.seen = append(s.seen, r)
	close(s.news)
	s.news = make(chan struct{})
	if len(s.list) == 0 {
		return Transcript{}, false
	}
	tr := s.list[0]
	if len(s.list) > 1 {
		s.list = s.list[1:]
	}
	return tr, true
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	tr, ok := s.next(Request{
		Method: r.Method, Path: r.URL.Path, Escaped: r.RequestURI,
		Header: r.Header.Clone(), Body: string(body), Gone: r.Context().Done(),
	})
	if !ok {
		s.t.Errorf("unexpected request: %s %s", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if tr.Path != "" && (r.Method != tr.Method || !strings.HasSuffix(r.URL.Path, tr.Path)) {
		s.t.Errorf("%s: the request is %s %s instead of %s %s", tr.Name, r.Method, r.URL.Path, tr.Method, tr.Path)
	}
	for _, part := range tr.Body {
		if !strings.Contains(string(body), part) {
			s.t.Errorf("%s: the request has no %s: %s", tr.Name, part, body)
		}
	}
	if len(tr.Steps) > 0 && tr.Steps[0].Send == "" && tr.Steps[0].Do == "reset" {
		reset(w) // before the headers
		return
	}
	for name, values := range tr.Header {
		w.Header()[name] = values
	}
	if tr.Header.Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil
	}
	w.WriteHeader(tr.Status)
	_ = http.NewResponseController(w).Flush()
	for _, step := range tr.Steps {
		if s.Pace != nil && step.Wait > 0 {
			s.Pace(step.Wait, r.Context().Done())
		}
		if !play(w, r, step) {
			return
		}
	}
}

func play(w http.ResponseWriter, r *http.Request, step Step) bool {
	if step.Send != "" {
		if _, err := io.WriteString(w, step.Send); err != nil {
			return false
		}
		if http.NewResponseController(w).Flush() != nil {
			return false
		}
	}
	switch step.Do {
	case "cut":
		return false
	case "abort":
		panic(http.ErrAbortHandler)
	case "reset":
		reset(w)
		return false
	case "stall":
		<-r.Context().Done()
		return false
	}
	if step.Until != nil {
		select {
		case <-step.Until:
		case <-r.Context().Done():
			return false
		}
	}
	return true
}

// reset closes a connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
