package settings

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Check returns an error that joins every mistake which the schema of the
// settings does not find.
func (s Settings) Check() error {
	all := s.checkCommand()
	add := func(message string, path ...edn.Value) { all = append(all, sdk.Problem(message, path...)) }

	if strings.ContainsRune(s.Model, 0) {
		add("contains a NUL character", edn.K("model"))
	}
	if last := s.Port + s.Most() - 1; s.Port > 0 && last > 65535 {
		add(fmt.Sprintf("with %d workers the ports go up to %d, but the last port is 65535", s.Most(), last),
			edn.K("port"))
	}
	for _, p := range []struct{ key, path string }{{"ready-path", s.ReadyPath}, {"quit", s.Quit.Path}} {
		at := []edn.Value{edn.K(p.key)}
		if p.key == "quit" {
			at = append(at, edn.K("path"))
		}
		if u, err := url.Parse(p.path); p.path != "" && (err != nil || !path.IsAbs(p.path) || u.Host != "" || u.Fragment != "") {
			add(fmt.Sprintf("should be a path such as /health, got %.80q", p.path), at...)
		}
	}
	if s.Eager() && s.PerSession() {
		add("eager requires workers = \"shared\": when the plugin starts, no session exists", edn.K("start"))
	}
	if strings.ContainsAny(s.Quit.Stdin, "\n\x00") {
		add("should be one line", edn.K("quit"), edn.K("stdin"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.HasPrefix(name, "PLUGIN_") {
			add("is not a name of a variable for the server: expected one without = and NUL that does not begin with PLUGIN_",
				edn.K("env"), edn.Text(name))
		} else if strings.ContainsRune(s.Env[name], 0) {
			add("contains a NUL character", edn.K("env"), edn.Text(name))
		}
	}
	if slices.Contains(s.AllowModels, "") {
		add("has an empty entry", edn.K("allow-models"))
	}
	if len(s.Serve) == 0 {
		add("expected at least one serve block", edn.K("serve"))
	}
	for _, label := range slices.Sorted(maps.Keys(s.Serve)) {
		at := []edn.Value{edn.K("serve"), edn.Text(label)}
		if label == Control {
			add("is the name of the capability that operators use: choose another label", at...)
		}
		if name := s.Serve[label].Name; !s.Allows(name) {
			add(fmt.Sprintf("%q is neither the model of the server nor in allow_models", name), append(at, edn.K("name"))...)
		}
	}
	return errors.Join(append(all, s.provider(1).CheckModels("serve")...)...)
}

// Allows reports whether requests may name this model.
func (s Settings) Allows(name string) bool {
	return name == "" || name == s.Model || slices.Contains(s.AllowModels, name)
}

// placeholder matches placeholders; other braces, such as those of JSON, are
// passed to the server.
var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

func (s Settings) checkCommand() []error {
	var all []error
	add := func(i int, message string) {
		all = append(all, sdk.Problem(message, edn.K("command"), edn.Int(int64(i))))
	}
	told := false
	for i, part := range s.Command {
		for _, found := range placeholder.FindAllString(part, -1) {
			if found != "{port}" && found != "{model}" {
				add(i, fmt.Sprintf("%s is not known: expected {port} or {model}", found))
			}
		}
		told = told || strings.Contains(part, "{port}") || s.Port > 0 && !s.PerSession() &&
			strings.Contains(part, strconv.Itoa(s.Port))
		switch {
		case i == 0 && strings.TrimSpace(part) == "":
			add(i, "is empty: expected a program")
		case strings.ContainsRune(part, 0):
			add(i, "contains a NUL character")
		case i > 0 && open(s.Command[i-1], part):
			add(i, "opens the server to other machines: it has no access control, so it must listen on 127.0.0.1 only")
		}
	}
	if len(s.Command) > 0 && !told {
		all = append(all,
			sdk.Problem("does not set the port on which the server listens: write {port}", edn.K("command")))
	}
	return all
}

// open reports whether an argument makes the server listen on more than
// loopback. Only literal addresses are checked; names are not resolved.
func open(before, part string) bool {
	name, value, joined := strings.Cut(part, "=")
	if !joined {
		name, value = before, part
	}
	switch strings.TrimLeft(name, "-") {
	case "host", "bind", "listen", "address", "addr", "ip":
	default:
		return false
	}
	if value == "*" {
		return true
	}
	if ap, err := netip.ParseAddrPort(value); err == nil {
		return !ap.Addr().Unmap().IsLoopback()
	}
	a, err := netip.ParseAddr(strings.Trim(value, "[]"))
	return err == nil && !a.Unmap().IsLoopback()
}
