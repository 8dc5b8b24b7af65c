package httpapi_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi/httpapitest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "the-token-of-this-start"

// world is an API with listeners in a temporary directory: the pipeline of
// acts is real, the capabilities are scripted.
type world struct {
	t        testing.TB
	exec     *dispatchtest.World
	service  *act.Service
	settings atomic.Pointer[httpapi.Settings]
	phase    atomic.Value // string
	healthy  atomic.Bool
	ready    atomic.Bool
	failing  atomic.Pointer[contract.Error] // the error of admin actions
	panics   atomic.Bool
	jobs     atomic.Bool // acts may be accepted
	turns    atomic.Int64
	unended  atomic.Bool // the ends of answers are not kept
	answers  httpapi.MemoryAnswers
	audited  chan httpapi.AuditEntry
	sessions *session.Service
	users    *identity.Service

	trail []edn.Value // rows besides the first
	// unrecorded is the error of actions that the audit trail cannot record.
	unrecorded atomic.Pointer[contract.Error]
	trailAge   atomic.Int64                          // of the first row, in nanoseconds
	measure    func(context.Context) *contract.Error // called by judge-calibrate

	idle    atomic.Bool // its run goes on, without events
	damaged atomic.Bool // the last event of its run cannot be read

	mu         sync.Mutex
	rejections []httpapi.Rejection
	denials    []httpapi.Denial
	identified []httpapi.Identified
	permitted  []httpapi.Permission
	owner      string // of the sample run; default: a caller that no test has
	traced     []string
	joined     string // trace context of the last act
	asked      []runsCall

	api     *httpapi.API
	server  *httpapi.Server
	address string
	socket  string
	client  *http.Client
	admin   *http.Client
}

func newWorld(t testing.TB, change ...func(*httpapi.Settings)) *world {
	t.Helper()
	w := &world{t: t, audited: make(chan httpapi.AuditEntry, 100)}
	w.exec = dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/a :cap/kind :solver :cap/intents #{:text/respond} :io/in-schema :req/text :io/out-schema :res/text}`,
		`{:cap/id :t/any :cap/kind :solver :cap/intents #{:t/any} :io/in-schema :req/any :io/out-schema :res/any}`,
		`{:cap/id :t/writes :cap/kind :solver :cap/intents #{:t/writes} :cap/effects #{:fs/write} :io/in-schema :req/any :io/out-schema :res/any}`,
		`{:cap/id :t/chat :cap/kind :llm :cap/intents #{:model/chat} :io/in-schema :req/chat :io/out-schema :res/chat}`,
		`{:cap/id :t/cached :cap/kind :solver :cap/intents #{:t/cached} :io/in-schema :req/any :io/out-schema :res/any}`,
		`{:cap/id :t/typed :cap/kind :solver :cap/intents #{:t/typed} :io/in-schema :req/typed :io/out-schema :res/any}`,
	}, Intents: []registry.Intent{{ID: "t/cached", In: "req/any", Out: "res/any", Cacheable: true, CacheScope: registry.CachePrincipal}}, Schemas: map[string]string{"req/typed": `[:map [:kw :keyword] [:set [:set :keyword]] [:dec :decimal] [:at {:optional true} :inst]]`}})
	w.sessions = session.New(&session.Memory{}, sessionRules(), nil, nil)
	var err error
	w.service, err = act.New(act.Config{Registry: w.exec.Registry, Policies: w.exec.Policies, Checks: w.exec.Checks, Executor: w.exec, Journal: journal.NewMemory(), Hash: edn.Hash(edn.Nil()), Sessions: w.sessions,
		Cache: cache.New(cache.Settings{TTL: time.Hour, MaxEntries: 10, MaxBytes: 1 << 20}, time.Now), Answers: edn.Hash(edn.Nil())})
	require.NoError(t, err)
	w.users, err = identity.Open(t.Context(), &identity.Memory{})
	require.NoError(t, err)
	s := &httpapi.Settings{Identity: whoIs(), Access: policy.ShippedAccess(), AllowedHosts: []string{"ferment.example"}, Limits: config.HTTPLimits{
		ActBody: 1 << 20, SessionBody: 64 << 10, AdminBody: 64 << 10, Headers: 8 << 10,
		// Tests of slow clients use short limits; the others must stand a busy
		// machine.
		HeaderRead: 20 * time.Second, BodyRead: 20 * time.Second, Idle: time.Minute, Write: 20 * time.Second,
		Connections: 64, PerAddress: 64,
	}}
	for _, f := range change {
		f(s)
	}
	w.settings.Store(s)
	w.phase.Store("ready")
	w.healthy.Store(true)
	w.ready.Store(true)
	w.api = httpapi.New(w, nil)
	dir, err := os.MkdirTemp("", "fer") // the name of a test may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.socket = filepath.Join(dir, "admin.sock")
	w.server, err = w.api.Bind(t.Context(), httpapi.Binding{Listen: []string{"127.0.0.1:0"}, AdminSocket: w.socket, Token: token}, s)
	require.NoError(t, err)
	w.server.Serve()
	w.address = w.server.Addresses()[0]
	w.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.admin = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket)
	}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		w.server.Shutdown(ctx)
	})
	return w
}

// The methods of httpapi.Backend.

func (w *world) Health() httpapi.Health {
	return httpapi.Health{OK: w.healthy.Load(), Version: "test", Isolation: edn.MustRead(`{:level :strict :enforcement {:kernel 2 :port-only 1} :best-effort 0 :udp :open}`), Judges: edn.MustRead(`[{:judge "grader" :state :drifted}]`)}
}

func (w *world) Phase() string { return w.phase.Load().(string) }

func (w *world) Ready() httpapi.Ready {
	return httpapi.Ready{Phase: w.Phase(), Boot: "b", Profile: "dev", Weaker: []edn.Value{}, Conditions: []httpapi.Condition{{Name: "started", OK: w.ready.Load(), Since: time.Now(), Why: "not yet"}}}
}

func (w *world) Settings() *httpapi.Settings { return w.settings.Load() }

func (w *world) Take() (httpapi.Turn, *contract.Error) {
	if w.Phase() == "draining" {
		return nil, contract.Errorf("runtime/draining", "going down")
	}
	w.turns.Add(1)
	return turn{w}, nil
}

type turn struct{ w *world }

func (x turn) Registry() *registry.Registry {
	if x.w.panics.Load() {
		panic("a defect")
	}
	return x.w.exec.Registry
}

func (x turn) Do(ctx context.Context, a act.Act) (edn.Value, *contract.Error) {
	x.w.mu.Lock()
	x.w.joined = a.TraceParent
	x.w.mu.Unlock()
	return x.w.service.Do(ctx, a)
}
func (x turn) Watch(ctx context.Context, a act.Act, show func([]journal.Event) error) (edn.Value, *contract.Error) {
	a.Watched = true
	run, err := x.w.service.Start(ctx, a)
	if err != nil {
		return x.w.service.Refusal(a, err), err
	}
	if run.WatchPages(context.WithoutCancel(ctx), show) != nil {
		run.Cancel("client", "it stopped reading")
	}
	return run.Wait()
}
func (x turn) Submit(a act.Act) (edn.Value, *contract.Error) {
	if !x.w.jobs.Load() {
		err := contract.Errorf("queue/disabled", "no queue")
		return x.w.service.Refusal(a, err), err
	}
	run, err := x.w.service.Submit(a)
	if err != nil {
		return x.w.service.Refusal(a, err), err
	}
	return edn.MustRead(sampleJob).AssocKey("job/id", edn.Text(run.ID())), nil
}
func (x turn) Release() { x.w.turns.Add(-1) }

// unending are answers whose ends can fail.
type unending struct {
	*httpapi.MemoryAnswers
	w *world
}

func (u unending) End(ctx context.Context, key string, status int, body edn.Value) error {
	if u.w.unended.Load() {
		return errors.New("the disk is full")
	}
	return u.MemoryAnswers.End(ctx, key, status, body)
}

func (w *world) Telemetry() httpapi.Telemetry { return figures{w} }

// figures are those of a daemon that has counted nothing.
type figures struct{ w *world }

func (f figures) Metrics() ([]byte, error) {
	if err := f.w.failing.Load(); err != nil {
		return nil, err
	}
	return []byte("ferment_acts_total 1\n"), nil
}

func (f figures) Diag() edn.Value {
	windowed := func(text string) string {
		return "{:since-boot " + text + " :minutes-5 " + text + " :hour-1 " + text + "}"
	}
	return edn.MustRead("{:windows " + windowed("{}") + " :act " + windowed("{}") + " :workflow " + windowed("{}") + " :kpi " + windowed(sampleKPI) +
		" :cache " + windowed("{}") + " :queue {} :lifecycle {} :journal {} :budget {} :session {} :plugins []}")
}

func (w *world) Control() httpapi.Control   { return control{w} }
func (w *world) Sessions() *session.Service { return w.sessions }

// sessionRules are restrictive ones under which one variable fits into a session.
func sessionRules() session.Rules {
	r := session.Restrictive()
	r.MaxVars, r.MaxValueBytes = 1, 100
	return r
}

func (w *world) Identity() *identity.Service { return w.users }

func (w *world) Denied(d httpapi.Denial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denials = append(w.denials, d)
}

func (w *world) Traced(outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traced = append(w.traced, outcome)
}

func (w *world) Identified(i httpapi.Identified) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.identified = append(w.identified, i)
}

func (w *world) Permitted(p httpapi.Permission) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.permitted = append(w.permitted, p)
}

// denied returns the audit records of denied requests since the last call.
func (w *world) denied() []httpapi.Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.denials
	w.denials = nil
	return all
}

// whoIs are settings with the roles of every installation and cheap hashes, under
// which callers need no credentials.
func whoIs() *identity.Settings {
	return &identity.Settings{
		Known:       append(policy.BuiltinRoles(), "role/contractor"),
		Anonymous:   policy.RoleUser,
		LoggedIn:    policy.RoleUser,
		Strong:      []string{"system"},
		Basic:       identity.Basic{Enabled: true, Remember: time.Minute, MinBytes: 12, Memory: 64, Time: 1},
		TokenTTL:    time.Hour,
		MaxTokenTTL: 24 * time.Hour,
		Locks:       identity.Locks{StrongMax: 2, Max: 3, StrongWindow: time.Minute, Window: time.Minute, Forgive: time.Minute},
	}
}

func (w *world) Rejected(r httpapi.Rejection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejections = append(w.rejections, r)
}

// rejected returns the audit records of refused acts since the last call.
func (w *world) rejected() []httpapi.Rejection {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.rejections
	w.rejections = nil
	return all
}

type control struct{ w *world }

func (c control) err() *contract.Error { return c.w.failing.Load() }
func (c control) some() (edn.Value, *contract.Error) {
	if err := c.err(); err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("n"), edn.Int(1)), nil
}
func (c control) Plugins() edn.Value                          { return edn.MustMap(edn.K("plugins"), edn.Vector()) }
func (c control) Inspect(string) (edn.Value, *contract.Error) { return c.some() }
func (c control) Logs(name string, _ int) (edn.Value, *contract.Error) {
	return edn.MustMap(edn.K("plugin"), edn.Text(name), edn.K("lines"), edn.MustRead(`[{:n 1} "plain"]`)), c.err()
}
func (c control) ResetBreaker(capability, _ string) (edn.Value, *contract.Error) {
	return edn.MustMap(edn.K("capability"), edn.K(capability), edn.K("candidates"), edn.Vector()), c.err()
}

// FollowLog gives two lines, then nothing until ctx ends.
func (c control) FollowLog(string, int) (httpapi.FollowingLog, *contract.Error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, show func(edn.Value) error) error {
		for _, line := range []string{`{:n 1}`, `"plain"`} {
			if err := show(edn.MustRead(line)); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}, nil
}
func (control) ExportedPlugins() edn.Value                                { return edn.MustRead(`{:text "lines" :unknown ["x"]}`) }
func (c control) Restart(string) *contract.Error                          { return c.err() }
func (c control) DrainPlugin(string) *contract.Error                      { return c.err() }
func (c control) Release(string) *contract.Error                          { return c.err() }
func (c control) Quarantine(string, string) *contract.Error               { return c.err() }
func (c control) Swap(string) (string, *contract.Error)                   { return "host.1", c.err() }
func (c control) SetLogLevel(string, string) (edn.Value, *contract.Error) { return c.some() }
func (c control) Events(context.Context, string) (edn.Value, *contract.Error) {
	return c.some()
}
func (c control) Trail(context.Context, httpapi.TrailQuery) (httpapi.Trail, *contract.Error) {
	first := edn.MustRead(`{:seq 1 :kind :act/finished}`).AssocKey("at", edn.Inst(time.Now().Add(-time.Duration(c.w.trailAge.Load()))))
	rows := append([]edn.Value{first}, c.w.trail...)
	return httpapi.Trail{Rows: rows, Cursor: "host." + strconv.Itoa(len(rows))}, c.err()
}
func (c control) Approve(context.Context, string) (edn.Value, *contract.Error) {
	return c.some()
}
func (c control) Show(httpapi.ShowQuery) (edn.Value, *contract.Error) { return c.some() }
func (c control) Protocol() edn.Value                                 { v, _ := c.some(); return v }

func (c control) Explain(string, string, bool) (edn.Value, *contract.Error) { return c.some() }
func (c control) Attach(context.Context, string, string) (edn.Value, *contract.Error) {
	return c.some()
}
func (c control) Reload(context.Context, bool) (edn.Value, *contract.Error)    { return c.some() }
func (c control) Diff(context.Context) (edn.Value, *contract.Error)            { return c.some() }
func (c control) Budgets(context.Context, string) (edn.Value, *contract.Error) { return c.some() }
func (c control) AdjustBudget(context.Context, httpapi.BudgetChange) (edn.Value, *contract.Error) {
	return c.some()
}
func (c control) Judges() edn.Value { return edn.MustMap(edn.K("judges"), edn.Vector()) }
func (c control) Calibrate(ctx context.Context, _ httpapi.Calibration) (edn.Value, *contract.Error) {
	if c.w.measure != nil {
		if err := c.w.measure(ctx); err != nil {
			return edn.Nil(), err
		}
	}
	return c.some()
}
func (c control) Runs() httpapi.Runs         { return recorded{c, ""} }
func (c control) Database() httpapi.Database { return c }
func (c control) Answers() httpapi.Answers   { return unending{&c.w.answers, c.w} }
func (c control) Status() edn.Value          { return edn.MustMap() }
func (c control) Drain()                     {}
func (c control) Audit(d httpapi.AuditEntry) { c.w.audited <- d }
func (c control) Auditable() *contract.Error { return c.w.unrecorded.Load() }

func (c control) Backup(context.Context, string) (edn.Value, *contract.Error) { return c.some() }
func (c control) Collect(context.Context, bool) (edn.Value, *contract.Error)  { return c.some() }
func (c control) DatabaseStatus(context.Context) (edn.Value, *contract.Error) { return c.some() }
func (c control) Migrate(context.Context, httpapi.Migration) (edn.Value, *contract.Error) {
	return c.some()
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte

	exchange httpapitest.Exchange // with its request; zero for raw bytes
}

func (a answer) value(t testing.TB) edn.Value {
	t.Helper()
	var v edn.Value
	var err error
	if strings.HasPrefix(a.header.Get("Content-Type"), "application/edn") {
		v, err = edn.Read(a.body, edn.WithLimits(edn.Stored))
	} else {
		v, err = edn.ReadJSON(a.body, edn.WithLimits(edn.Stored))
	}
	require.NoError(t, err, "%d %s", a.status, a.body)
	return v
}

// failure returns the type of the error.
func (a answer) failure(t testing.TB) string {
	t.Helper()
	typ := a.value(t).Key("error").Key("type")
	if s, ok := typ.AsKeyword(); ok {
		return s
	}
	s, _ := typ.AsString()
	return s
}

// call sends a request: "METHOD path", the body, and headers in pairs.
func (w *world) call(what, body string, header ...string) answer {
	w.t.Helper()
	return w.through(w.client, w.address, what, body, header...)
}

// operator is call over the admin socket, with the token.
func (w *world) operator(what, body string, header ...string) answer {
	w.t.Helper()
	return w.through(w.admin, "localhost", what, body, append([]string{"Authorization", "Bearer " + token}, header...)...)
}

func (w *world) through(c *http.Client, host, what, body string, header ...string) answer {
	w.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+host+path, r)
	require.NoError(w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return answer{resp.StatusCode, resp.Header, text, httpapitest.Exchange{
		Method: method, Target: path, Sent: []byte(body), SentHeader: req.Header, Status: resp.StatusCode, Header: resp.Header, Body: text,
	}}
}

// raw sends bytes as they are and reads the response, if there is one.
func (w *world) raw(text string) (answer, error) {
	conn, err := net.Dial("tcp", w.address)
	require.NoError(w.t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return answer{}, err
	}
	return read(conn)
}

func read(conn net.Conn) (answer, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, err
}

func jsonAct(intent, input string) string {
	return fmt.Sprintf(`{"proto":1,"trace":{"id":"t"},"task":{"intent":%q},"input":%s}`, intent, input)
}

func ednAct(intent, input string) string {
	return fmt.Sprintf(`{:proto 1 :trace {:id "t"} :task {:intent :%s} :input %s}`, intent, input)
}

// sampleRun is the run of a world: finished, with five records.
const sampleRun = "run_01AAAAAAAAAAAAAAAAAAAAAAAA"

// absentRun has the form of an id, and is that of no run.
const absentRun = "run_01BBBBBBBBBBBBBBBBBBBBBBBB"

// sampleHash is the hash of a value of that run.
const sampleHash = "b3:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

const sampleSummary = `{:run "` + sampleRun + `" :status :completed :intent :a/good :principal "anonymous" :epoch 1 :records 5
	:accepted-at #inst "2026-11-20T09:00:01Z" :finished-at #inst "2026-11-20T09:00:07Z" :latency-ms 7 :cost-usd 0.25M}`

const sampleJob = `{:job/id "` + sampleRun + `" :job/status :queued :queue/class :batch :attempt 0
	:submitted-at #inst "2026-11-20T09:00:01Z" :updated-at #inst "2026-11-20T09:00:01Z" :deadline-at #inst "2026-11-20T10:00:01Z"}`

// recorded are the runs of a control. It notes whose runs were asked for what.
type recorded struct {
	control
	owner string
}

// operatorName is the principal of a caller on the admin socket.
func operatorName() string { return fmt.Sprintf("uid/%d", os.Getuid()) }

// runsCall is a call of a method of Runs.
type runsCall struct {
	owner, method string
	args          any
}

func (r recorded) note(method string, args any, answer string) (edn.Value, *contract.Error) {
	r.w.mu.Lock()
	r.w.asked = append(r.w.asked, runsCall{r.owner, method, args})
	r.w.mu.Unlock()
	if err := r.err(); err != nil {
		return edn.Nil(), err
	}
	return edn.MustRead(answer), nil
}

// lastAsked returns the latest call of a method of Runs.
func (w *world) lastAsked() runsCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[len(w.asked)-1]
}

func (r recorded) OwnedBy(principal string) httpapi.Runs { return recorded{r.control, principal} }
func (r recorded) OfTenant(tenant string) httpapi.Runs {
	return recorded{r.control, "tenant/" + tenant}
}
func (r recorded) InSession(id string) httpapi.Runs {
	return recorded{r.control, "session/" + id}
}
func (r recorded) Owner(_ context.Context, run string) (id, principal string, err *contract.Error) {
	if run == absentRun {
		return "", "", contract.Errorf("run/not-found", "no run %s", run)
	}
	return sampleRun, cmp.Or(r.w.owner, "user/99"), r.err()
}
func (r recorded) List(_ context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	return r.note("list", f, `{:runs [`+sampleSummary+`] :more? `+fmt.Sprint(f.Before == "")+`}`)
}
func (r recorded) Show(_ context.Context, run string, with httpapi.RunParts) (edn.Value, *contract.Error) {
	return r.note("show "+run, with, `{:run `+sampleSummary+` :epochs [] :nodes [] :deadline-at #inst "2026-11-20T10:00:01Z" :response {:proto 1}}`)
}
func (r recorded) Records(_ context.Context, q httpapi.RecordsQuery) (edn.Value, *contract.Error) {
	return r.note("records", q, `{:run "`+sampleRun+`" :records [{:seq 1}] :last 1 :more? true}`)
}
func (r recorded) Verify(_ context.Context, run string) (edn.Value, *contract.Error) {
	return r.note("verify "+run, nil, `{:ok? true :runs 1 :damaged []}`)
}
func (r recorded) Job(_ context.Context, run string) (edn.Value, *contract.Error) {
	return r.note("job "+run, nil, sampleJob)
}
func (r recorded) Learned(_ context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	return edn.MustMap(edn.K("groups"), edn.Vector(), edn.K("intent"), edn.Text(f.Intent)), nil
}

// sampleKPI is what nothing counted gives.
const sampleKPI = `{:parse-rate nil :retry-rate nil :fallback-rate nil :judge-pass-rate nil :must-failed-rate nil :must-failed-rate-final nil
	:cache-hit-rate nil :accepted-cost nil :failure-taxonomy {:by-type {} :by-domain {}}}`

func (r recorded) Statistics(_ context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	return r.note("statistics", f, `{:since #inst "2026-11-20T09:00:00Z" :until #inst "2026-11-21T09:00:00Z" :runs {:total 1 :by-status {:completed 1}} :intents {} :failures {} :operations {} :attempts {:total 0 :by-outcome {}} :capabilities {} :gates {} :kpi `+sampleKPI+`}`)
}
func (r recorded) Interrupts(context.Context) (edn.Value, *contract.Error) {
	return r.note("interrupts", nil, `{:interrupts [{:run "`+sampleRun+`" :intent :t/any :interrupt "0-1-1"}]}`)
}
func (r recorded) Answer(_ context.Context, run, interrupt string, _ edn.Value, _ string) (edn.Value, *contract.Error) {
	return edn.MustMap(edn.K("run"), edn.Text(run), edn.K("interrupt"), edn.Text(interrupt)), r.err()
}

// join notes the trace context of the caller.
func (r recorded) join(ctx context.Context) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.joined = httpapi.TraceParent(ctx)
}

func (r recorded) Resume(ctx context.Context, run string, decisions []httpapi.Decision, _ string) (edn.Value, *contract.Error) {
	r.join(ctx)
	return r.note("resume "+run, decisions, `{:run "`+sampleRun+`" :status :running}`)
}
func (r recorded) Diff(_ context.Context, a, b string) (edn.Value, *contract.Error) {
	return r.note("diff "+a+" "+b, nil, `{:equal? true :values? true :differs [] :a {} :b {} :nodes []}`)
}
func (r recorded) Replay(ctx context.Context, q httpapi.ReplayQuery) (edn.Value, *contract.Error) {
	r.join(ctx)
	q.By, q.Decisions = nil, nil // TestReplaysForItsCaller has them
	return r.note("replay", q, `{:run "`+sampleRun+`" :status :completed :records 5 :hash "`+sampleHash+`" :latency-ms 1}`)
}
func (r recorded) Value(_ context.Context, hash, run string) (edn.Value, *contract.Error) {
	return r.note("value "+hash, run, `{:kw :a/b}`)
}
func (r recorded) Export(context.Context, string, int64) (edn.Value, *contract.Error) {
	return r.some()
}
func (r recorded) Import(context.Context, string) (edn.Value, *contract.Error) { return r.some() }
func (r recorded) Pin(_ context.Context, run string, on bool) (edn.Value, *contract.Error) {
	return r.note("pin "+run, on, sampleSummary)
}
func (r recorded) Purge(_ context.Context, run string, dryRun bool) (edn.Value, *contract.Error) {
	return r.note("purge "+run, dryRun, sampleSummary)
}
func (r recorded) Cancel(_ context.Context, run string, c httpapi.Cancellation) (edn.Value, *contract.Error) {
	return r.note("cancel "+run, c, `{:run "`+sampleRun+`" :status :running :cancel/accepted? true}`)
}

// Watch gives the events of the sample, or nothing until ctx ends if the world is
// idle.
func (r recorded) Watch(_ context.Context, run string, after int) (httpapi.Watching, *contract.Error) {
	if _, err := r.note("watch "+run, after, "nil"); err != nil {
		return nil, err
	}
	if after == 5 {
		return nil, nil
	}
	return func(ctx context.Context, show func([]journal.Event) error) error {
		if r.w.idle.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		for i, name := range []string{"accepted", "started", "attempt", "commit", "finished"} {
			if i < after {
				continue
			}
			e := journal.Event{Name: name, Run: sampleRun, Seq: i + 1, At: time.Unix(0, 0), Details: edn.MustMap()}
			if name == "finished" {
				if r.w.damaged.Load() {
					return errorOf("journal/damaged")
				}
				e.Response = edn.MustMap(edn.K("proto"), edn.Int(1))
			}
			if err := show([]journal.Event{e}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// operationsOf returns the operations of actions, sorted.
func operationsOf(actions []httpapi.Action) (out []string) {
	for _, a := range actions {
		out = append(out, "admin/"+a.Name)
	}
	slices.Sort(out)
	return out
}

const password = "three small words"

// user adds a user with a password and roles.
func (w *world) user(login string, roles ...string) identity.User {
	w.t.Helper()
	u, err := w.users.AddUser(w.t.Context(), w.Settings().Identity, identity.NewUser{Login: login, Password: password, Roles: roles})
	require.Nil(w.t, err)
	return u
}

// token returns the header and the id of a token of a user.
func (w *world) token(login string, n policy.Narrowing) (header, id string) {
	w.t.Helper()
	t, text, err := w.users.AddToken(w.t.Context(), w.Settings().Identity, identity.NewToken{Owner: login, Narrow: n})
	require.Nil(w.t, err)
	return "Bearer " + text, t.ID
}
