package coretest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a git repository of a test.
type Repo struct {
	t   testing.TB
	Dir string
}

// NeedGit fails the test if git is not installed.
func NeedGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is not installed; the tests compare with it")
	}
}

// Init makes the directory a repository. format is sha1 or sha256.
func Init(t testing.TB, dir, format string) *Repo {
	t.Helper()
	r := At(t, dir)
	r.Run("init", "-q", "-b", "main", "--object-format="+format)
	return r
}

// At returns the repository in a directory.
func At(t testing.TB, dir string) *Repo { return &Repo{t: t, Dir: dir} }

// Environ is the environment of git: that of the test without git's own
// variables and without configuration.
func Environ() []string {
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_AUTHOR_DATE=2020-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_COMMITTER_DATE=2020-01-01T00:00:00Z",
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "XDG_CONFIG_HOME=") {
			env = append(env, v)
		}
	}
	return append(env, "XDG_CONFIG_HOME=/nonexistent")
}

// Command returns a git command that runs in the repository.
func (r *Repo) Command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append([]string{"-c", "advice.addEmbeddedRepo=false", "-C", r.Dir}, args...)...)
	cmd.Env = Environ()
	return cmd
}

// Run runs git and returns its standard output. It fails the test if git fails.
func (r *Repo) Run(args ...string) string { return r.Feed("", args...) }

// Feed is Run with standard input.
func (r *Repo) Feed(stdin string, args ...string) string {
	r.t.Helper()
	cmd := r.Command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && (len(args) == 0 || args[0] != "check-ignore" || cmd.ProcessState.ExitCode() != 1) {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// WriteTree adds everything to an empty index and returns the id of the tree,
// and mode and id of each entry by path.
func (r *Repo) WriteTree() (root string, entries map[string][2]string) {
	r.t.Helper()
	_ = os.Remove(r.Dir + "/.git/index")
	r.Run("add", "-A")
	root = strings.TrimSpace(r.Run("write-tree"))
	entries = map[string][2]string{}
	for line := range strings.SplitSeq(r.Run("ls-tree", "-r", "-t", "-z", root), "\x00") {
		if meta, path, ok := strings.Cut(line, "\t"); ok {
			fields := strings.Fields(meta)
			entries[path] = [2]string{fields[0], fields[2]}
		}
	}
	return root, entries
}

// Empty removes everything but the repository from a directory.
func Empty(t testing.TB, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == ".git" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// Decision is the pattern that decides whether a path is ignored, as git
// check-ignore prints it. It is empty if no pattern matches.
type Decision struct{ Source, Line, Pattern string }

// Explain returns the decision of git for each path. Paths must not begin with
// a slash.
func (r *Repo) Explain(paths []string) map[string]Decision {
	r.t.Helper()
	// The dot prevents git from parsing a leading colon as pathspec magic.
	out := r.Feed("./"+strings.Join(paths, "\x00./")+"\x00", "check-ignore", "-v", "-n", "-z", "--no-index", "--stdin")
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	decided := map[string]Decision{}
	for ; len(fields) >= 4; fields = fields[4:] {
		decided[strings.TrimPrefix(fields[3], "./")] = Decision{fields[0], fields[1], fields[2]}
	}
	return decided
}
