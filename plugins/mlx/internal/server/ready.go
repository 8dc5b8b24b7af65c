package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// The poll intervals of a starting server: short at first, then one second.
const (
	firstProbe  = 100 * time.Millisecond
	lastProbe   = time.Second
	otherPath   = "/v1/models" // used if there is no ready path
	maxAnswered = 64 << 10
	// maxDoubts is the number of answers after which a listener of unknown
	// owner counts as that of this server: about two seconds.
	maxDoubts = 6
)

// answer is the response of a server to a probe.
type answer struct {
	status int
	body   []byte
	err    error
}

// ask sends one request and returns the response, with at most maxAnswered bytes of the body. It is
// canceled when ctx ends.
func (s *Server) ask(ctx context.Context, method, path string, body []byte) answer {
	target := "http://" + s.address() + path
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err
		}
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswered))
	return answer{response.StatusCode, text, err}
}

func (s *Server) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.port)))
}

// await waits until the server has answered a request of one token. On error the process may still
// be running.
func (s *Server) await(ctx context.Context) *contract.Error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := s.plan.Clock.NewTimer(s.plan.Startup)
	defer limit.Stop()
	path, pause, loaded, heard := s.plan.ReadyPath, firstProbe, false, "nothing"
	doubts := 0
	for {
		said := make(chan answer, 1)
		if loaded {
			go func() { said <- s.ask(ctx, http.MethodPost, s.plan.Path, s.plan.Question) }()
		} else {
			go func() { said <- s.look(ctx, path) }()
		}
		var a answer
		select {
		case a = <-said:
		case <-limit.C():
			return s.late(heard)
		case <-s.proc.Done():
			return s.failed()
		case <-ctx.Done():
			return stopped()
		}
		switch {
		case a.err != nil:
		case !loaded && a.status == http.StatusOK:
			loaded, pause = true, firstProbe
			continue
		case !loaded && a.status == http.StatusNotFound && path != otherPath:
			path = otherPath
			continue
		case loaded && a.status == http.StatusOK:
			ours, why := s.first(a)
			if doubts++; why != nil || ours || doubts > maxDoubts {
				return why
			}
		case memoryText(string(a.body)):
			return contract.Errorf("model/out-of-memory", "the model server has not enough memory for its model: %s",
				short(a.body)).
				WithDetail("output", s.output())
		case loaded && a.status >= 400 && a.status < 500 && a.status != http.StatusRequestTimeout && a.status != http.StatusTooManyRequests && a.status != http.StatusTooEarly:
			return contract.Errorf("model/start-failed",
				"the model server rejected a test request for one token with status %d: %s",
				a.status, short(a.body)).
				WithDetail("http/status", edn.Int(int64(a.status))).WithDetail("output", s.output())
		default:
			asked := path
			if loaded {
				asked = s.plan.Path
			}
			heard = fmt.Sprintf("status %d to %s", a.status, asked)
		}
		timer := s.plan.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-limit.C():
			timer.Stop()
			return s.late(heard)
		case <-s.proc.Done():
			timer.Stop()
			return s.failed()
		case <-ctx.Done():
			timer.Stop()
			return stopped()
		}
		pause = min(pause*3/2, lastProbe)
	}
}

// probeLimit is the time limit of a request that checks whether the server responds.
const probeLimit = 2 * time.Second

// look requests path with GET and waits at most probeLimit for the response.
func (s *Server) look(ctx context.Context, path string) answer {
	ctx, cancel := transport.Within(ctx, s.plan.Clock, probeLimit)
	defer cancel()
	return s.ask(ctx, http.MethodGet, path, nil)
}

func stopped() *contract.Error {
	return contract.Errorf("model/not-ready", "the model server was stopped while it started")
}

func (s *Server) late(heard string) *contract.Error {
	return contract.Errorf("model/start-timeout", "the model server did not answer within %s; its last response was %s",
		s.plan.Startup, heard).
		WithDetail("pid", edn.Int(int64(s.PID()))).WithDetail("output", s.output())
}

// first validates an answer of one token and checks that it came from this
// server. ours is false if nothing tells who listens: this server as another
// user, or a process that took the port and that this one must not see; in the
// second case this server ends soon, since it cannot listen.
func (s *Server) first(a answer) (ours bool, err *contract.Error) {
	var body struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(a.body, &body) != nil || len(body.Choices) == 0 {
		return false, contract.Errorf("model/start-failed",
			"the server on port %d answered the test request without :choices: %s", s.port,
			short(a.body)).WithDetail("output", s.output())
	}
	own, others, unknown, open := 0, 0, 0, ""
	for _, l := range s.plan.listeners(s.port) {
		mine := slices.Contains(l.Sessions, s.PID())
		switch {
		case mine:
			own++
		case len(l.PIDs) > 0:
			others++
		default:
			unknown++
		}
		if (mine || len(l.PIDs) == 0) && !l.Addr.IsLoopback() {
			open = l.Addr.String()
		}
	}
	switch {
	case own == 0 && others > 0:
		return false, lost(inUse(s.port))
	case open != "":
		return false, contract.Errorf("model/start-failed",
			"the model server listens on %s: it has no access control, so it must listen on 127.0.0.1 only", open).
			WithHint("add --host 127.0.0.1, or the equivalent option of this server, to command")
	}
	return own > 0 || unknown == 0, nil
}

func lost(e *contract.Error) *contract.Error {
	e.Err = errLost
	return e
}

// failed returns the error that describes why the process ended during its start.
func (s *Server) failed() *contract.Error {
	s.Gone()
	exit, last := s.proc.Exit(), s.last(lines)
	message := exit.String()
	if len(last) > 0 {
		message += ": " + printable(launch.Clip(last[len(last)-1], 200))
	}
	switch {
	case s.foreign():
		return lost(inUse(s.port))
	case s.memory(exit, last):
		return s.facts(contract.Errorf("model/out-of-memory",
			"the model server ran out of memory while it started (%s)", exit))
	case exit.Signal == 0 && (exit.Code == 126 || exit.Code == 127), impossible(exit, last):
		line := cannot(last)
		if line == "" {
			line = message
		}
		return s.hinted(s.facts(s.plan.unavailable("%s", line)), last)
	}
	e := s.hinted(s.facts(contract.Errorf("model/start-failed", "the model server ended while it started: %s",
		message)), last)
	if taken(last) {
		e.Err = errLost
	}
	return e
}

// hinted returns e with a hint about permissions if the output suggests that they are the cause:
// the server runs under the isolation of its plugin.
func (s *Server) hinted(e *contract.Error, last []string) *contract.Error {
	if slices.ContainsFunc(last, func(line string) bool {
		return holds(line, []string{"permission denied", "operation not permitted", "eacces"})
	}) {
		return e.WithHint("the isolation block of the plugin limits the server: grant programs with exec, " +
			"weights with read_paths and caches with write_paths")
	}
	return e
}

// foreign reports whether another process answers on the port after this server
// has ended.
func (s *Server) foreign() bool {
	return answers(context.Background(), s.plan.Clock, s.address(), probeLimit)
}

// short returns the beginning of a body on one line.
func short(body []byte) string {
	return launch.Clip(printable(strings.Join(strings.Fields(string(body)), " ")), 200)
}
