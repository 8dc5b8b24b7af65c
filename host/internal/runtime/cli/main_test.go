package cli_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The tests of this package run the program as users do: the host and the
// shipped plugins are built once per test process, and all results come from
// real processes.

var update = flag.Bool("update", false, "write the golden files")

// built is the location of the programs under test. Every process of a test
// runs an executable below it, which identifies leftover processes.
var built struct {
	module  string // the repository
	root    string // everything below is removed at the end
	ferment string
	plugins string
	helper  string // the test binary in another role
	home    string // of the hosts: descriptions of plugins are cached there
}

func TestMain(m *testing.M) {
	if role(os.Args) {
		return
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	root, err := os.MkdirTemp("", "fer-cli-")
	if err != nil {
		return complain("make a directory", err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return complain("resolve the directory", err)
	}
	built.root, built.home = root, filepath.Join(root, "home")
	built.ferment, built.plugins = filepath.Join(root, "bin", "ferment"), filepath.Join(root, "bin", "plugins")
	for _, dir := range []string{built.home, filepath.Join(root, "rt"), built.plugins} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return complain("make a directory", err)
		}
	}
	if err := build(); err != nil {
		return complain("build the programs", err)
	}
	built.helper = filepath.Join(root, "bin", "helper")
	self, err := os.Executable()
	if err == nil {
		err = duplicate(self, built.helper)
	}
	if err != nil {
		return complain("copy the test binary", err)
	}
	code := m.Run()
	// No test may leave a process behind.
	if left := awaitNone(built.root, endLimit); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left by the tests:", describe(left))
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		code = max(code, 1)
	}
	return code
}

func complain(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}

// build builds the programs, or uses those that "make test" has just built.
// Under the race detector the host has it too: a race exits it with a code
// that no test expects.
func build() error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	built.module = strings.TrimSpace(string(module))
	if dir := os.Getenv("FERMENT_BIN"); dir != "" && !raceDetector {
		return take(dir)
	}
	goBuild := func(args ...string) error {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false"}, args...)...)
		cmd.Dir = built.module
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	// As shipped: without debug information, which takes long to link.
	host := []string{"-ldflags", "-s -w -X main.version=test", "-o", built.ferment, "./host/ferment"}
	if raceDetector {
		host = append([]string{"-race"}, host...)
	}
	if err := goBuild(host...); err != nil {
		return err
	}
	return goBuild("-ldflags", "-s -w", "-o", built.plugins+string(filepath.Separator), "./plugins/...")
}

// take copies the host and the plugins of dir to the place where tests start
// them.
func take(dir string) error {
	if err := duplicate(filepath.Join(dir, "ferment"), built.ferment); err != nil {
		return err
	}
	plugins, err := os.ReadDir(filepath.Join(dir, "plugins"))
	for _, p := range plugins {
		if err == nil {
			err = duplicate(filepath.Join(dir, "plugins", p.Name()), filepath.Join(built.plugins, p.Name()))
		}
	}
	return err
}

// duplicate makes a program available at another path.
func duplicate(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o700)
}

func tail(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
