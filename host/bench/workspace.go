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

// workspaces compares the workspace engine with git on one generated tree:
// 50,000 files in 2,500 directories, and a tenth of it; both are a tenth in a
// smoke run. git runs with its defaults and without the configuration of the
// user.
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
	for i, size := range []int{dirs / 10, dirs} { // the effort after a change must not grow with the tree
		b := &workspaceBench{root: filepath.Join(base, fmt.Sprint("tree", i)), data: filepath.Join(base, fmt.Sprint("data", i)), rounds: rounds, small: size < dirs}
		b.grow(size)
		rows = append(rows, b.scans()...)
		rows = append(rows, b.watched()...)
		if size == dirs {
			rows = append(rows, b.memory()...)
			rows = append(rows, b.ignored()...)
			rows = append(rows, b.reads()...)
			rows = append(rows, b.writes()...)
			rows = append(rows, b.validated(), b.commanded())
			rows = append(rows, b.derived()...)
			rows = append(rows, b.crowded())
		}
		check(b.workspace.Close())
		check(os.RemoveAll(b.root))
	}
	return rows, nil
}

type workspaceBench struct {
	root, data string
	rounds     int
	files      int
	small      bool // no goals hold
	coldScan   time.Duration
	workspace  *core.Workspace
}

const filesInDir = 20

// grow writes the tree, about 2 KiB of text per file.
func (b *workspaceBench) grow(dirs int) {
	r := rand.New(rand.NewPCG(1, 1))
	for d := range dirs {
		dir := filepath.Join(b.root, fmt.Sprintf("area%02d", d/50), fmt.Sprintf("part%02d", d%50))
		check(os.MkdirAll(dir, 0o755))
		for f := range filesInDir {
			text := make([]byte, r.IntN(4096))
			for i := range text {
				text[i] = byte(' ' + r.IntN(95))
			}
			check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%02d.go", f)), text, 0o644))
			b.files++
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
	check(os.WriteFile(filepath.Join(b.root, "area00", "part07", "file03.go"), fmt.Appendf(nil, "change %d\n", round), 0o644))
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
	size := fmt.Sprintf(" of %d files", b.files)
	return []row{
		against("cold scan and commit"+size, m[1], "git add -A", m[0], b.goal(0.30)),
		against("warm scan"+size, m[3], "git status", m[2], b.goal(0.90)),
		against("warm scan"+size, m[3], "walk with stat", m[4], 0),
		against("scan and commit after one change"+size, m[5], "warm scan", m[3], b.goal(1.15)),
	}
}

// ignored compares decisions about every file, with 200 patterns in 20 files.
func (b *workspaceBench) ignored() []row {
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 20 {
		dir := ""
		if i > 0 {
			dir = fmt.Sprintf("area%02d", i%max(1, b.files/filesInDir/50))
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
	for range b.rounds {
		git = append(git, b.git(input, "check-ignore", "--no-index", "--stdin"))
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
		ours = append(ours, time.Since(began))
	}
	return []row{against(fmt.Sprintf("ignore decisions about %d paths", len(paths)), median(ours), "git check-ignore", median(git), 1)}
}
