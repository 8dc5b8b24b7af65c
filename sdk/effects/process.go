package effects

import (
	slashpath "path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Defaults and limits of processes. Output and memory are in bytes.
const (
	defaultProcessTimeout = 30 * time.Second
	maxProcessTimeout     = 10 * time.Minute
	DefaultProcessOutput  = 1 << 20
	DefaultProcessMemory  = 512 << 20
	DefaultProcesses      = 16
)

// Program is the parsed input of a process/run call.
type Program struct {
	Command string   // absolute, a member of the scope's commands
	Args    []string // without the program name
	Dir     string   // absolute working directory
	Within  string   // the allowed directory that contains Dir
	Env     map[string]string
	Timeout time.Duration
}

// Program returns the command, arguments, directory, environment and timeout of
// a process/run call, or the error if the input is invalid or the scope does
// not permit them.
func (t Tool) Program(input edn.Value, s *Scope) (Program, *contract.Error) {
	argv, err := t.argv(input)
	if err != nil {
		return Program{}, err
	}
	p := Program{Args: argv[1:]}
	if p.Command, err = t.command(argv[0], s); err != nil {
		return Program{}, err
	}
	if err := t.arguments(&p, s); err != nil {
		return Program{}, err
	}
	if p.Dir, p.Within, err = t.directory(input, s); err != nil {
		return Program{}, err
	}
	if p.Env, err = t.environment(input, s); err != nil {
		return Program{}, err
	}
	p.Timeout, err = t.timeout(input, s)
	return p, err
}

func (t Tool) argv(input edn.Value) ([]string, *contract.Error) {
	v := input.Key("command")
	switch {
	case v.Kind() != edn.KindVector && v.Kind() != edn.KindList:
		return nil, InvalidInput("schema", t,
			"expected a vector of arguments in :command, found a value of kind %s; a string is never split", v.Kind())
	case v.Len() == 0:
		return nil, InvalidInput("schema", t, "the vector in :command is empty, expected a command and its arguments")
	}
	argv := make([]string, 0, v.Len())
	for m := range v.Elems() {
		a, ok := m.AsString()
		if !ok {
			return nil, InvalidInput("schema", t, "argument %d of :command is a value of kind %s, expected a text", len(argv),
				m.Kind())
		}
		if strings.ContainsRune(a, 0) {
			return nil, InvalidInput("argument/invalid", t, "argument %d of :command contains a NUL character",
				len(argv))
		}
		argv = append(argv, a)
	}
	return argv, nil
}

// command finds the program in the scope. A bare name selects the only allowed
// command with that base name; PATH is not searched.
func (t Tool) command(name string, s *Scope) (string, *contract.Error) {
	var found []string
	for _, c := range s.AllowCommands.V {
		if c == slashpath.Clean(name) || !strings.Contains(name, "/") && slashpath.Base(c) == name {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", Denied("command-not-allowed", t, "the command %q is not one of the allowed commands: %s", name,
			listed(s.AllowCommands.V))
	}
	return "", InvalidInput("command/ambiguous", t,
		"%q is the name of several allowed commands, write one in full: %s", name, listed(found))
}

func (t Tool) arguments(p *Program, s *Scope) *contract.Error {
	for _, rule := range s.Arguments.V {
		if rule.Command != p.Command {
			continue
		}
		for _, alternatives := range rule.Patterns {
			patterns := make([]*regexp.Regexp, 0, len(alternatives))
			for _, a := range alternatives {
				re, err := compileArgument(a)
				if err != nil {
					return InvalidInput("scope/pattern", t, "the argument pattern %q %s", a, err)
				}
				patterns = append(patterns, re)
			}
			for i, arg := range p.Args {
				if !slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(arg) }) {
					return Denied("argument-not-allowed", t, "argument %d of %s, %q, does not match an allowed pattern",
						i+1, p.Command, arg)
				}
			}
		}
	}
	return nil
}

func (t Tool) directory(input edn.Value, s *Scope) (dir, within string, err *contract.Error) {
	dir, ok := optionalText(input, "cwd")
	switch {
	case !ok:
		return "", "", InvalidInput("schema", t, "expected a text in :cwd, found a value of kind %s", input.Key("cwd").Kind())
	case dir == "" && len(s.AllowCWD.V) == 1:
		return s.AllowCWD.V[0], s.AllowCWD.V[0], nil
	case dir == "" && len(s.AllowCWD.V) > 1:
		return "", "", InvalidInput("cwd/ambiguous", t,
			"the scope allows several working directories, name one as :cwd: %s", listed(s.AllowCWD.V))
	case dir == "":
		return "", "", Denied("cwd-not-allowed", t, "the input has no :cwd, and the scope allows no working directory")
	case !slashpath.IsAbs(dir) || strings.ContainsRune(dir, 0):
		return "", "", Denied("cwd-not-allowed", t,
			"the working directory %q is not an absolute path without NUL characters", dir)
	}
	dir = slashpath.Clean(dir)
	for _, d := range s.AllowCWD.V {
		if Covers(KindDirs, d, dir) {
			return dir, d, nil
		}
	}
	return "", "", Denied("cwd-not-allowed", t, "the working directory %q is not below an allowed directory: %s", dir,
		listed(s.AllowCWD.V))
}

func (t Tool) environment(input edn.Value, s *Scope) (map[string]string, *contract.Error) {
	env := map[string]string{}
	v := input.Key("env")
	if !v.IsNil() && v.Kind() != edn.KindMap {
		return nil, InvalidInput("schema", t, "expected a map in :env, found a value of kind %s", v.Kind())
	}
	for key, val := range v.Entries() {
		name := scopeWord(key)
		text, ok := val.AsString()
		if !ok || name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(text, 0) {
			return nil, InvalidInput("schema", t,
				"the variable %.80s of :env: expected a name without =, a text, and no NUL characters", key)
		}
		if !slices.Contains(s.EnvPass.V, name) {
			return nil, Denied("env-not-allowed", t, "the variable %s is not one of the allowed variables: %s", name,
				listed(s.EnvPass.V))
		}
		env[name] = text
	}
	return env, nil
}

func (t Tool) timeout(input edn.Value, s *Scope) (time.Duration, *contract.Error) {
	most := min(s.MaxTimeout.Duration(maxProcessTimeout), maxProcessTimeout)
	v := input.Key("timeout-ms")
	if v.IsNil() {
		return min(s.Timeout.Duration(defaultProcessTimeout), most), nil
	}
	n, ok := v.AsInt()
	if !ok || n < 1 || time.Duration(n) > most/time.Millisecond {
		return 0, InvalidInput("timeout/range", t, "expected 1..%d in :timeout-ms, found %.80s",
			most.Milliseconds(), v)
	}
	return time.Duration(n) * time.Millisecond, nil
}
