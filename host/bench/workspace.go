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

// workspaces compares the workspace engine and the plugin with git on generated trees: a wide one
// of 50,000 files in 2,500 directories, a small one with a tenth of them, and a deep one with as
// many files as the wide one along a chain of 40 directories. In a smoke run each has a tenth of
// its files. git runs with its defaults, without the configuration of the user.
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
	// The small tree comes first: the cost of a change must not grow with the tree.
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

// shape determines the directories of a tree.
type shape struct {
	name    string
	dirs    int
	path    func(dir int) string
	changes int // number of the directory in which a file changes
}

func wide(dir int) string { return fmt.Sprintf("area%02d/part%02d", dir/50, dir%50) }

// depthOfChain is the number of directories in the chain of a deep tree.
const depthOfChain = 40

// deep returns the path of a directory: the first depthOfChain form a chain, the others are spread
// over its directories.
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
	small      bool // the tree is too small for goals
	coldScan   time.Duration
	workspace  *core.Workspace
}

const filesInDir = 20

// filePath returns the path of the n-th file of the tree.
func (b *workspaceBench) filePath(n int) string {
	n %= b.files
	return b.path(n/filesInDir) + fmt.Sprintf("/file%02d.go", n%filesInDir)
}

// changed returns the path of the file that the benchmarks change.
func (b *workspaceBench) changed() string { return b.path(b.changes) + "/file03.go" }

// depth returns the number of directories above that file, without the root.
func (b *workspaceBench) depth() int { return strings.Count(b.changed(), "/") }

// size returns the description of the tree in the table.
func (b *workspaceBench) size() string {
	if b.name == "deep" {
		return fmt.Sprintf("%d files, %d deep", b.files, depthOfChain)
	}
	return fmt.Sprintf("%d files", b.files)
}

// grow writes the tree, with about 2 KiB of text per file.
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
	// The automatic maintenance of git would move objects while they are read.
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

// ahead is a scan clock one hour ahead, so that no file is within the racy window, as in a real
// workspace.
func ahead() time.Time { return time.Now().Add(time.Hour) }

// openWorkspace opens the workspace of a directory with a durable store.
func openWorkspace(root, data string) *core.Workspace {
	return must(core.Open(context.Background(), root, core.Options{
		Allowed: []string{root},
		DataDir: data,
		NewID:   func() string { return "bench" },
		Store:   store.Options{Now: func() int64 { return time.Now().UnixNano() }},
	}))
}

// cold returns the time of a scan into an empty store, including the durable commit.
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

// scan scans, commits what changed, and returns the time for both.
func (b *workspaceBench) scan() time.Duration {
	began := time.Now()
	must(b.workspace.Scan(context.Background(), scan.Options{Now: ahead}))
	return time.Since(began)
}

// goal returns ratio for the large tree and 0 for a small one, in which process starts and fsync
// take more time than the files.
func (b *workspaceBench) goal(ratio float64) float64 {
	if b.small {
		return 0
	}
	return ratio
}

// walk returns the time of the minimum that a scan needs: one stat per file.
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
	for round := range b.rounds + 1 { // the first round warms up
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

// ignored compares ignore decisions for every file with git, with 200 patterns in 20 files.
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
	for round := range b.rounds + 1 { // the first round warms up
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
