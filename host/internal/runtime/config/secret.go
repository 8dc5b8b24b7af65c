package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Secret is a handle to a secret. It holds its location, never its value. Only
// secret attributes accept it.
type Secret struct {
	Kind string // "env" or "file"
	Name string // variable or path, as written
	path string // absolute
}

// String returns the printed handle.
func (s Secret) String() string { return "(secret " + s.Kind + ":" + s.Name + ")" }

func parseSecret(ref, dir string) (Secret, error) {
	kind, name, ok := strings.Cut(ref, ":")
	if !ok || name == "" || kind != "env" && kind != "file" {
		return Secret{}, &functionError{
			typ:     "config/type",
			message: "a secret is named as env:VARIABLE or file:PATH",
			hint:    secretHint(ref),
		}
	}
	if kind == "env" && !isVariableName(name) {
		return Secret{}, &functionError{
			typ:     "config/type",
			message: quote(short(name)) + " is not a variable name",
			hint:    secretHint(strings.Trim(name, "${} ")),
		}
	}
	s := Secret{Kind: kind, Name: name, path: name}
	if !filepath.IsAbs(name) {
		s.path = filepath.Join(dir, name)
	}
	return s, nil
}

// secretHint suggests a valid reference. It never includes other text, which may be the secret itself.
func secretHint(ref string) string {
	if isVariableName(ref) && strings.ToUpper(ref) == ref {
		return "write secret(" + quote("env:"+ref) + ")"
	}
	return `write secret("env:NAME") or secret("file:PATH")`
}

// errNoSecret distinguishes a missing secret from an unreadable one.
var errNoSecret = errors.New("is missing or empty")

// Read returns the value. A file must not be readable by the group or by others;
// its final line end is removed. The error never contains the value.
func (s Secret) Read(env func(string) (string, bool)) (string, error) {
	if s.Kind == "env" {
		v, _ := env(s.Name)
		if v == "" {
			return "", fmt.Errorf("secret env:%s %w", s.Name, errNoSecret)
		}
		return v, nil
	}
	info, err := regular(os.Stat(s.path))
	if errors.As(err, new(irregularError)) {
		return "", fmt.Errorf("secret file:%s %w", s.Name, err)
	}
	if err != nil {
		return "", fmt.Errorf("secret file:%s %w", s.Name, errNoSecret)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("secret file:%s may be read by others: chmod 600", s.Name)
	}
	text, err := readBelow(filepath.Dir(s.path), filepath.Base(s.path), MaxSecretFile)
	if err != nil {
		return "", fmt.Errorf("secret file:%s: %s", s.Name, cause(err))
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if text == "" || !utf8.ValidString(text) {
		return "", fmt.Errorf("secret file:%s %w", s.Name, errNoSecret)
	}
	return text, nil
}

// handle identifies a secret independent of the file that refers to it.
func (s Secret) handle() string {
	if s.Kind == "file" {
		return s.Kind + ":" + s.path
	}
	return s.Kind + ":" + s.Name
}
