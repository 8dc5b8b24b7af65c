package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

//go:embed project
var project embed.FS

// projectFiles are the files of a new project and their templates in the folder project.
var projectFiles = []struct{ name, from string }{
	{files.DefaultFile, files.DefaultFile},
	{"greeter.edn", "greeter.edn"},
	{"hello.edn", "hello.edn"},
	{".gitignore", "gitignore"},
}

const projectLock = "ferment.lock.hcl"

// projectProgram is the path in the template that is replaced by the path of the program on this
// machine.
const projectProgram = "bin/plugins/scripted"

func (c *command) initCommand() *cobra.Command {
	var plugins string
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "create a small project",
		Long: "init creates a commented configuration, a plan, the script of a plugin and the lock file, which check, run,\n" +
			"act and serve can use immediately. It creates DIR if needed; the default is the working directory.\n" +
			"Existing files are never overwritten.",
		Example: "  ferment init hello\n  ferment init greetings --json",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return c.initProject(cmd.Context(), dir, plugins)
		},
	}
	cmd.Flags().StringVar(&plugins, "plugins", "",
		"folder of the plugins that ship with ferment (default: plugins, beside this program)")
	return cmd
}

func (c *command) initProject(ctx context.Context, name, plugins string) error {
	dir := c.path(name)
	if err := vacant(dir); err != nil {
		return err
	}
	program, err := c.shippedProgram(dir, plugins)
	if err != nil {
		return err
	}
	written, err := writeProject(dir, program)
	if err == nil {
		err = c.lockProject(ctx, dir)
		written = append(written, projectLock)
	}
	if err != nil {
		for _, file := range written {
			_ = os.Remove(filepath.Join(dir, file)) // the original error is reported
		}
		return err
	}
	return c.tellProject(name, dir, written)
}

// shippedProgram returns the path of the scripted plugin for the configuration. It is relative if
// both are in one tree, such as a checkout, so that the tree can be moved.
func (c *command) shippedProgram(dir, plugins string) (string, error) {
	if plugins != "" {
		plugins = c.path(plugins)
	} else {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("init: find this program: %w", err)
		}
		plugins = filepath.Join(filepath.Dir(self), "plugins")
	}
	program := filepath.Join(plugins, path.Base(projectProgram))
	if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() {
		return "", contract.Errorf("not-found", "init: plugin program %s does not exist", program).
			WithHint("build the plugins with make build, or name their folder with --plugins")
	}
	tree := filepath.Dir(filepath.Dir(plugins))
	if below, err := filepath.Rel(tree, dir); err == nil && filepath.IsLocal(below) && tree != filepath.Dir(tree) {
		if relative, err := filepath.Rel(dir, program); err == nil {
			return filepath.ToSlash(relative), nil
		}
	}
	return filepath.ToSlash(program), nil
}

// projectNames returns the files that init writes.
func projectNames() []string {
	out := []string{projectLock}
	for _, f := range projectFiles {
		out = append(out, f.name)
	}
	return out
}

// vacant returns an error for a path that is not a directory, and for a directory with a file of a
// project.
func vacant(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return contract.Errorf("input/invalid", "init: %s is a file, expected a directory", at).
				WithHint("name another directory: ferment init DIR")
		}
		if err == nil || at == filepath.Dir(at) {
			break
		}
	}
	var taken []string
	for _, name := range projectNames() {
		switch _, err := os.Lstat(filepath.Join(dir, name)); {
		case err == nil:
			taken = append(taken, name)
		case !errors.Is(err, fs.ErrNotExist):
			return &fileError{err: err}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return contract.Errorf("admin/conflict", "init: %s already has %s", dir, strings.Join(taken, ", ")).
		WithHint("name another directory: ferment init DIR")
}

// writeProject writes the files and returns the names of those that it created, even if there is an
// error.
func writeProject(dir, program string) ([]string, error) {
	if err := makeDir(dir); err != nil {
		return nil, &fileError{err: err, written: true}
	}
	var written []string
	for _, f := range projectFiles {
		text, err := project.ReadFile(path.Join("project", f.from))
		if err != nil {
			return written, fmt.Errorf("init: read the project: %w", err)
		}
		shown := strings.ReplaceAll(string(text), strconv.Quote(projectProgram), strconv.Quote(program))
		out, err := os.OpenFile(filepath.Join(dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return written, &fileError{err: err, written: true}
		}
		written = append(written, f.name)
		_, err = out.WriteString(shown)
		if err = errors.Join(err, out.Close()); err != nil {
			return written, &fileError{err: err, written: true}
		}
	}
	return written, nil
}

// makeDir creates a directory if it is missing. Missing parents are accessible only to this user,
// because one of them may be the data directory of an enclosing project (OPS-002).
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// lockProject approves the plugin of the new project.
func (c *command) lockProject(ctx context.Context, dir string) error {
	options := c.options()
	options.Config = filepath.Join(dir, files.DefaultFile)
	if _, err := setup.Lock(ctx, options, setup.LockWish{}); err != nil {
		return fmt.Errorf("init: write the lock file: %w", err)
	}
	return nil
}

// changeDir returns the command of a shell that changes into a directory.
func changeDir(dir string) string {
	if strings.HasPrefix(dir, "-") { // not an option
		dir = "./" + dir
	}
	return launch.ShellLine("cd", dir)
}

// tellProject prints the written files and the next commands.
func (c *command) tellProject(name, dir string, written []string) error {
	next := []string{"ferment check hello.edn", "ferment run hello.edn", `ferment act text/respond '{:prompt "hi"}'`,
		"ferment serve"}
	if filepath.Clean(name) != "." {
		next = append([]string{changeDir(name)}, next...)
	}
	if c.format != formatText {
		files, steps := make([]edn.Value, len(written)), make([]edn.Value, len(next))
		for i, f := range written {
			files[i] = edn.Text(f)
		}
		for i, s := range next {
			steps[i] = edn.Text(s)
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("dir"), edn.Text(dir), edn.K("files"), edn.Vector(files...), edn.K("next"), edn.Vector(steps...)))
	}
	_, err := fmt.Fprintf(c.env.Stdout, "wrote %s\n\nnext:\n  %s\n", strings.Join(written, ", "),
		strings.Join(next, "\n  "))
	return err
}
