package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
)

// workspaces compares the workspace engine and the plugin with git on generated
// trees: 50,000 files in 2,500 directories, a tenth of it, and as many files along a
// chain of 40 directories; all are a tenth in a smoke run. git runs with its defaults
// and without the configuration of the user.
func workspaces(p pace) ([]row, error) {
	dirs, rounds := 2500, 5
	if p.rounds < 5 {
		dirs, rounds = 250, 2
	}
	base, err := os.MkdirTemp("", "workspace")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(base) }()
	var rows []row
	// The effort after a change must not grow with the tree: the first one is small.
	for _, t := range []shape{{"small", dirs / 10, wide, 7}, {"wide", dirs, wide, 7}, {"deep", dirs, deep, depthOfChain - 1}} {
		b := &workspaceBench{shape: t, root: filepath.Join(base, t.name), data: filepath.Join(base, t.name+".data"), rounds: rounds, small: t.dirs < 2500}
		b.grow()
		rows = append(rows, b.scans()...)
		switch t.name {
		case "small":
			rows = append(rows, b.watched()...)
		case "wide":
			rows = append(rows, b.watched()...)
			rows = append(rows, b.memory()...)
			rows = append(rows, b.ignored()...)
			rows = append(rows, b.reads()...)
			rows = append(rows, b.writes()...)
			rows = append(rows, b.validated())
			rows = append(rows, b.derived()...)
			rows = append(rows, b.crowded(), b.commanded())
			rows = append(rows, b.called()...)
		case "deep":
			rows = append(rows, b.derived()...)
		}
		check(b.workspace.Close())
		check(os.RemoveAll(b.root))
	}
	return rows, nil
}

// shape is where the files of a tree lie.
type shape struct {
	name    string
	dirs    int
	path    func(dir int) string
	changes int // directory with the file that changes
}

func wide(dir int) string { return fmt.Sprintf("area%02d/part%02d", dir/50, dir%50) }

// depthOfChain is the number of directories in the chain of a deep tree.
const depthOfChain = 40

// deep returns the directories of a chain, and then directories in each of them.
func deep(dir int) string {
	path := strings.Repeat("deeper/", dir%depthOfChain+1)
	if dir < depthOfChain {
		return strings.TrimSuffix(path, "/")
	}
	return path + fmt.Sprintf("part%02d", dir/depthOfChain)
}

type workspaceBench struct {
	shape
	root, data string
	rounds     int
	files      int
	small      bool // no goals hold
	coldScan   time.Duration
	workspace  *core.Workspace
}

const filesInDir = 20

// filePath returns the path of a file of the tree.
func (b *workspaceBench) filePath(n int) string {
	n %= b.files
	return b.path(n/filesInDir) + fmt.Sprintf("/file%02d.go", n%filesInDir)
}

// changed is the path of the file that changes.
func (b *workspaceBench) changed() string { return b.path(b.changes) + "/file03.go" }

// depth is the number of directories above the file that changes, without the root.
func (b *workspaceBench) depth() int { return strings.Count(b.changed(), "/") }

// size names the tree in the table.
func (b *workspaceBench) size() string {
	if b.name == "deep" {
		return fmt.Sprintf("%d files, %d deep", b.files, depthOfChain)
	}
	return fmt.Sprintf("%d files", b.files)
}

// grow writes the tree, about 2 KiB of text per file.
func (b *workspaceBench) grow() {
	r := rand.New(rand.NewPCG(1, 1))
	b.files = b.dirs * filesInDir
	for d := range b.dirs {
		dir := filepath.Join(b.root, b.path(d))
		check(os.MkdirAll(dir, 0o755))
		for f := range filesInDir {
			text := make([]byte, r.IntN(4096))
			for i := range text {
				text[i] = byte(' ' + r.IntN(95))
			}
			check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%02d.go", f)), text, 0o644))
		}
	}
}

func (b *workspaceBench) git(stdin string, args ...string) time.Duration {
	// Without the upkeep of git behind a commit, which moves objects while they are read.
	cmd := exec.Command("git", append([]string{"-C", b.root, "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && args[0] == "check-ignore" {
		err = nil // none of the paths is ignored
	}
	if err != nil {
		panic(fmt.Sprintf("git %s: %v\n%s", args, err, out.String()))
	}
	return took
}

// ahead is a clock for scans: the files of the tree are older than the racy
// window, as those of a real workspace.
func ahead() time.Time { return time.Now().Add(time.Hour) }

// openWorkspace opens the workspace of a directory, with all that is durable.
func openWorkspace(root, data string) *core.Workspace {
	return must(core.Open(context.Background(), root, core.Options{
		Allowed: []string{root},
		DataDir: data,
		NewID:   func() string { return "bench" },
		Store:   store.Options{Now: func() int64 { return time.Now().UnixNano() }},
	}))
}

// cold scans into an empty store, with the durable commit.
func (b *workspaceBench) cold() time.Duration {
	if b.workspace != nil {
		check(b.workspace.Close())
	}
	check(os.RemoveAll(b.data))
	began := time.Now()
	b.workspace = openWorkspace(b.root, b.data)
	b.scan()
	return time.Since(began)
}

// scan scans and commits what changed.
func (b *workspaceBench) scan() time.Duration {
	began := time.Now()
	must(b.workspace.Scan(context.Background(), scan.Options{Now: ahead}))
	return time.Since(began)
}

// goal returns a goal, which holds for the large tree only: in a small one the
// start of a process and an fsync outweigh the files.
func (b *workspaceBench) goal(ratio float64) float64 {
	if b.small {
		return 0
	}
	return ratio
}

// walk is the least that a scan can do: the system's word on every file.
func (b *workspaceBench) walk() time.Duration {
	began := time.Now()
	check(filepath.WalkDir(b.root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil {
			_, err = d.Info()
		}
		return err
	}))
	return time.Since(began)
}

func (b *workspaceBench) changeOne(round int) {
	check(os.WriteFile(filepath.Join(b.root, b.changed()), fmt.Appendf(nil, "change %d\n", round), 0o644))
}

func (b *workspaceBench) scans() []row {
	var times [6][]time.Duration
	for round := range b.rounds + 1 { // the first warms up
		check(os.RemoveAll(filepath.Join(b.root, ".git")))
		b.git("", "init", "-q")
		took := [6]time.Duration{
			b.git("", "add", "-A"), b.cold(),
			b.git("", "status", "--porcelain"), b.scan(), b.walk(),
		}
		b.changeOne(round)
		took[5] = b.scan()
		if round > 0 {
			for i, d := range took {
				times[i] = append(times[i], d)
			}
		}
	}
	var m [6]time.Duration
	for i := range times {
		m[i] = median(times[i])
	}
	b.coldScan = m[1]
	size := " of " + b.size()
	return []row{
		against("cold scan and commit"+size, m[1], "git add -A", m[0], b.goal(0.30)).of("WS-241", 0.20),
		against("warm scan"+size, m[3], "git status", m[2], b.goal(0.90)).of("WS-242", 0.65),
		against("warm scan"+size, m[3], "walk with stat", m[4], b.goal(1.6)),
		against("scan and commit after one change"+size, m[5], "warm scan", m[3], b.goal(1.15)).of("WS-244", 1.05),
	}
}

// ignored compares decisions about every file, with 200 patterns in 20 files.
func (b *workspaceBench) ignored() []row {
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 20 {
		dir := ""
		if i > 0 {
			dir = fmt.Sprintf("area%02d", i%max(1, b.dirs/50))
		}
		var text strings.Builder
		for range 10 {
			text.WriteString([]string{"*.o", "/build", "**/gen/*.go", "file1[0-4].tmp", "!keep", "part*/x", "doc/**/y", "cache/", "a?c", "file99.go"}[r.IntN(10)] + "\n")
		}
		check(os.WriteFile(filepath.Join(b.root, dir, ".gitignore"), []byte(text.String()), 0o644))
	}
	var paths []string
	check(filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, b.root+"/"))
		}
		return err
	}))
	input := strings.Join(paths, "\n")
	var git, ours []time.Duration
	for round := range b.rounds + 1 { // the first warms up
		theirs := b.git(input, "check-ignore", "--no-index", "--stdin")
		began := time.Now()
		e := ignore.NewExplainer(&ignore.Rules{}, func(dir string) []*ignore.List {
			text, err := os.ReadFile(filepath.Join(b.root, dir, ".gitignore"))
			if err != nil {
				return nil
			}
			return []*ignore.List{ignore.Parse(dir+"/.gitignore", dir, text)}
		})
		for _, path := range paths {
			e.Explain(path, false)
		}
		if took := time.Since(began); round > 0 {
			git, ours = append(git, theirs), append(ours, took)
		}
	}
	return []row{against(fmt.Sprintf("ignore decisions about %d paths", len(paths)), median(ours), "git check-ignore", median(git), 1).of("WS-251", 0.5)}
}
