package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/testrunner/internal/suite"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
)

// request is the input of the three intents; fields that an intent lacks are
// zero.
type request struct {
	Dir       string
	Command   []string
	Packages  []string
	Format    suite.Format // "" if unset
	TimeoutMS int
	Memory    int64 // -1 if unset
	Patch     string
	Strip     int
}

// read validates and parses an input. The error is :input/invalid and names the
// field.
func (r *runner) read(schemaName string, input edn.Value) (request, error) {
	s, _ := r.schemas.Lookup(schemaName)
	if findings := s.Validate(input); len(findings) > 0 {
		return request{}, refusedBy(findings)
	}
	in := request{Memory: -1, Strip: 1}
	in.Dir, _ = input.Key("dir").AsString()
	in.Patch, _ = input.Key("patch").AsString()
	in.Command, in.Packages = texts(input.Key("command")), texts(input.Key("packages"))
	if word, ok := input.Key("format").AsKeyword(); ok {
		in.Format = suite.Format(word)
	}
	if n, ok := input.Key("timeout-ms").AsInt(); ok {
		in.TimeoutMS = int(n)
	}
	if n, ok := input.Key("strip").AsInt(); ok {
		in.Strip = int(n)
	}
	if m := input.Key("memory"); !m.IsNil() {
		bytes, ok := sizeOf(m)
		if !ok || bytes < minMemory || bytes > maxMemory {
			return request{}, refused("memory", m, "a size from 16MiB to 1TiB, such as 2GiB")
		}
		in.Memory = bytes
	}
	return in, in.check()
}

func texts(v edn.Value) []string {
	var out []string
	for e := range v.Elems() {
		text, _ := e.AsString()
		out = append(out, text)
	}
	return out
}

// check validates what the schema cannot express.
func (in *request) check() error {
	dir := edn.Text(in.Dir)
	switch {
	case strings.ContainsRune(in.Dir, 0):
		return refused("dir", dir, "a path without NUL")
	case !filepath.IsAbs(in.Dir):
		// The host resolves relative paths; callers do not know the plugin's
		// own directory.
		return refused("dir", dir, "an absolute path")
	}
	in.Dir = filepath.Clean(in.Dir)
	info, err := os.Stat(in.Dir)
	if err != nil {
		return refused("dir", dir, "a directory that can be read ("+reasonOf(err)+")")
	}
	if !info.IsDir() {
		return refused("dir", dir, "a directory, not a file")
	}
	if err := readable(in.Dir); err != nil {
		return err
	}
	if len(in.Command) > 0 && in.Command[0] == "" {
		return refused("command", edn.Text(""), "the name of a program")
	}
	for _, list := range []struct {
		field string
		texts []string
	}{{"command", in.Command}, {"packages", in.Packages}} {
		for _, text := range list.texts {
			if strings.ContainsRune(text, 0) {
				return refused(list.field, edn.Text(text), "text without NUL")
			}
		}
	}
	for _, p := range in.Packages {
		if strings.HasPrefix(p, "-") {
			return refused("packages", edn.Text(p), "a package, not a flag")
		}
	}
	return nil
}

// readable rejects a directory that this process may not read: in a sandbox it
// may be visible but unreadable.
func readable(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		_, err = f.Readdirnames(1)
		_ = f.Close()
	}
	if !errors.Is(err, fs.ErrPermission) {
		return nil // other errors show when it is used
	}
	return contract.Errorf("effects/scope-denied", "dir: the plugin has no permission to read %s", dir).
		WithDetail("path", edn.Vector(edn.K("dir"))).
		WithDetail("got", edn.Text(dir)).
		WithHint("add the directory to read_paths in the isolation block of the plugin, and check that the " +
			"user of the host has read access")
}

// reasonOf returns the innermost text of a file system error.
func reasonOf(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+len(": "):]
	}
	return text
}

// Limits of :memory.
const (
	minMemory = 16 << 20
	maxMemory = 1 << 40
)

var sizeUnits = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}, {"B", 1}, {"", 1}}

// sizeOf parses a number of bytes, or a text such as 512MiB. It returns false for anything else.
func sizeOf(v edn.Value) (int64, bool) {
	if n, ok := v.AsInt(); ok {
		return n, true
	}
	text, ok := v.AsString()
	if !ok {
		return 0, false
	}
	for _, unit := range sizeUnits {
		digits, found := strings.CutSuffix(text, unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > maxMemory {
			return 0, false
		}
		return n * unit.factor, true
	}
	return 0, false
}

// refusedBy returns the error for schema findings, with the message of the
// first.
func refusedBy(findings []schema.Finding) error {
	first := findings[0]
	e := contract.Errorf("input/invalid", "%s: %s", fieldOf(first.Path), first.Message).
		WithDetail("path", edn.Vector(first.Path...)).
		WithDetail("findings", schema.Findings(findings))
	if i := slices.IndexFunc(findings, func(f schema.Finding) bool { return isFormat(f.Path) }); i >= 0 {
		e = e.WithHint(fmt.Sprintf("supported formats are %s", formats()))
	}
	return e
}

func isFormat(path []edn.Value) bool { return len(path) == 1 && path[0].Name() == "format" }

func formats() string {
	names := make([]string, len(suite.Formats))
	for i, f := range suite.Formats {
		names[i] = ":" + string(f)
	}
	return strings.Join(names, ", ")
}

func fieldOf(path []edn.Value) string {
	if len(path) == 0 {
		return "input"
	}
	return edn.Vector(path...).String()
}

// refused returns the error for an invalid field.
func refused(field string, got edn.Value, expected string) error {
	return contract.Errorf("input/invalid", "%s: expected %s, found %s", field, expected,
		launch.Clip(got.String(), 200)).
		WithDetail("path", edn.Vector(edn.K(field))).
		WithDetail("expected", edn.Text(expected)).
		WithDetail("got", got)
}

func (in *request) timeout(standard int) time.Duration {
	if in.TimeoutMS > 0 {
		standard = in.TimeoutMS
	}
	return time.Duration(standard) * time.Millisecond
}
