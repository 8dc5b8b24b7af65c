package main

import (
	"bufio"
	"bytes"
	_ "embed" // for the plan
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// fen is the position of the tour, from the middle of a game.
const fen = "r1bq1rk1/pp2bppp/2n1pn2/3p4/2PP4/2N2N2/PP2BPPP/R1BQ1RK1 w - - 0 9"

//go:embed plan.edn
var plan string

func main() {
	if err := tour(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

func tour(out, progress io.Writer) error {
	if _, err := os.Stat("bin/ferment"); err != nil {
		return fmt.Errorf("run it from the root of the repository after \"make build\": %w", err)
	}
	article, err := os.ReadFile("examples/tour/inputs/article.txt")
	if err != nil {
		return err
	}
	serves, err := plugins()
	if err != nil {
		return err
	}
	planFile, err := writePlan()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(planFile) }()
	began := time.Now()
	cmd := exec.Command("bin/ferment", "run", planFile, "--json", "--progress", "json",
		"--bind", "fen="+edn.Text(fen).String(),
		"--bind", "article="+edn.Text(string(article)).String())
	var answer bytes.Buffer
	cmd.Stdout = &answer
	events, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := &witness{serves: serves, pids: map[string]int{}, progress: progress, nodes: map[string]*account{}}
	if err := w.watch(events); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("ferment run: %w\n%s%s", err, strings.Join(w.other, "\n"), answer.String())
	}
	return report(out, answer.Bytes(), w, time.Since(began))
}

// writePlan writes the plan with the sudoku in its bindings to a temporary file and returns its
// path. The sudoku is too long for an argument. The caller must remove the file.
func writePlan() (string, error) {
	v, err := edn.ReadString(plan)
	if err != nil {
		return "", err
	}
	v = v.AssocKey("bindings", edn.MustMap(edn.K("sudoku"), edn.Text(formula(puzzle))))
	f, err := os.CreateTemp("", "tour-*.edn")
	if err != nil {
		return "", err
	}
	_, werr := f.Write(v.Canonical())
	return f.Name(), errors.Join(werr, f.Close())
}

// plugins runs ferment to list the capabilities and returns the plugin of each.
func plugins() (map[string]string, error) {
	cmd := exec.Command("bin/ferment", "plugin", "list", "--json")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ferment plugin list: %w", err)
	}
	var list struct {
		Plugins []struct {
			Plugin       string
			Capabilities []string
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("ferment plugin list: %w", err)
	}
	serves := map[string]string{}
	for _, p := range list.Plugins {
		for _, id := range p.Capabilities {
			serves[id] = p.Plugin
		}
	}
	return serves, nil
}

// event is one line of progress. Lines about plugins and lines about the run use different subsets
// of the keys.
type event struct {
	Event, Node, State, Plugin, To, Gate string
	Attempt, PID                         int
	CapID                                string  `json:"cap/id"`
	Latency                              float64 `json:"latency-ms"`
	Failure                              string  `json:"failure/type"`
	Intent                               string
	Pass                                 bool
}

// account holds what the progress reports about one node of the plan.
type account struct {
	node, asked, answered string
	asking                string // the candidate of the attempt under way
	gates, failed         []string
	took                  float64
}

// witness reads the progress of the run and kills the process of the chess engine once.
type witness struct {
	serves   map[string]string
	pids     map[string]int
	progress io.Writer
	nodes    map[string]*account
	order    []*account
	killed   string
	other    []string // what was printed besides the progress
}

func (w *witness) watch(lines io.Reader) error {
	scan := bufio.NewScanner(lines)
	scan.Buffer(make([]byte, 64<<10), 16<<20)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil || e.Event == "" {
			w.other = append(w.other, scan.Text())
			continue
		}
		if err := w.see(e); err != nil {
			return err
		}
	}
	return scan.Err()
}

func (w *witness) see(e event) error {
	if e.Event == "plugin" {
		if e.PID > 0 {
			w.pids[e.Plugin] = e.PID
		}
		if e.To == "backoff" {
			w.say("plugin %s is gone; its successor is on the way", e.Plugin)
		}
		return nil
	}
	if e.Node == "" {
		return nil
	}
	n := w.nodes[e.Node]
	if n == nil {
		n = &account{node: e.Node}
		w.nodes[e.Node] = n
		w.order = append(w.order, n)
	}
	switch e.Event {
	case "resolved":
		n.asked = e.Intent
	case "attempt":
		return w.attempt(n, e)
	case "gate":
		verdict := " ok"
		if !e.Pass {
			verdict = " FAILED"
		}
		n.gates = append(n.gates, e.Gate+verdict)
	case "commit":
		n.answered = e.CapID
		if e.CapID != "" {
			w.say("%s: accepted from %s", e.Node, e.CapID)
		}
	case "failed":
		w.say("%s: failed (%s)", e.Node, e.Failure)
	}
	return nil
}

func (w *witness) attempt(n *account, e event) error {
	if e.State == "started" {
		n.asking, n.gates = e.CapID, nil
		w.say("%s: asking %s", e.Node, e.CapID)
		if e.Node == "position" && w.killed == "" {
			return w.kill(e.CapID)
		}
		return nil
	}
	n.took += e.Latency
	if e.Failure != "" {
		n.failed = append(n.failed, fmt.Sprintf("%s after %.0f ms (%s)", n.asking, e.Latency, e.Failure))
		w.say("%s: %s failed (%s)", e.Node, n.asking, e.Failure)
	}
	return nil
}

// thinking is the time that the engine gets before it is killed.
const thinking = 300 * time.Millisecond

// kill sends SIGKILL to the process that serves a capability, after the time thinking. It returns
// an error if no process is known.
func (w *witness) kill(capability string) error {
	name := w.serves[capability]
	pid := w.pids[name]
	if pid == 0 {
		return fmt.Errorf("no process is known for %s", capability)
	}
	time.Sleep(thinking)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill plugin %s (%d): %w", name, pid, err)
	}
	w.killed = name
	w.say("killed plugin %s (process %d) with SIGKILL while it thinks", name, pid)
	return nil
}

func (w *witness) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.progress, "  "+format+"\n", args...)
}

// report prints the answers and how they were obtained. It returns an error if they are not what
// doc.go promises.
func report(out io.Writer, answer []byte, w *witness, took time.Duration) error {
	var response struct {
		Result struct {
			Out struct {
				Text  string
				Model []int
			}
		}
	}
	if err := json.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	grid, err := solved(response.Result.Out.Model)
	if err != nil {
		return fmt.Errorf("the sudoku is not solved: %w", err)
	}
	position := w.nodes["position"]
	if w.killed == "" || position == nil || len(position.failed) == 0 || position.answered == "" {
		return errors.New("the engine was to be killed and another to answer, and that is not what happened")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWhat came out\n\n%s\n%s\nHow it came about\n\n", response.Result.Out.Text, draw(grid))
	for _, n := range w.order {
		if n.answered == "" {
			continue
		}
		fmt.Fprintf(&b, "%-9s asked :%s, answered by %s in %.0f ms\n", n.node, n.asked, n.answered, n.took)
		if len(n.gates) > 0 {
			fmt.Fprintf(&b, "          gates: %s\n", strings.Join(n.gates, ", "))
		}
		for _, f := range n.failed {
			fmt.Fprintf(&b, "          failed over: %s\n", f)
		}
	}
	fmt.Fprintf(&b, "\nThe whole tour took %.1f s. The plan is %s.\n", took.Seconds(), filepath.Join("examples", "tour", "plan.edn"))
	_, err = io.WriteString(out, b.String())
	return err
}
