package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

// minimal is the source of a program that prints one byte and exits.
const minimal = `package main

import "os"

func main() { _, _ = os.Stdout.Write([]byte{'.'}) }
`

// buildMinimal compiles minimal and returns the path of the program.
func buildMinimal(dir string) (string, error) {
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "minimal")
	if err := os.WriteFile(source, []byte(minimal), 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the minimal program: %w\n%s", err, out)
	}
	return program, nil
}

const effectsConfig = `ferment {
  profile  = "test"
  data_dir = "var"
}

plugin "tools" {
  command = [%q]
}

effects {
  scope "fs/write" {
    enabled = true
    roots   = ["out"]
    allow   = ["."]
  }
}
`

// effects compares a file write by a plan, in a worker process that the kernel confines, with the
// minimum that such a call needs: starting a program, and replacing a file durably.
func effects(p pace) ([]row, error) {
	tools, err := filepath.Abs(filepath.Join(programs, "plugins", "tools"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "out")
	path := filepath.Join(dir, "ferment.hcl")
	if err := errors.Join(os.Mkdir(out, 0o700), os.WriteFile(path, fmt.Appendf(nil, effectsConfig, tools), 0o600)); err != nil {
		return nil, err
	}
	program, err := buildMinimal(dir)
	if err != nil {
		return nil, err
	}
	host, err := daemon.Start(context.Background(), daemon.Options{Options: setup.Options{Config: path, Dir: dir, Version: "bench", Env: os.LookupEnv}})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	request := edn.MustRead(`{:proto 1 :trace {:id "bench"} :task {:intent :plan/run} :effects {:allowed #{:fs/write}}
 :input {:plan {:nodes [{:op :tool :tool/id :fs/write :input {:path "ours" :content "a short text"} :effects {:allowed #{:fs/write}} :as :saved}
                        {:op :emit :input {:bytes {:slot/path [:saved :bytes]}}}]}}}`)
	write := func() error {
		if _, failure := host.Service().Do(context.Background(), act.Act{Request: request, Roles: []string{"admin"}}); failure != nil {
			return failure
		}
		return nil
	}
	peer := func() error { return least(program, filepath.Join(out, "theirs")) }
	var rows []row
	// After each call the next worker is started in advance. Calls in immediate succession wait for
	// it; calls with a pause between them do not.
	for _, spacing := range []struct {
		name  string
		pause time.Duration
		goal  float64
	}{{"fs/write in a worker, p50", 25 * time.Millisecond, 1.5}, {"fs/write, one behind the other, p50", 0, 0}} {
		ours, theirs, err := spaced(p, spacing.pause, write, peer)
		if err != nil {
			return nil, err
		}
		rows = append(rows, against(spacing.name, ours, "exec + replace", theirs, spacing.goal))
	}
	return rows, nil
}

// spaced calls ours and theirs a few times each in alternating rounds, with a pause before each
// call, and returns the median times.
func spaced(p pace, pause time.Duration, ours, theirs func() error) (our, their time.Duration, err error) {
	sides := [2]struct {
		do   func() error
		took []time.Duration
	}{{do: ours}, {do: theirs}}
	for round := range p.rounds + 1 {
		for i := range sides {
			for range max(3, p.calls/200) {
				time.Sleep(pause)
				began := time.Now()
				if err := sides[i].do(); err != nil {
					return 0, 0, err
				}
				if round > 0 { // the first round warms up
					sides[i].took = append(sides[i].took, time.Since(began))
				}
			}
		}
	}
	return median(sides[0].took), median(sides[1].took), nil
}

// least does the minimum that every implementation needs: it starts the program, replaces a file
// and waits for the exit.
func least(program, path string) error {
	cmd := exec.Command(program)
	cmd.Env = []string{}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.ReadFull(said, make([]byte, 1)); err != nil {
		return err
	}
	if err := replace(path); err != nil {
		return err
	}
	return cmd.Wait()
}

// replace durably replaces the file at path.
func replace(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new")
	if err != nil {
		return err
	}
	_, err = f.WriteString("a short text")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
