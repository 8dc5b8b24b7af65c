package cli_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The test binary is also the program of some plugins in these tests. A copy
// of it is beside the other programs; the first argument selects the role.
const (
	roleSleeper = "role:sleeper" // ignores every signal that can be ignored
	roleForker  = "role:forker"  // starts a sleeper in a process group of its own and waits for it
	roleEngine  = "role:engine"  // a chess program that starts a sleeper and never finds a move
	roleCurl    = "role:curl"    // the part of curl that the README uses
	roleRefuser = "role:refuser" // a plugin that describes itself and rejects every configuration
	roleKeeper  = "role:keeper"  // a plugin that leaks its secrets wherever it can
	roleCaller  = "role:caller"  // a plugin with a network of its own
	roleCounter = "role:counter" // a plugin whose calls leave a line in a file
	roleModel   = "role:model"   // a model server that answers with its process id
)

// longest is the maximum life of a program of a test: a failed test must not
// leave processes forever.
const longest = 2 * time.Minute

// role runs the test binary in a role, and reports whether the arguments
// select one.
func role(args []string) bool {
	if len(args) < 2 {
		return false
	}
	switch args[1] {
	case roleSleeper:
		sleeper()
	case roleForker:
		fork()
		sleeper()
	case roleEngine:
		engine()
	case roleCurl:
		curl(args[2:])
	case roleRefuser:
		sdk.Serve(refuser())
	case roleKeeper:
		sdk.Serve(keeper())
	case roleCaller:
		sdk.Serve(caller())
	case roleCounter:
		sdk.Serve(counter())
	case roleModel:
		model(args[2])
	default:
		return false
	}
	return true
}

// model is a model server on a port. It starts a sleeper, as servers start
// workers.
func model(port string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	fork()
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = fmt.Fprint(w, `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)
			return
		}
		if _, path, found := strings.Cut(string(body), "wait for "); found { // the path of a file
			path, _, _ = strings.Cut(path, `"`)
			for _, err := os.Stat(path); err != nil && r.Context().Err() == nil; _, err = os.Stat(path) {
				time.Sleep(5 * time.Millisecond)
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", os.Getpid())
	})
	time.AfterFunc(longest, func() { os.Exit(1) })
	if err := http.ListenAndServe("127.0.0.1:"+port, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sleeper() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	time.Sleep(longest)
}

// fork starts a grandchild that keeps the output of its parent open.
func fork() {
	cmd := exec.Command(os.Args[0], roleSleeper)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// engine implements as much of UCI as a request for a move needs.
func engine() {
	go func() {
		time.Sleep(longest)
		os.Exit(1)
	}()
	signal.Ignore(syscall.SIGTERM)
	for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		switch word, _, _ := strings.Cut(scan.Text(), " "); word {
		case "uci":
			fmt.Println("id name sleepy\nuciok")
		case "isready":
			fmt.Println("readyok")
		case "go":
			fork()
		case "quit":
			return
		}
	}
	sleeper()
}

func refuser() sdk.Plugin {
	return sdk.Plugin{
		Name: "refuser", Version: "1.0.0",
		Config:       sdk.Config[struct{}]{Start: func(context.Context, struct{}) error { return errors.New("not today") }},
		Capabilities: []sdk.Capability{sdk.Func("t/refuse", sdk.Intents("t/refuse"), func(_ context.Context, in struct{}) (struct{}, error) { return in, nil })},
	}
}

// caller answers every call, except those that request a failure.
func caller() sdk.Plugin {
	type question struct {
		Fail bool `edn:"fail"`
	}
	return sdk.Plugin{
		Name: "caller", Version: "1.0.0", Needs: []string{"net/connect"},
		Capabilities: []sdk.Capability{sdk.Func("t/call", sdk.Intents("t/call"), func(_ context.Context, in question) (question, error) {
			if in.Fail {
				return in, errors.New("the line is dead")
			}
			return in, nil
		})},
	}
}

// curl sends one request and prints the body of the response. It exits with 22
// for an HTTP error.
func curl(args []string) {
	method, address, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-s":
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			header.Set(name, value)
		case "-d":
			i++
			method, body = http.MethodPost, args[i]
		default:
			address = args[i]
		}
	}
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	r.Header = header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(7)
	}
	_, _ = io.Copy(os.Stdout, resp.Body)
	if resp.StatusCode >= 400 {
		os.Exit(22)
	}
	os.Exit(0)
}

type kept struct {
	Key   string `edn:"key,omitempty" secret:"true"`
	Token string `edn:"token,omitempty" secret:"true"`
	Mood  string `edn:"mood,omitempty"`
}

type wish struct {
	Do string `edn:"do"`
}

type told struct {
	Hash string            `edn:"hash"`
	Also map[string]string `edn:"also,omitempty"`
}

// keeper is a plugin that leaks its secrets in all its output. Its answers
// contain their hash.
func keeper() sdk.Plugin {
	both := func(c kept) string { return c.Key + " and " + c.Token }
	return sdk.Plugin{
		Name: "keeper", Version: "1.0.0",
		Config: sdk.Config[kept]{Start: func(_ context.Context, c kept) error {
			if c.Mood == "refuses" {
				return fmt.Errorf("nobody lets %s in", both(c))
			}
			return nil
		}},
		Health: func(ctx context.Context, report func(sdk.Status)) {
			report(sdk.Degraded("logged in with " + both(sdk.ConfigFrom[kept](ctx))))
		},
		Capabilities: []sdk.Capability{sdk.Func("t/keep", sdk.Intents("t/keep"), func(ctx context.Context, in wish) (told, error) {
			secrets := both(sdk.ConfigFrom[kept](ctx))
			switch in.Do {
			case "log":
				sdk.Logger(ctx).Error("the secrets are "+secrets, "url", "https://"+secrets+"@example")
			case "print":
				fmt.Println("printed", secrets)
				fmt.Fprintln(os.Stderr, "printed", secrets)
			case "error":
				return told{}, fmt.Errorf("cannot log in with %s", secrets)
			case "typed":
				return told{}, contract.Errorf("provider/unavailable", "no login with %s", secrets).WithDetail("url", edn.Text("https://"+secrets)).WithHint("try " + secrets).WithCause(contract.Errorf("invalid-request", "bad %s", secrets))
			case "panic":
				panic("no login with " + secrets)
			case "crash":
				fmt.Fprintln(os.Stderr, "panic: dying with", secrets)
				os.Exit(3)
			}
			sum := sha256.Sum256([]byte(secrets))
			answer := told{Hash: hex.EncodeToString(sum[:])}
			if in.Do == "answer" {
				answer.Also = map[string]string{secrets: "as a key", "value": secrets, "html": html.EscapeString(secrets), "bytes": fmt.Sprint([]byte(secrets)), "lower": strings.ToLower(secrets), "upper": strings.ToUpper(secrets)}
			}
			return answer, nil
		})},
	}
}

// counted is the input and the answer of the counter.
type counted struct {
	N string `edn:"n"`
}

// counter is a plugin that writes a line for each effect, outside of the host: the
// class, the number of the call and its effect key. As a service that knows keys
// would, count/keyed has the effect of a key once; it notes every call.
func counter() sdk.Plugin {
	type settings struct {
		File string `edn:"file"`
	}
	serve := func(class string) func(context.Context, counted) (counted, error) {
		return func(ctx context.Context, in counted) (counted, error) {
			time.Sleep(2 * time.Millisecond)
			f, err := os.OpenFile(sdk.ConfigFrom[settings](ctx).File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return in, err
			}
			defer func() { _ = f.Close() }()
			_, err = fmt.Fprintf(f, "%s %s %s\n", class, in.N, sdk.CallFrom(ctx).EffectKey)
			time.Sleep(2 * time.Millisecond)
			return in, err
		}
	}
	// gate notes the begin and the end of a call. One whose number begins with
	// "wait" waits in between for a file.
	gate := func(ctx context.Context, in counted) (counted, error) {
		note := func(what string) error {
			f, err := os.OpenFile(sdk.ConfigFrom[settings](ctx).File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			_, err = fmt.Fprintf(f, "%s %s\n", what, in.N)
			return err
		}
		if in.N == "fail" {
			return in, contract.Errorf("policy/blocked", "it is to fail")
		}
		err := note("begin")
		for strings.HasPrefix(in.N, "wait") && err == nil && ctx.Err() == nil {
			if _, missing := os.Stat(sdk.ConfigFrom[settings](ctx).File + ".open"); missing == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = note("end")
		}
		return in, err
	}
	writes := sdk.Effects("fs/write")
	return sdk.Plugin{
		Name: "counter", Version: "1.0.0", Config: sdk.Config[settings]{},
		Capabilities: []sdk.Capability{
			sdk.Func("count/free", sdk.Intents("count/free"), serve("free"), sdk.MaxInFlight(16)),
			sdk.Func("count/keyed", sdk.Intents("count/keyed"), serve("keyed"), writes, sdk.Idempotent(), sdk.MaxInFlight(16)),
			sdk.Func("count/gate", sdk.Intents("count/gate"), gate, sdk.MaxInFlight(64)),
			sdk.Func("count/once", sdk.Intents("count/once"), serve("once"), writes, sdk.MaxInFlight(16)),
		},
	}
}
