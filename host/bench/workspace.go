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
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
)

// workspaces compares the workspace engine with git on one generated tree:
// 50,000 files in 2,500 directories, a tenth of it in a smoke run. git runs
// with its defaults and without the configuration of the user.
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
	b := &workspaceBench{root: filepath.Join(base, "tree"), data: filepath.Join(base, "data"), rounds: rounds}
	b.grow(dirs)
	rows := b.scans()
	rows = append(rows, b.ignored()...)
	return append(rows, b.writes()...), nil
}

type workspaceBench struct {
	root, data string
	rounds     int
	files      int
	known      *scan.Result
	store      *store.Store
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
	cmd := exec.Command("git", append([]string{"-C", b.root}, args...)...)
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

// options are those of a scan. Its clock is ahead: the files of the tree are
// older than the racy window, as those of a real workspace.
func (b *workspaceBench) options() scan.Options {
	return scan.Options{
		Root:     b.root,
		Scheme:   id.B3,
		Previous: b.known,
		Now:      func() time.Time { return time.Now().Add(time.Hour) },
	}
}

// cold scans into an empty store, with the durable commit.
func (b *workspaceBench) cold() time.Duration {
	if b.store != nil {
		check(b.store.Close())
	}
	check(os.RemoveAll(b.data))
	began := time.Now()
	check(store.Create(b.data, store.Identity{ID: "bench", Scheme: "b3"}))
	b.store = must(store.Open(context.Background(), b.data, store.Options{Now: func() int64 { return time.Now().UnixNano() }}))
	b.known = nil
	b.scan()
	return time.Since(began)
}

// scan scans and commits what changed.
func (b *workspaceBench) scan() time.Duration {
	began := time.Now()
	r := must(scan.Run(context.Background(), b.options()))
	if b.known == nil || r.Tree != b.known.Tree {
		must(b.store.Update(context.Background(), "bench", func(tx *store.Tx) error {
			_, err := tx.PutTree(r.Tree)
			return err
		}))
	}
	b.known = r
	return time.Since(began)
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
	size := fmt.Sprintf(" of %d files", b.files)
	return []row{
		against("cold scan and commit"+size, m[1], "git add -A", m[0], 0.30),
		against("warm scan"+size, m[3], "git status", m[2], 0.90),
		against("warm scan"+size, m[3], "walk with stat", m[4], 0),
		against("scan and commit after one change", m[5], "warm scan", m[3], 1.15),
	}
}

// ignored compares decisions about every file, with 200 patterns in 20 files.
func (b *workspaceBench) ignored() []row {
	r := rand.New(rand.NewPCG(2, 2))
	lists := map[string][]*ignore.List{}
	for i := range 20 {
		dir := ""
		if i > 0 {
			dir = fmt.Sprintf("area%02d", i%max(1, b.files/filesInDir/50))
		}
		var text strings.Builder
		for range 10 {
			text.WriteString([]string{"*.o", "/build", "**/gen/*.go", "file1[0-4].tmp", "!keep", "part*/x", "doc/**/y", "cache/", "a?c", "file99.go"}[r.IntN(10)] + "\n")
		}
		lists[dir] = []*ignore.List{ignore.Parse(dir+"/.gitignore", dir, []byte(text.String()))}
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
		e := ignore.NewExplainer(&ignore.Rules{}, func(dir string) []*ignore.List { return lists[dir] })
		for _, path := range paths {
			e.Explain(path, false)
		}
		ours = append(ours, time.Since(began))
	}
	return []row{against(fmt.Sprintf("ignore decisions about %d paths", len(paths)), median(ours), "git check-ignore", median(git), 1)}
}

// writes compares durable transactions of 2 KiB with an append and an fsync.
func (b *workspaceBench) writes() []row {
	const each = 40
	text := make([]byte, 2048)
	n := 0
	next := func() []byte {
		n++
		return append(fmt.Appendf(nil, "%d", n), text...)
	}
	put := func(content []byte) {
		must(b.store.Update(context.Background(), "bench", func(tx *store.Tx) error {
			_, err := tx.PutContent(content)
			return err
		}))
	}
	plain := must(os.Create(b.data + ".plain"))
	defer func() { _ = plain.Close() }()
	var bare, one, sixteen []time.Duration
	for range b.rounds {
		began := time.Now()
		for range each {
			must(plain.Write(next()))
			check(plain.Sync())
		}
		bare = append(bare, time.Since(began)/each)
		began = time.Now()
		for range each {
			put(next())
		}
		one = append(one, time.Since(began)/each)
		var texts [16 * each][]byte
		for i := range texts {
			texts[i] = next()
		}
		var writers sync.WaitGroup
		began = time.Now()
		for w := range 16 {
			writers.Go(func() {
				for i := range each {
					put(texts[w*each+i])
				}
			})
		}
		writers.Wait()
		sixteen = append(sixteen, time.Since(began)/(16*each))
	}
	check(b.store.Close())
	return []row{
		against("durable text of 2 KiB", median(one), "append and fsync", median(bare), 4),
		against("the same, 16 writers, per text", median(sixteen), "one writer", median(one), 0.25),
	}
}
