package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk"
)

// The test binary is also the programs that plugins start in these tests. A
// copy of it lies beside the other programs; its first argument says what it
// is.
const (
	roleSleeper = "role:sleeper" // lives on through every signal that can be ignored
	roleForker  = "role:forker"  // starts a sleeper in a process group of its own and waits for it
	roleEngine  = "role:engine"  // a chess program that starts a sleeper and never finds a move
	roleCurl    = "role:curl"    // as much of curl as the README uses
	roleRefuser = "role:refuser" // a plugin that says what it is and accepts no configuration
)

// longest is how long a program of a test lives if nothing ends it: a test that
// fails must not spoil the machine for good.
const longest = 2 * time.Minute

// role runs the test binary as one of these programs, and tells whether it did.
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
	default:
		return false
	}
	return true
}

func sleeper() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	time.Sleep(longest)
}

// fork starts a grandchild that holds the output of its parent open.
func fork() {
	cmd := exec.Command(os.Args[0], roleSleeper)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// engine knows as much of UCI as it takes to be asked for a move.
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

// curl makes one request and prints the body of the answer. It ends with 22 if
// that is an error.
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
