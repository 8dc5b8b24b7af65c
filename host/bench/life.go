package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs is the directory into which `make build` writes the programs.
const programs = "../../bin"

// daemonSite is a directory with a configuration that uses the built programs.
type daemonSite struct {
	dir, ferment string
	env          []string
}

func newDaemonSite(config string) (*daemonSite, error) {
	bin, err := filepath.Abs(programs)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(bin, "ferment")); err != nil {
		return nil, fmt.Errorf("the programs are not built, which `make bench` does: %w", err)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	s := &daemonSite{dir: dir, ferment: filepath.Join(bin, "ferment"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "rt"),
	}}
	return s, s.write(strings.ReplaceAll(config, "BIN", bin))
}

func (s *daemonSite) write(config string) error {
	path := filepath.Join(s.dir, "ferment.hcl")
	if err := os.WriteFile(path+".new", []byte(config), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *daemonSite) close() { _ = os.RemoveAll(s.dir) }

// logged holds the fields of a log line of the daemon that this program reads.
type logged struct {
	Message string `json:"@message"`
	Time    string `json:"@timestamp"`
	Plugin  string `json:"plugin"`
	To      string `json:"to"`
	// Listen holds the addresses in the log line of a daemon that has become ready.
	Listen []string `json:"listen"`
}

func (l logged) at() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, l.Time)
	return at
}

// running is a daemon process.
type running struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  bytes.Buffer
	seen  []logged
}

// serve starts a daemon, waits until it is ready, and returns the time until then.
func (s *daemonSite) serve() (r *running, took time.Duration, err error) {
	r = &running{cmd: exec.Command(s.ferment, "serve")}
	r.cmd.Dir, r.cmd.Env = s.dir, s.env
	errs, err := r.cmd.StderrPipe()
	if err != nil {
		return nil, 0, err
	}
	r.lines = bufio.NewScanner(io.TeeReader(errs, &r.said))
	r.lines.Buffer(nil, 1<<20)
	began := time.Now()
	if err := r.cmd.Start(); err != nil {
		return nil, 0, err
	}
	if err := r.until("ready"); err != nil {
		return nil, 0, err
	}
	return r, time.Since(began), nil
}

// until reads the log up to and including a message.
func (r *running) until(message string) error {
	for r.lines.Scan() {
		var l logged
		if json.Unmarshal(r.lines.Bytes(), &l) != nil {
			continue
		}
		r.seen = append(r.seen, l)
		if l.Message == message {
			return nil
		}
	}
	_ = r.cmd.Wait()
	return fmt.Errorf("the daemon ended before it said %q:\n%s", message, r.said.String())
}

// slowest returns the longest start of a plugin, from the state starting to ready.
func (r *running) slowest() time.Duration {
	begun := map[string]time.Time{}
	longest := time.Duration(0)
	for _, l := range r.seen {
		switch l.To {
		case "starting":
			begun[l.Plugin] = l.at()
		case "ready":
			longest = max(longest, l.at().Sub(begun[l.Plugin]))
		}
	}
	return longest
}

// stop stops the daemon with SIGTERM, as a service manager does, and returns the time until it has
// exited.
func (r *running) stop() (time.Duration, error) {
	began := time.Now()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	for r.lines.Scan() { //nolint:revive // to its end
	}
	err := r.cmd.Wait()
	return time.Since(began), err
}

// resident returns the resident memory of the daemon, in bytes.
func (r *running) resident() (int64, error) { return residentOf(r.cmd.Process.Pid) }

func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the kernel does not report the resident memory of the process")
}

const threePlugins = `ferment {
  profile       = "test"
  drain_timeout = "5s"
}

plugin "text" {
  command = ["BIN/plugins/text"]
}

plugin "chess" {
  command = ["BIN/plugins/chess"]
}

plugin "sat" {
  command = ["BIN/plugins/sat"]
}
`

// life measures a daemon process: the start with three plugins, a reload that changes no plugin, an
// idle shutdown, and the memory without plugins.
func life(p pace) ([]row, error) {
	s, err := newDaemonSite(threePlugins)
	if err != nil {
		return nil, err
	}
	defer s.close()
	text, err := os.ReadFile(filepath.Join(s.dir, "ferment.hcl"))
	if err != nil {
		return nil, err
	}
	var starts, own, reloads, ends []time.Duration
	for round := range p.rounds + 1 {
		r, took, err := s.serve()
		if err != nil {
			return nil, err
		}
		for i := range 5 {
			if err := s.write(strings.Replace(string(text), `"5s"`, fmt.Sprintf(`"%ds"`, 6+(round*5+i)%50), 1)); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				return nil, err
			}
			if err := r.until("config/reloaded"); err != nil {
				return nil, err
			}
			reloads = append(reloads, time.Since(began))
		}
		end, err := r.stop()
		if err != nil {
			return nil, fmt.Errorf("the daemon ended with %w:\n%s", err, r.said.String())
		}
		if round > 0 { // the first start describes every plugin
			starts, own, ends = append(starts, took), append(own, r.slowest()), append(ends, end)
		}
	}
	start, slow := median(starts), median(own)
	rows := []row{
		{
			work: "start to ready, 3 plugins", ours: figure(start), peer: "slowest plugin " + figure(slow), ratio: float64(start) / float64(slow),
			goal: "1.5 + 100 ms", within: start <= slow*3/2+100*time.Millisecond,
		},
		atMost("reload, no plugin changed", median(reloads), 50*time.Millisecond),
		atMost("drain when idle", median(ends), 200*time.Millisecond),
	}
	if err := s.write("ferment {\n  profile = \"test\"\n}\n"); err != nil {
		return nil, err
	}
	r, _, err := s.serve()
	if err != nil {
		return nil, err
	}
	resident, err := r.resident()
	if _, stopErr := r.stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return nil, err
	}
	const most = 60 << 20
	rows = append(rows, row{work: "memory of an idle daemon", ours: fmt.Sprintf("%.1f MiB", float64(resident)/(1<<20)), goal: "<= 60 MiB", within: resident <= most})
	return rows, nil
}

func atMost(work string, took, most time.Duration) row {
	goal := fmt.Sprintf("<= %d ms", most.Milliseconds())
	if most < time.Millisecond {
		goal = fmt.Sprintf("<= %d us", most.Microseconds())
	}
	return row{work: work, ours: figure(took), goal: goal, within: took <= most}
}
