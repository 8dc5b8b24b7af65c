// Command release makes the packages of a version:
//
//	go run ./.ci/release [-out dist] [-version V]
//
// For the architecture of this machine it writes a tar archive that runs where it is unpacked, a Debian
// package and a list of the modules in the programs (SPDX), and for all of them
// SHA256SUMS. Both packages have the programs, the lock file that approves them, a
// configuration of profile prod, a systemd unit, manual pages, completions and documents.
//
// The result depends only on the source, the version and the Go toolchain: programs are
// built without paths, and all times are that of the commit, or SOURCE_DATE_EPOCH.
//
// It runs from the root of the repository.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	r := release{}
	out := flag.String("out", "dist", "directory of the packages, which is replaced")
	flag.StringVar(&r.version, "version", "", "version (default: that of the commit)")
	flag.IntVar(&r.level, "level", gzip.DefaultCompression, "of compression, 1 to 9")
	flag.Parse()
	if err := r.make(*out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release makes the packages of one version for the architecture of this machine.
type release struct {
	version string
	arch    string
	at      time.Time // of everything in the packages
	level   int       // of compression
	stage   string    // the folder that the archive has
}

// make writes the packages into a folder.
func (r *release) make(out string) error {
	if runtime.GOOS != "linux" {
		return errors.New("packages are for linux and are made there")
	}
	if err := r.identify(); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ferment-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	name := fmt.Sprintf("ferment-%s-linux-%s", r.version, r.arch)
	r.stage = filepath.Join(work, name)
	for _, step := range []func() error{r.build, r.prune, r.configure, r.generate, r.document} {
		if err := step(); err != nil {
			return err
		}
	}
	bill, err := r.bill(filepath.Join(out, name+".spdx.json"))
	if err != nil {
		return err
	}
	archived := make(chan error, 1)
	go func() { archived <- r.archive(filepath.Join(out, name+".tar.gz"), name) }()
	err = r.debian(filepath.Join(out, fmt.Sprintf("ferment_%s_%s.deb", r.debianVersion(), r.arch)), bill)
	if err := errors.Join(err, <-archived); err != nil {
		return err
	}
	return sums(out)
}

// identify finds the version and the time of the commit.
func (r *release) identify() error {
	r.arch = runtime.GOARCH
	if r.version == "" {
		text, err := output("git", "describe", "--tags", "--always", "--dirty")
		if err != nil {
			return err
		}
		r.version = text
	}
	r.version = strings.TrimPrefix(r.version, "v")
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		text, err := output("git", "log", "-1", "--format=%ct")
		if err != nil {
			return err
		}
		epoch = text
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the release: %w", err)
	}
	r.at = time.Unix(seconds, 0).UTC()
	return nil
}

// output runs a command and returns what it prints.
func output(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (r *release) path(name string) string { return filepath.Join(r.stage, filepath.FromSlash(name)) }

// build builds the programs.
func (r *release) build() error {
	for _, what := range [][2]string{{"bin/ferment", "./host/ferment"}, {"bin/plugins/", "./plugins/..."}} {
		if err := os.MkdirAll(filepath.Dir(r.path(what[0])), 0o755); err != nil {
			return err
		}
		to := r.path(what[0])
		if strings.HasSuffix(what[0], "/") {
			to += "/"
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", to, what[1])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOARCH="+r.arch, "GOOS=linux")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", what[1], err)
		}
	}
	return nil
}

// prune removes the programs that the configuration does not name, such as those of tests.
func (r *release) prune() error {
	text, err := os.ReadFile("ferment.hcl")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(r.path("bin/plugins"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !bytes.Contains(text, []byte(`"bin/plugins/`+e.Name()+`"`)) {
			if err := os.Remove(r.path("bin/plugins/" + e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the program of the release and returns its output.
func (r *release) run(args ...string) ([]byte, error) {
	cmd := exec.Command(r.path("bin/ferment"), args...)
	cmd.Dir, cmd.Stderr = r.stage, os.Stderr
	home, err := os.MkdirTemp("", "ferment-home-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	// The plugins of models start only where these are set; they are approved too.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none", "OLLAMA_MODEL=none", "MLX_MODEL=none"}
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ferment %s: %w", strings.Join(args, " "), err)
	}
	return bytes.ReplaceAll(text, []byte(home), []byte("/var/lib/ferment")), nil // the home of the service
}

// configure writes the configuration of the archive and the lock file.
func (r *release) configure() error {
	text, err := configuration(places{
		plugins:   "bin/plugins",
		data:      "var",
		lock:      "bin/ferment.lock.hcl",
		workspace: "workspace",
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path("ferment.hcl"), text, 0o644); err != nil {
		return err
	}
	_, err = r.run("plugin", "lock")
	if err == nil {
		err = os.RemoveAll(r.path("var"))
	}
	return err
}

// shippedHead is the block of the repository's configuration that a package replaces.
const shippedHead = `# The profile for working on plugins. The build writes the lock file beside the
# programs whose hashes it holds; an installation keeps its own.
ferment {
  profile   = "dev"
  data_dir  = "var"
  lock_file = "bin/ferment.lock.hcl"
}
`

// places holds the paths in a package that replace those in the repository's configuration.
type places struct {
	plugins, data, lock string
	workspace           string // the tree that plugins may read
}

// configuration returns the configuration of a package: that of the repository with
// profile prod and other places.
func configuration(p places) ([]byte, error) {
	text, err := os.ReadFile("ferment.hcl")
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("ferment {\n  profile   = \"prod\"\n  data_dir  = %q\n  lock_file = %q\n}\n", p.data, p.lock)
	for _, r := range [][2]string{
		{shippedHead, head},
		{`"bin/plugins/`, `"` + p.plugins + `/`},
		{`env("FERMENT_WORKSPACE", ".")`, fmt.Sprintf(`env("FERMENT_WORKSPACE", %q)`, p.workspace)},
		{`"var/`, `"` + p.data + `/`},
	} {
		if !bytes.Contains(text, []byte(r[0])) {
			return nil, fmt.Errorf("ferment.hcl does not have what packages replace: %s", r[0])
		}
		text = bytes.ReplaceAll(text, []byte(r[0]), []byte(r[1]))
	}
	return text, nil
}

// inDebian are the places of the Debian package. The tree that plugins read is not in the
// data directory, which no plugin may read, and not beside the configuration, which the
// service may not write.
var inDebian = places{
	plugins:   "/usr/lib/ferment/plugins",
	data:      "/var/lib/ferment",
	lock:      "ferment.lock.hcl",
	workspace: "/var/lib/ferment-workspace",
}

// generate writes the manual pages, completions and the unit file.
func (r *release) generate() error {
	if _, err := r.run("manual", "--dir", r.path("share/man/man1")); err != nil {
		return err
	}
	for shell, name := range map[string]string{
		"bash": "share/bash-completion/completions/ferment",
		"zsh":  "share/zsh/vendor-completions/_ferment",
		"fish": "share/fish/vendor_completions.d/ferment.fish",
	} {
		text, err := r.run("completion", shell)
		if err == nil {
			err = write(r.path(name), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unit returns the unit file of the service with a configuration.
func (r *release) unit(config []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ferment-unit-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "ferment.hcl")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	text, err := r.run("admin", "systemd-unit", "--user", "ferment", "--config", file)
	if err != nil {
		return nil, err
	}
	installed := strings.NewReplacer(r.path("bin/ferment"), "/usr/bin/ferment", dir, "/etc/ferment")
	return []byte(installed.Replace(string(text))), nil
}

// document copies the documents.
func (r *release) document() error {
	docs := map[string]string{"README.md": "README.md", "LICENSE": "LICENSE", "CHANGELOG.md": ".github/CHANGELOG.md"}
	for _, pattern := range []string{"host/docs/*.md", "examples/operations/*"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, page := range pages {
			docs[filepath.ToSlash(page)] = page
		}
	}
	for name, from := range docs {
		text, err := os.ReadFile(from)
		if err == nil {
			err = write(r.path(filepath.ToSlash(filepath.Join("share/doc/ferment", name))), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func write(name string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, mode)
}

// sums writes the hashes of the packages.
func sums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
