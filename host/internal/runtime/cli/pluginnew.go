package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) pluginNewCommand() *cobra.Command {
	var p scaffold.Project
	var dir string
	cmd := &cobra.Command{
		Use:   "new NAME --kind KIND",
		Short: "create the project of a new plugin",
		Long: "new creates a project that builds, serves one capability and passes the conformance checks: the\n" +
			"program, its test, a configuration to try it with, a README, and a continuous integration workflow. A\n" +
			"plugin in Go uses the SDK of the release of this program, or of the checkout that --sdk names.",
		Example: "  ferment plugin new grader --kind judge --lang python\n  ferment plugin new reader --kind tool --lang node --dir my-reader",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Name = args[0]
			return c.newPlugin(cmd.Context(), p, dir)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Kind, "kind", "", "kind of the capability: "+strings.Join(scaffold.Kinds(), ", "))
	flags.StringVar(&p.Lang, "lang", scaffold.Go, "language: "+strings.Join(scaffold.Langs(), ", "))
	flags.StringVar(&dir, "dir", "", "folder to create (default: NAME in the working directory)")
	flags.StringVar(&p.Interpreter, "interpreter", "",
		"python or node program that runs the plugin (default: the first that works)")
	flags.StringVar(&p.Local, "sdk", "", "checkout of ferment whose Go SDK is used instead of a released version")
	return cmd
}

func (c *command) newPlugin(ctx context.Context, p scaffold.Project, dir string) error {
	if p.Kind == "" {
		kinds := scaffold.Kinds()
		last := len(kinds) - 1
		return usagef("plugin new needs --kind: %s or %s", strings.Join(kinds[:last], ", "), kinds[last])
	}
	if err := p.Check(); err != nil {
		return usageError{err: err, verb: "ferment plugin new"}
	}
	dir = cmp.Or(dir, p.Name)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.env.Dir, dir)
	}
	if err := c.equip(ctx, &p); err != nil {
		return err
	}
	files, err := p.Files()
	if err != nil {
		return err
	}
	if err := scaffold.Write(dir, files); err != nil {
		return err
	}
	if c.format != formatText {
		paths := make([]edn.Value, len(files))
		for i, f := range files {
			paths[i] = edn.Text(f.Path)
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("dir"), edn.Text(dir), edn.K("kind"), edn.K(p.Kind), edn.K("lang"), edn.K(p.Lang),
			edn.K("files"), edn.Vector(paths...)))
	}
	_, err = fmt.Fprintf(c.env.Stdout, "%s: kind %s, in %s, %d files\n\n  %s\n%s  ./check\n  %s\n",
		p.Name, p.Kind, p.Lang, len(files), changeDir(c.relative(dir)), prepare(p), p.Try())
	return err
}

// prepare returns the commands that a project needs before its first check.
func prepare(p scaffold.Project) string {
	switch {
	case p.Lang == scaffold.Node:
		return "  npm ci\n"
	case p.Lang == scaffold.Go && p.Local == "":
		return "  go mod tidy\n"
	}
	return ""
}

// equip searches the tools for building the project on this machine.
func (c *command) equip(ctx context.Context, p *scaffold.Project) error {
	if named := p.Interpreter; named != "" {
		if p.Lang == scaffold.Go {
			return usagef("--interpreter %s: a plugin in Go has no interpreter", named)
		}
		if strings.ContainsRune(named, filepath.Separator) {
			named = c.path(named)
		}
		path, err := exec.LookPath(named)
		if err != nil {
			return &fileError{err: fmt.Errorf("--interpreter: no program %s: %w", named, cause(lookPathCause(err)))}
		}
		p.Interpreter = path
		return nil
	}
	switch p.Lang {
	case scaffold.Go:
		return c.findSDK(p)
	case scaffold.Python:
		c.findInterpreter(ctx, p, "python3",
			"the plugin needs a Python with grpcio, protobuf and cryptography; none was found (Debian: python3-grpcio python3-protobuf python3-cryptography)",
			"-c", "import grpc, google.protobuf, cryptography")
	case scaffold.Node:
		c.findInterpreter(ctx, p, "node", "the plugin needs node, which is not installed (Debian: nodejs npm)", "-e",
			"0")
	}
	return nil
}

// findInterpreter sets the interpreter of a project: the first one that can run a small script. If
// there is none, it prints a warning and keeps the default.
func (c *command) findInterpreter(ctx context.Context, p *scaffold.Project, name, without string, script ...string) {
	usual := scaffold.DefaultInterpreter(p.Lang)
	if p.Interpreter = interpreter(ctx, []string{name, usual}, script...); p.Interpreter == "" {
		p.Interpreter = usual
		_, _ = fmt.Fprintf(c.env.Stderr, "note: %s\n", without)
	}
}

// interpreterWait is the time limit for testing an interpreter. On a busy machine, Python needs
// seconds to load packages.
const interpreterWait = 30 * time.Second

// interpreter returns the path of the first program that can run a small script, with links
// resolved, because a plugin starts with an empty environment, in which a wrapper may not find the
// program.
func interpreter(ctx context.Context, names []string, script ...string) string {
	runs := func(path string) bool {
		ctx, cancel := context.WithTimeout(ctx, interpreterWait)
		defer cancel()
		run := exec.CommandContext(ctx, path, script...)
		run.Env = []string{}
		return run.Run() == nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && runs(path) {
			return path
		}
	}
	return ""
}

var releaseVersion = regexp.MustCompile(`^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// findSDK selects the SDK of a Go module: the given checkout, the release of this program, or the
// checkout that it was built in.
func (c *command) findSDK(p *scaffold.Project) error {
	switch {
	case p.Local != "":
		dir := p.Local
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.env.Dir, dir)
		}
		if !isCheckout(dir) {
			return contract.Errorf("input/invalid",
				"new plugin: %s is not a checkout of ferment: it has no go.mod of %s", dir, sdkModule).
				WithHint("name the folder of a checkout of ferment with --sdk")
		}
		p.Local, p.SDKVersion = dir, "v0.0.0"
	case releaseVersion.MatchString(c.env.Version):
		p.SDKVersion = "v" + strings.TrimPrefix(c.env.Version, "v")
	default:
		self, err := os.Executable()
		if err != nil {
			return err
		}
		for dir := filepath.Dir(self); ; dir = filepath.Dir(dir) {
			if isCheckout(dir) {
				p.Local, p.SDKVersion = dir, "v0.0.0"
				return nil
			}
			if dir == filepath.Dir(dir) {
				return contract.Errorf("input/invalid",
					"new plugin: the Go SDK cannot be found: this build of ferment (%s) is not a release and not in a checkout", c.env.Version).
					WithHint("name a checkout of ferment with --sdk")
			}
		}
	}
	return nil
}

const sdkModule = "github.com/fermenthq/ferment"

func isCheckout(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+sdkModule+"\n")
}
