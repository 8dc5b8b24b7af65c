package expression

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// Secret is a handle to a secret. It has the location of the secret, never its value. Only secret
// attributes accept it.
type Secret struct {
	Kind string // "env" or "file"
	Name string // name of the variable or path, as written
	Path string // absolute path; empty for a variable
}

// String returns the handle as text, such as "(secret env:KEY)".
func (s Secret) String() string { return "(secret " + s.Kind + ":" + s.Name + ")" }

func parseSecret(ref, dir string) (Secret, error) {
	kind, name, ok := strings.Cut(ref, ":")
	if !ok || name == "" || kind != "env" && kind != "file" {
		return Secret{}, &FunctionError{
			Type:    "config/type",
			Message: "a secret is named as env:VARIABLE or file:PATH",
			Hint:    secretHint(ref),
		}
	}
	if kind == "env" && !language.IsVariableName(name) {
		return Secret{}, &FunctionError{
			Type:    "config/type",
			Message: diag.Quote(diag.Short(name)) + " is not a variable name",
			Hint:    secretHint(strings.Trim(name, "${} ")),
		}
	}
	s := Secret{Kind: kind, Name: name, Path: name}
	if !filepath.IsAbs(name) {
		s.Path = filepath.Join(dir, name)
	}
	return s, nil
}

// secretHint returns a hint with a valid reference. It includes only the name of a variable,
// because other text may be the secret itself.
func secretHint(ref string) string {
	if language.IsVariableName(ref) && strings.ToUpper(ref) == ref {
		return "write secret(" + diag.Quote("env:"+ref) + ")"
	}
	return `write secret("env:NAME") or secret("file:PATH")`
}

// ErrNoSecret is wrapped by the error of Secret.Read for a missing or empty secret.
var ErrNoSecret = errors.New("is missing or empty")

// Read returns the value of the secret. A file must not be readable by the group or by others; its
// final line end is removed. The error wraps ErrNoSecret if the secret is missing or empty; it
// never contains the value.
func (s Secret) Read(env func(string) (string, bool)) (string, error) {
	if s.Kind == "env" {
		v, _ := env(s.Name)
		if v == "" {
			return "", fmt.Errorf("secret env:%s %w", s.Name, ErrNoSecret)
		}
		return v, nil
	}
	info, err := disk.Regular(os.Stat(s.Path))
	if errors.As(err, new(disk.IrregularError)) {
		return "", fmt.Errorf("secret file:%s %w", s.Name, err)
	}
	if err != nil {
		return "", fmt.Errorf("secret file:%s %w", s.Name, ErrNoSecret)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("secret file:%s may be read by other users: chmod 600 %s", s.Name, s.Name)
	}
	text, err := disk.ReadBelow(filepath.Dir(s.Path), filepath.Base(s.Path), MaxSecretFile)
	if err != nil {
		return "", fmt.Errorf("secret file:%s: %s", s.Name, disk.Cause(err))
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if text == "" || !utf8.ValidString(text) {
		return "", fmt.Errorf("secret file:%s %w", s.Name, ErrNoSecret)
	}
	return text, nil
}

// Handle returns a text that identifies the secret, independent of the file that refers to it.
func (s Secret) Handle() string {
	if s.Kind == "file" {
		return s.Kind + ":" + s.Path
	}
	return s.Kind + ":" + s.Name
}
