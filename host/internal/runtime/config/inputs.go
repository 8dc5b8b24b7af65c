package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Limits of files that expressions read.
const (
	MaxInputFile  = 1 << 20
	MaxInputTotal = 16 << 20
	MaxSecretFile = 64 << 10
)

// Input is an environment variable or file that the configuration depends on. The
// hash detects changes; the value is not stored.
type Input struct {
	Kind string // "env" or "file"
	Name string // variable, or path relative to the root
	Hash string // of the value; empty: absent
}

// inputs reads environment variables and files for expressions, once each, and
// records them.
type inputs struct {
	root  string
	env   func(string) (string, bool)
	seen  map[[2]string]Input
	files map[string]string
	total int
	names []string // variables of .env files
}

// read reports whether an expression read the file with that path relative to the root.
func (in *inputs) read(name string) bool {
	_, ok := in.files[filepath.FromSlash(name)]
	return ok
}

// newInputs returns the inputs below a root. variables are the names of the variables of
// .env files.
func newInputs(root string, env func(string) (string, bool), variables ...string) *inputs {
	return &inputs{root: root, env: env, names: variables, seen: map[[2]string]Input{}, files: map[string]string{}}
}

func (in *inputs) record(kind, name, value string, present bool) {
	hash := ""
	if present {
		sum := sha256.Sum256([]byte(value))
		hash = hex.EncodeToString(sum[:])
	}
	in.seen[[2]string{kind, name}] = Input{Kind: kind, Name: name, Hash: hash}
}

// list returns the sorted inputs.
func (in *inputs) list() []Input {
	out := make([]Input, 0, len(in.seen))
	for _, x := range in.seen {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Input) int { return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name) })
	return out
}

// file reads a text file below the root. A relative path is relative to dir.
func (in *inputs) file(dir, name string) (string, error) {
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, name)
	}
	relative, err := filepath.Rel(in.root, full)
	if err != nil || !filepath.IsLocal(relative) {
		return "", &functionError{
			typ:     "config/include",
			message: fmt.Sprintf("file %s is outside the root directory", quote(name)),
			hint:    "copy it below the directory of the configuration",
		}
	}
	if text, ok := in.files[relative]; ok {
		return text, nil
	}
	text, err := readBelow(in.root, relative, MaxInputFile)
	if err != nil {
		e := &functionError{
			typ:     "config/include",
			message: fmt.Sprintf("file %s: %s", quote(name), cause(err)),
			hint:    "make it a file of text that the host may read, or correct the path",
		}
		if near := Neighbour(full, err); near != "" {
			e.nearest, e.hint = filepath.ToSlash(filepath.Join(filepath.Dir(name), filepath.Base(near))), ""
		}
		return "", e
	}
	if in.total += len(text); in.total > MaxInputTotal {
		return "", &functionError{
			typ:     "config/limit",
			message: fmt.Sprintf("the files that expressions read are over %s in all", formatBytes(MaxInputTotal)),
		}
	}
	in.files[relative] = text
	in.record("file", filepath.ToSlash(relative), text, true)
	return text, nil
}

// functions returns the functions of a file: the gate functions and loadFunctions.
func (e *evaluator) functions(s *Source) map[string]function.Function {
	if fs, ok := e.funcs[s]; ok {
		return fs
	}
	fs := make(map[string]function.Function, len(gateFunctions)+len(loadFunctions))
	for _, name := range gateFunctions {
		fs[name], _ = e.meter.function(name)
	}
	dir := filepath.Dir(s.Path)
	fs["env"] = e.envFunction()
	fs["file"] = e.meter.metered(textFunc(cty.String, func(name string) (cty.Value, error) {
		text, err := e.inputs.file(dir, name)
		return cty.StringVal(text), err
	}), nil)
	fs["edn"] = e.meter.metered(textFunc(ednType, readEDN), nil)
	fs["secret"] = e.meter.metered(textFunc(secretType, func(ref string) (cty.Value, error) {
		secret, err := parseSecret(ref, dir)
		return cty.CapsuleVal(secretType, &secret), err
	}), nil)
	e.funcs[s] = fs
	return fs
}

func (e *evaluator) envFunction() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.NilType, &functionError{
					typ:     "config/type",
					message: "env takes the name of a variable and at most one default",
					hint:    `write env("NAME"), or env("NAME", "default")`,
				}
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if !isVariableName(name) {
				wrong := &functionError{
					typ:     "config/type",
					message: quote(short(name)) + " is not a variable name",
					hint:    `the name comes first: env("NAME", "default")`,
				}
				if bare := strings.Trim(name, "${} "); isVariableName(bare) {
					wrong.nearest, wrong.hint = bare, ""
				}
				return cty.NilVal, wrong
			}
			value, ok := e.inputs.env(name)
			e.inputs.record("env", name, value, ok)
			e.touched = append(e.touched, name)
			switch {
			case ok && !utf8.ValidString(value):
				return cty.NilVal, &functionError{
					typ:     "config/type",
					message: "the environment variable " + quote(name) + " is not UTF-8",
				}
			case ok:
				return cty.StringVal(value), nil
			case len(args) == 2:
				return args[1], nil
			}
			missing := &functionError{
				typ:     "config/env-missing",
				message: "the environment variable " + quote(name) + " is not set",
				nearest: nearest(name, e.inputs.names),
			}
			if missing.nearest == "" {
				missing.hint = fmt.Sprintf("set it, or give a default: env(%q, \"...\")", name)
			}
			return cty.NilVal, missing
		},
	})
}
