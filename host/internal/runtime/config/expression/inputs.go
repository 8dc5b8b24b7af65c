package expression

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

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// Limits of files that expressions read.
const (
	MaxInputFile  = 1 << 20
	MaxInputTotal = 16 << 20
	MaxSecretFile = 64 << 10
)

// Input is an environment variable or file that the configuration depends on. The hash of its value
// detects changes; the value is not stored.
type Input struct {
	Kind string // "env" or "file"
	Name string // variable, or path relative to the root
	Hash string // hash of the value; empty: it does not exist
}

// Inputs reads environment variables and files for expressions, each once, and records them. It is
// not safe for concurrent use.
type Inputs struct {
	root  string
	env   func(string) (string, bool)
	seen  map[[2]string]Input
	files map[string]string
	total int
	names []string // names of the variables in .env files
}

// Read reports whether an expression read the file with a path relative to the root.
func (in *Inputs) Read(name string) bool {
	_, ok := in.files[filepath.FromSlash(name)]
	return ok
}

// NewInputs returns inputs with files below root. variables are the names of the variables in .env
// files.
func NewInputs(root string, env func(string) (string, bool), variables ...string) *Inputs {
	return &Inputs{root: root, env: env, names: variables, seen: map[[2]string]Input{}, files: map[string]string{}}
}

func (in *Inputs) record(kind, name, value string, present bool) {
	hash := ""
	if present {
		sum := sha256.Sum256([]byte(value))
		hash = hex.EncodeToString(sum[:])
	}
	in.seen[[2]string{kind, name}] = Input{Kind: kind, Name: name, Hash: hash}
}

// List returns the inputs that were read, sorted.
func (in *Inputs) List() []Input {
	out := make([]Input, 0, len(in.seen))
	for _, x := range in.seen {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Input) int { return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name) })
	return out
}

// File reads a text file below the root. A relative name is relative to dir. The error is a
// *FunctionError.
func (in *Inputs) File(dir, name string) (string, error) {
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, name)
	}
	relative, err := filepath.Rel(in.root, full)
	if err != nil || !filepath.IsLocal(relative) {
		return "", &FunctionError{
			Type:    "config/include",
			Message: fmt.Sprintf("file %s is outside the root directory", diag.Quote(name)),
			Hint:    "copy it below the directory of the configuration",
		}
	}
	if text, ok := in.files[relative]; ok {
		return text, nil
	}
	text, err := disk.ReadBelow(in.root, relative, MaxInputFile)
	if err != nil {
		e := &FunctionError{
			Type:    "config/include",
			Message: fmt.Sprintf("file %s: %s", diag.Quote(name), disk.Cause(err)),
			Hint:    "make it a file of text that the host may read, or correct the path",
		}
		if near := disk.Neighbour(full, err); near != "" {
			e.nearest, e.Hint = filepath.ToSlash(filepath.Join(filepath.Dir(name), filepath.Base(near))), ""
		}
		return "", e
	}
	if in.total += len(text); in.total > MaxInputTotal {
		return "", &FunctionError{
			Type:    "config/limit",
			Message: fmt.Sprintf("the files that expressions read are over %s in all", language.FormatBytes(MaxInputTotal)),
		}
	}
	in.files[relative] = text
	in.record("file", filepath.ToSlash(relative), text, true)
	return text, nil
}

// functions returns the functions for expressions in a file: the gate functions and loadFunctions.
func (e *Evaluator) functions(s *diag.Source) map[string]function.Function {
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
		text, err := e.Inputs.File(dir, name)
		return cty.StringVal(text), err
	}), nil)
	fs["edn"] = e.meter.metered(textFunc(EDNType, readEDN), nil)
	fs["secret"] = e.meter.metered(textFunc(SecretType, func(ref string) (cty.Value, error) {
		secret, err := parseSecret(ref, dir)
		return cty.CapsuleVal(SecretType, &secret), err
	}), nil)
	e.funcs[s] = fs
	return fs
}

func (e *Evaluator) envFunction() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.NilType, &FunctionError{
					Type:    "config/type",
					Message: "env takes the name of a variable and at most one default",
					Hint:    `write env("NAME"), or env("NAME", "default")`,
				}
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if !language.IsVariableName(name) {
				wrong := &FunctionError{
					Type:    "config/type",
					Message: diag.Quote(diag.Short(name)) + " is not a variable name",
					Hint:    `the name comes first: env("NAME", "default")`,
				}
				if bare := strings.Trim(name, "${} "); language.IsVariableName(bare) {
					wrong.nearest, wrong.Hint = bare, ""
				}
				return cty.NilVal, wrong
			}
			value, ok := e.Inputs.env(name)
			e.Inputs.record("env", name, value, ok)
			e.Touched = append(e.Touched, name)
			switch {
			case ok && !utf8.ValidString(value):
				return cty.NilVal, &FunctionError{
					Type:    "config/type",
					Message: "the environment variable " + diag.Quote(name) + " is not UTF-8",
				}
			case ok:
				return cty.StringVal(value), nil
			case len(args) == 2:
				return args[1], nil
			case len(e.Report.PoisonedLabels(diag.EnvFile)) > 0:
				return cty.UnknownVal(cty.String), nil // the reported line may be the one that was to set it
			}
			missing := &FunctionError{
				Type:    "config/env-missing",
				Message: "the environment variable " + diag.Quote(name) + " is not set",
				nearest: diag.Nearest(name, e.Inputs.names),
			}
			if missing.nearest == "" {
				missing.Hint = fmt.Sprintf("set it, or give a default: env(%q, \"...\")", name)
			}
			return cty.NilVal, missing
		},
	})
}
