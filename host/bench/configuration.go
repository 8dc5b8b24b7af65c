package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/fermenthq/ferment/host/internal/runtime/cli"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Further roles of this program as a child process: the command line, and a process that exits at
// once.
const (
	roleCLI  = "cli"
	roleNone = "none"
)

func runCLI(args []string) int {
	dir, err := os.Getwd()
	if err != nil {
		return 70
	}
	return cli.Main(cli.Env{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: "bench", Getenv: os.LookupEnv, Dir: dir})
}

// configuration measures loading and validating ferment.hcl (HCL-043).
func configuration(p pace) ([]row, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Keep the cache of plugin descriptions out of the cache directory of the user.
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")); err != nil {
		return nil, err
	}
	texts, err := textRows(p, dir)
	if err != nil {
		return nil, err
	}
	plugins, err := pluginRows(p, dir)
	if err != nil {
		return nil, err
	}
	return append(texts, plugins...), nil
}

// blocks returns a configuration of about n bytes with many blocks.
func blocks(n int) []byte {
	var b bytes.Buffer
	b.WriteString("check \"short\" {\n  condition = length(try(result.text, \"\")) <= 1200\n}\n")
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "\nintent \"bench/i%d\" {\n  in       = \"req/any\"\n  out      = \"res/any\"\n  deadline = \"20s\"\n\n  done {\n    must      = [\"schema-valid\", \"short\"]\n    score_min = 0.5\n  }\n}\n", i)
	}
	return b.Bytes()
}

// expressions returns a configuration of about n bytes that consists mostly of expressions.
func expressions(n int) []byte {
	var b bytes.Buffer
	b.WriteString("locals {\n  a = \"x\"\n")
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "  l%d = upper(\"${local.a} and a few plain words, so that the tokens stay within their limit %d\")\n", i, i)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func textRows(p pace, dir string) ([]row, error) {
	noEnv := func(string) (string, bool) { return "", false }
	load := func(name string, text []byte, wrong bool) (func() error, error) {
		path := filepath.Join(dir, name)
		return func() error {
			_, ds := config.Load(context.Background(), path, config.Options{Env: noEnv})
			if ds.HasErrors() != wrong {
				return fmt.Errorf("%s: %d diagnostics", name, len(ds))
			}
			return nil
		}, os.WriteFile(path, text, 0o600)
	}
	small, large := blocks(64<<10), blocks(syntax.MaxFileBytes-1024)
	loadSmall, err := load("small.hcl", small, false)
	if err != nil {
		return nil, err
	}
	parse := func() error {
		if _, diags := hclsyntax.ParseConfig(small, "small.hcl", hcl.InitialPos); diags.HasErrors() {
			return diags
		}
		return nil
	}
	times, err := inTurn(3*p.rounds, loadSmall, parse)
	if err != nil {
		return nil, err
	}
	rows := []row{against("load of a 64 KiB file", times[0], "hclsyntax parse", times[1], 3)}

	times, err = inTurn(p.rounds, func() error {
		if f := view.Format("large.hcl", large); f.Diagnostics.HasErrors() {
			return errors.New("the file cannot be formatted")
		}
		return nil
	}, func() error { _ = hclwrite.Format(large); return nil })
	if err != nil {
		return nil, err
	}
	rows = append(rows, against("fmt of 512 KiB", times[0], "hclwrite", times[1], 3))

	for _, x := range []struct {
		name string
		text []byte
	}{{"blocks", large}, {"expressions", expressions(syntax.MaxFileBytes - 1024)}} {
		fn, err := load(x.name+".hcl", x.text, x.name == "blocks") // it has more intents than the limit
		if err != nil {
			return nil, err
		}
		times, err := inTurn(p.rounds, fn)
		if err != nil {
			return nil, err
		}
		rows = append(rows, within("load of 512 KiB of "+x.name, times[0], time.Second))
	}

	var slowest time.Duration
	var most uint64
	for i, piece := range []string{"[", "a {\n", "\"${", "!", "x = 1\n"} {
		fn, err := load(fmt.Sprintf("hostile%d.hcl", i), []byte(strings.Repeat(piece, 10<<20/len(piece))), true)
		if err != nil {
			return nil, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		times, err := inTurn(1, fn)
		if err != nil {
			return nil, err
		}
		runtime.ReadMemStats(&after)
		slowest, most = max(slowest, times[0]), max(most, after.TotalAlloc-before.TotalAlloc)
	}
	r := within("hostile file of 10 MiB", slowest, 100*time.Millisecond)
	r.ours += fmt.Sprintf(", %.1f MiB", float64(most)/(1<<20))
	r.goal, r.within = r.goal+", 32 MiB", r.within && most <= 32<<20
	return append(rows, r), nil
}

const pluginCount = 20

// manyPlugins returns a configuration with pluginCount plugins, all of which run this program.
func manyPlugins(self string, nodes int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ferment {\n  max_nodes = %d\n}\n\nhttp {\n  listen = []\n}\n", nodes)
	for i := range pluginCount {
		fmt.Fprintf(&b, "\nplugin \"p%d\" {\n  command = [%q, %q, \"one\"]\n}\n\ncapability \"bench/echo%d\" {\n  plugin   = \"p%d\"\n  provides = \"bench/echo\"\n}\n", i, self, rolePlugin, i, i)
	}
	return b.Bytes()
}

// pluginRows measures a configuration with many plugins: the command validate, and a load and a
// reload in a daemon that runs them.
func pluginRows(p pace, dir string) (rows []row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ferment.hcl")
	write := func(nodes int) error { return os.WriteFile(path, manyPlugins(self, nodes), 0o600) }
	if err := write(1000); err != nil {
		return nil, err
	}
	options := setup.Options{Config: path, Dir: dir, Version: "bench", Env: os.LookupEnv}
	if _, err := setup.Lock(context.Background(), options, setup.LockWish{}); err != nil {
		return nil, err
	}
	child := func(args ...string) func() error {
		return func() error {
			cmd := exec.Command(self, args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
			}
			return nil
		}
	}
	times, err := inTurn(p.rounds, child(roleCLI, "validate"), child(roleNone))
	if err != nil {
		return nil, err
	}
	r := against("validate of 20 plugins, whole process", times[0], "a process alone", times[1], 0)
	r.goal, r.within = "<= 200.0 ms", times[0] <= 200*time.Millisecond
	rows = append(rows, r)

	stop, there, err := serving(options, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ask := func(action string) error {
		_, err := there.Admin(context.Background(), edn.MustMap(edn.K("action"), edn.K(action)))
		return err
	}
	times, err = inTurn(p.rounds, func() error { return ask("config-diff") })
	if err != nil {
		return nil, err
	}
	rows = append(rows, within("load of 20 plugins from cache", times[0], 40*time.Millisecond))
	nodes := 1000
	times, err = inTurn(p.rounds, func() error {
		if nodes++; write(nodes) != nil {
			return errors.New("the configuration cannot be written")
		}
		return ask("config-reload")
	})
	if err != nil {
		return nil, err
	}
	return append(rows, within("reload of 20 plugins, none changes", times[0], 50*time.Millisecond)), nil
}

// serving starts a daemon and waits until it answers.
func serving(o setup.Options, dir string) (stop func() error, there *client.Client, err error) {
	signals, over := make(chan os.Signal, 1), make(chan error, 1)
	go func() { over <- daemon.Serve(daemon.Options{Options: o}, hclog.NewNullLogger(), signals) }()
	stop = func() error {
		signals <- syscall.SIGTERM
		return <-over
	}
	data := filepath.Join(dir, "var")
	for {
		there, err = client.Dial(context.Background(), filepath.Join(data, "run", "admin.sock"), daemon.AdminTokenFile(data))
		if err == nil {
			if ready, err := there.Ready(context.Background()); err == nil && ready.Key("ok?").Truthy() {
				return stop, there, nil
			}
		}
		select {
		case err := <-over:
			return nil, nil, fmt.Errorf("the daemon ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inTurn calls each function once per round, and returns the median time of each.
func inTurn(rounds int, fns ...func() error) ([]time.Duration, error) {
	all := make([][]time.Duration, len(fns))
	for range rounds {
		for i, fn := range fns {
			began := time.Now()
			if err := fn(); err != nil {
				return nil, err
			}
			all[i] = append(all[i], time.Since(began))
		}
	}
	out := make([]time.Duration, len(fns))
	for i := range all {
		out[i] = median(all[i])
	}
	return out, nil
}

// within returns a row that compares a median with a fixed goal instead of a peer.
func within(work string, ours, goal time.Duration) row {
	return row{work: work, ours: figure(ours), goal: "<= " + figure(goal), within: ours <= goal}
}
