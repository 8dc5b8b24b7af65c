//go:build linux

package plugin

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/fermenthq/ferment/sdk/conformance/fixture/greedy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// roles are the programs that the tests start.
var roles = map[string]func(args []string){
	// A plugin controlled by its calls and its configuration.
	"good": func([]string) { serve(newFake()) },
	"muxed": func([]string) {
		f := newFake()
		f.features = ":mux"
		serve(f)
	},
	// One whose health is too long for its host.
	"long-health": func([]string) { serve(longHealth{newFake()}) },
	// One that describes itself by the size of its own file.
	"sized": func([]string) {
		f := newFake()
		info, err := os.Stat("/proc/self/exe")
		if err != nil {
			os.Exit(98)
		}
		f.version = fmt.Sprintf("1.0.%d", info.Size()%10_000)
		serve(f)
	},
	// One with other capabilities.
	"tools": func([]string) {
		f := newFake()
		f.capability = ":t/other"
		serve(f)
	},
	"greedy": func(args []string) { greedy.Serve(newFake(), strings.Join(args, "")) },
	// One whose socket is a symbolic link to that of another program.
	"linked": func(args []string) {
		path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "s")
		if err := os.Symlink(args[0], path); err != nil {
			os.Exit(98)
		}
		fmt.Println(strings.Replace(args[1], "%s", path, 1))
		awaitHost()
	},
	// One whose server has another certificate than its handshake line.
	"stranger": func(args []string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			os.Exit(98)
		}
		listenAs(args[0], &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificateOf(key)}, PrivateKey: key}}})
	},
	// One whose server speaks no TLS.
	"plain":    func(args []string) { listenAs(args[0], nil) },
	"stubborn": serveStubborn,
	"hostile":  func([]string) { serve(hostile{newFake()}) },
	"needy":    func([]string) { serve(needy{hostile{newFake()}, ":plugin/needs #{:process/run}"}) },
	// One that declares ports to connect to.
	"caller": func(ports []string) {
		serve(needy{hostile{newFake()}, ":plugin/needs #{:net/connect} :plugin/ports #{" + strings.Join(ports, " ") + "}"})
	},
	// One that opens a file at each start.
	"counted": func(args []string) {
		f, err := os.Open(args[0])
		if err != nil {
			os.Exit(98)
		}
		_ = f.Close()
		serve(newFake())
	},
	// One that prints 200 kB in one line before it serves.
	"noisy": func([]string) {
		fmt.Println(strings.Repeat("x", 200_000))
		fmt.Println("ready when you are")
		serve(newFake())
	},
	// One of a later protocol revision, for which the host is too old.
	"newer": func([]string) {
		fmt.Fprintln(os.Stderr, "newer 2.0:", wire.Incompatible([]int{2}, []int{1}).Message)
		os.Exit(2)
	},
	"deaf": func([]string) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("deaf")
		select {}
	},
	"print":   func(args []string) { fmt.Println(args[0]); awaitHost() },
	"silent":  func([]string) { select {} },
	"mute":    func([]string) { _ = os.Stdout.Close(); awaitHost() },
	"exit-0":  func([]string) {},
	"exit-3":  func([]string) { fmt.Fprintln(os.Stderr, "no licence"); os.Exit(3) },
	"panics":  func([]string) { panic("bad day") },
	"endless": func([]string) { flood("y", false) },
	"lines":   func([]string) { flood("y", true) },
	"host":    hostRole,
}

func flood(s string, lines bool) {
	chunk := []byte(strings.Repeat(s, 1<<16))
	if lines {
		chunk[len(chunk)-1] = '\n'
	}
	for {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return
		}
	}
}

func awaitHost() { _, _ = io.Copy(io.Discard, os.Stdin) }

func serve(f wire.Service) {
	go func() {
		awaitHost()
		os.Exit(0)
	}()
	goplugin.Serve(wire.ServeConfig(f))
}

// serveStubborn serves a plugin that ignores the stop steps named by its
// arguments.
func serveStubborn(ignored []string) {
	ignores := func(step string) bool { return slices.Contains(ignored, step) }
	if ignores("terminate") {
		signal.Ignore(syscall.SIGTERM)
	}
	if !ignores("close-stdin") {
		go func() {
			awaitHost()
			os.Exit(0)
		}()
	}
	var f wire.Service = newFake()
	if ignores("drain") {
		f = undrained{newFake()}
	}
	goplugin.Serve(wire.ServeConfig(f)) // returns at the shutdown of go-plugin
	if ignores("shutdown") {
		select {}
	}
}

// undrained is a plugin whose Drain never returns.
type undrained struct{ *fake }

// Drain implements wire.Service.
func (undrained) Drain(context.Context, time.Time, string) (int, error) { select {} }

// fake is a plugin that misbehaves on demand.
type fake struct {
	version    string
	capability string
	features   string
	host       *wire.Caller
	setup      wire.Setup

	calls   atomic.Int32 // in flight
	mu      sync.Mutex
	health  wire.Health
	changed chan struct{}
	drained chan struct{}
	once    sync.Once // closes drained
	ended   []string
	kept    wire.CallContext // of a call, which may have ended
}

func newFake() *fake {
	return &fake{version: "1.0.0", capability: ":t/echo", health: wire.Health{State: wire.HealthStarting}, changed: make(chan struct{}), drained: make(chan struct{})}
}

func (f *fake) say(h wire.Health) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health = h
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) description(limits string) edn.Value {
	return edn.MustRead(fmt.Sprintf(`{:plugin/name "fake" :plugin/version %q :limits %s :features [%s]
		:capabilities [{:cap/id %s :cap/kind :tool :cap/version "1" :cap/intents #{:t/echo} :io/in-schema :req/any :io/out-schema :res/any}]}`, f.version, limits, f.features, f.capability))
}

// Describe implements wire.Service.
func (f *fake) Describe(_ context.Context, config edn.Value, _ wire.HostInfo) (wire.Description, error) {
	limits := "{}"
	if n, ok := config.Key("places").AsInt(); ok {
		limits = fmt.Sprintf("{:max-in-flight %d}", n)
	}
	switch mood, _ := config.Key("mood").AsString(); mood {
	case "hang-describe":
		select {}
	case "die-describe":
		_, _ = fmt.Fprintln(realStderr, "no licence for this")
		os.Exit(4)
	}
	return wire.Description{Value: f.description(limits)}, nil
}

// Configure implements wire.Service.
func (f *fake) Configure(ctx context.Context, setup wire.Setup, host *wire.Caller) (wire.Description, error) {
	f.host, f.setup = host, setup
	mood, _ := setup.Config.Key("mood").AsString()
	d, err := f.Describe(ctx, setup.Config, setup.Host)
	state := wire.HealthReady
	switch mood {
	case "replaced":
		// Replace the file that the configuration names.
		path, _ := setup.Config.Key("file").AsString()
		_ = os.WriteFile(path+".new", []byte("new"), 0o600)
		_ = os.Rename(path+".new", path)
		d.Findings = []schema.Finding{{Path: []edn.Value{edn.K("file")}, Message: "permission denied"}}
	case "findings":
		d.Findings = []schema.Finding{{Path: []edn.Value{edn.K("depth")}, Message: "is too deep"}}
	case "disagree":
		f.version = "9"
		d.Value = f.description("{}")
	case "downstream":
		return d, contract.Errorf("provider/unavailable", "the model server is away")
	case "die":
		_, _ = fmt.Fprintln(realStderr, "cannot go on")
		os.Exit(4)
	case "hang":
		select {}
	case "not-ready":
		state = wire.HealthNotReady
	case "starting":
		state = wire.HealthStarting
	case "print-secret":
		s := f.secret()
		fmt.Fprintln(os.Stderr, "using key", s)
		fmt.Println("the key is", s)
	case "log-secret":
		line, _ := json.Marshal(map[string]string{"@level": "error", "@message": "bad key " + f.secret(), "header": basic(f.secret())})
		_, _ = fmt.Fprintln(realStderr, string(line))
	case "find-secret":
		d.Findings = []schema.Finding{{Path: []edn.Value{edn.K("key")}, Message: fmt.Sprintf("%q is too short", f.secret())}}
	case "fail-with-secret":
		return d, contract.Errorf("provider/not-configured", "the server refused %s", f.secret()).WithDetail("header", edn.Text(basic(f.secret()))).
			WithHint("try another key than " + f.secret())
	case "fail-where-it-is-cut":
		return d, contract.Errorf("provider/not-configured", "%s%s", strings.Repeat("x", contract.MaxMessage-10), f.secret()).
			WithDetail("sent", edn.MustMap(edn.Text(f.secret()), edn.Text(strconv.Quote(strconv.Quote(f.secret())))))
	case "print-where-it-is-cut":
		_, _ = fmt.Fprintln(realStderr, "bad key", strings.Repeat("x", wire.MaxLine-20), f.secret())
	case "health-of-secret":
		state, mood = wire.HealthNotReady, "401 for "+basic(f.secret())
	}
	f.say(wire.Health{State: state, Reason: mood})
	return d, err
}

// secret returns the secret from the host.
func (f *fake) secret() string {
	secret, _ := f.setup.Secrets.Get(edn.MustRead("[:key]"))
	s, _ := secret.AsString()
	return s
}

// basic encodes a key as in the Authorization header of a request.
func basic(key string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key)) }

// Health implements wire.Service.
func (f *fake) Health(ctx context.Context, send func(wire.Health) error) error {
	for {
		f.mu.Lock()
		h, changed := f.health, f.changed
		f.mu.Unlock()
		if h.InFlight == 0 {
			h.InFlight = int(f.calls.Load())
		}
		if err := send(h); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// longHealth gives a reason of more bytes than a health event may have.
type longHealth struct{ *fake }

// Health implements wire.Service.
func (longHealth) Health(_ context.Context, send func(wire.Health) error) error {
	return send(wire.Health{State: wire.HealthReady, Reason: strings.Repeat("x", 2*wire.MaxHealth)})
}

// EndRun implements wire.Service.
func (f *fake) EndRun(_ context.Context, run string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, run)
	return nil
}

// Drain implements wire.Service.
func (f *fake) Drain(context.Context, time.Time, string) (int, error) {
	f.once.Do(func() { close(f.drained) })
	return 0, nil
}

// Invoke implements wire.Service: the input selects the behaviour.
func (f *fake) Invoke(ctx context.Context, call wire.Call, out *wire.Emitter) (edn.Value, error) {
	f.calls.Add(1)
	defer f.calls.Add(-1)
	input := call.Request.Key("input")
	do, _ := input.Key("do").AsString()
	v := input
	var err error
	switch do {
	case "ignore-cancel":
		if err := out.Delta(edn.MustMap(edn.K("text"), edn.Text("begun"))); err != nil {
			return edn.Nil(), err
		}
		<-make(chan struct{})
	case "hang": // until the caller is gone
		<-ctx.Done()
		return edn.Nil(), ctx.Err()
	case "until-drained": // in the process of a generation; the next one answers
		if n, _ := input.Key("generation").AsInt(); uint64(n) == f.setup.Generation {
			<-f.drained
			if input.Key("refuse?").Truthy() { // as package sdk does after Drain
				return edn.Nil(), contract.Errorf("runtime/not-ready", "draining").WithDetail("reason", edn.K("draining"))
			}
		}
	case "spend": // until the caller is gone, then reports the usage
		if err := out.Delta(edn.MustMap(edn.K("text"), edn.Text("begun"))); err != nil {
			return edn.Nil(), err
		}
		<-ctx.Done()
		return edn.MustRead(`{:result {:type :error :error {:type :canceled :message "stopped"} :usage {:tokens-out 7}}}`), nil
	case "stall": // until this process is stopped; the next one answers
		if n, _ := input.Key("generation").AsInt(); uint64(n) == f.setup.Generation && f.setup.Config.Key("mood").Equal(edn.Text("stalls")) {
			<-ctx.Done()
			return edn.Nil(), ctx.Err()
		}
	case "stream":
		for i := range 3 {
			if err := out.Delta(edn.MustMap(edn.K("text"), edn.Text(strconv.Itoa(i)))); err != nil {
				return edn.Nil(), err
			}
		}
	case "own": // of another capability: as package sdk does
		if id := call.Request.Key("task").Key("cap/id"); id.String() != f.capability {
			return edn.Nil(), contract.Errorf("cap/not-found", "this plugin has no capability %s", id)
		}
	case "fail":
		return edn.Nil(), contract.Errorf("input/invalid", "no such thing")
	case "big":
		n, _ := input.Key("size").AsInt()
		v = edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("b", int(n))))
	case "env":
		v = edn.MustMap(edn.K("env"), edn.Text(strings.Join(os.Environ(), "\n")))
	case "setup":
		dir, _ := os.Getwd()
		v = edn.MustMap(edn.K("root"), edn.Text(f.setup.Root), edn.K("dir"), edn.Text(dir), edn.K("plugin"), edn.Text(f.setup.Plugin),
			edn.K("generation"), edn.Int(int64(f.setup.Generation)), edn.K("config"), f.setup.Config)
	case "context":
		v = edn.MustMap(edn.K("run"), edn.Text(call.Context.Run), edn.K("node"), edn.Text(call.Context.Node), edn.K("attempt"), edn.Int(int64(call.Context.Attempt)),
			edn.K("trace"), edn.Text(call.Context.TraceParent), edn.K("effects"), edn.Text(strings.Join(call.Context.Effects, " ")),
			edn.K("key"), edn.Text(call.Context.EffectKey), edn.K("deadline"), edn.Text(strconv.FormatBool(call.Context.Deadline.IsZero())))
	case "print":
		text, _ := input.Key("text").AsString()
		fmt.Println(text)
		fmt.Fprintln(os.Stderr, text)
	case "ask":
		v, err = f.host.Invoke(ctx, call.Context, input.Key("request"), nil)
	case "ask-and-answer": // with the host call still in flight
		f.mu.Lock()
		f.kept = call.Context
		f.mu.Unlock()
		heard := make(chan struct{})
		go func() {
			_, _ = f.host.Invoke(context.WithoutCancel(ctx), call.Context, input.Key("request"), func(wire.Event) { close(heard) })
		}()
		<-heard
	case "ask-kept":
		f.mu.Lock()
		kept := f.kept
		f.mu.Unlock()
		v, err = f.host.Invoke(ctx, kept, input.Key("request"), nil)
	case "ask-often":
		n, _ := input.Key("n").AsInt()
		for range n {
			if v, err = f.host.Invoke(ctx, call.Context, input.Key("request"), nil); err != nil {
				break
			}
		}
	case "ask-as":
		id, _ := input.Key("id").AsString()
		v, err = f.host.Invoke(ctx, wire.CallContext{CallID: id}, edn.MustRead(`{:task {:intent :t/x}}`), nil)
	case "count":
		v, err = f.count(ctx)
	case "ended":
		f.mu.Lock()
		v = edn.MustMap(edn.K("runs"), edn.Text(strings.Join(f.ended, " ")))
		f.mu.Unlock()
	case "grandchild":
		ownSession := input.Key("session").Truthy()
		v, err = spawnDeaf(ownSession)
	default:
		f.act(do, input)
	}
	if err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), v)), nil
}

// saidOf parses the health that the plugin should report of single
// capabilities.
func saidOf(all edn.Value) []wire.CapabilityHealth {
	var out []wire.CapabilityHealth
	for id, v := range all.Entries() {
		c := wire.CapabilityHealth{}
		c.ID, _ = id.AsKeyword()
		c.Reason, _ = v.Key("reason").AsString()
		if v.Key("down").Truthy() {
			c.State = wire.HealthNotReady
		}
		for _, part := range []struct {
			key string
			to  func(int64)
		}{
			{"warmth", func(n int64) { c.Warmth = wire.Warmth(n) }}, {"in-flight", func(n int64) { c.InFlight = int(n) }},
			{"queued", func(n int64) { c.Queued = int(n) }}, {"places", func(n int64) { c.Places = int(n) }}, {"deaths", func(n int64) { c.Deaths = uint64(n) }},
		} {
			if n, ok := v.Key(part.key).AsInt(); ok {
				part.to(n)
			}
		}
		out = append(out, c)
	}
	return out
}

// act ends or changes the process.
func (f *fake) act(do string, input edn.Value) {
	switch do {
	case "exit":
		code, _ := input.Key("code").AsInt()
		_, _ = fmt.Fprintln(realStderr, "exiting on demand")
		os.Exit(int(code))
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "abort":
		go func() { panic("the engine fell off") }()
		select {}
	case "freeze":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	case "health":
		state, _ := input.Key("state").AsString()
		reason, _ := input.Key("reason").AsString()
		h := wire.Health{Reason: reason, Source: contract.SourceDownstream, Capabilities: saidOf(input.Key("capabilities"))}
		for _, s := range []wire.HealthState{wire.HealthReady, wire.HealthDegraded, wire.HealthNotReady} {
			if s.String() == state {
				h.State = s
			}
		}
		n, _ := input.Key("places").AsInt()
		h.MaxInFlight = int(n)
		f.say(h)
	}
}

// realStderr is the standard error of the process: go-plugin replaces
// os.Stderr.
var realStderr = os.Stderr

// count keeps a number in the host.
func (f *fake) count(ctx context.Context) (edn.Value, error) {
	for {
		now, err := f.host.State(ctx, wire.StateChange{Op: wire.StateGet, Key: "count"})
		if err != nil {
			return edn.Nil(), err
		}
		n, _ := now.Value.AsInt()
		next, err := f.host.State(ctx, wire.StateChange{Op: wire.StatePut, Key: "count", Value: edn.Int(n + 1), IfVersion: &now.Version})
		if err != nil {
			return edn.Nil(), err
		}
		if !next.Conflict {
			return edn.MustMap(edn.K("n"), edn.Int(n+1)), nil
		}
	}
}

// spawnDeaf starts a process that holds the plugin's standard error and ignores
// every signal except SIGKILL.
func spawnDeaf(ownSession bool) (edn.Value, error) {
	cmd := exec.Command("/proc/self/exe", "role:deaf")
	cmd.Stderr = realStderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return edn.Nil(), err
	}
	if err := cmd.Start(); err != nil {
		return edn.Nil(), err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "deaf\n" {
		return edn.Nil(), errors.New("the grandchild did not start")
	}
	return edn.MustMap(edn.K("pid"), edn.Int(int64(cmd.Process.Pid))), nil
}

// listenAs prints a handshake line and listens on its address, with TLS if there is a configuration.
func listenAs(line string, secure *tls.Config) {
	path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		os.Exit(98)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write([]byte("this is no handshake\n"))
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	fmt.Println(strings.Replace(line, "%s", path, 1))
	awaitHost()
}
