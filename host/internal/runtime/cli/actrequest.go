package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// isPlan reports whether a value has the form of a plan. Other values are rejected without findings
// about their nodes.
func isPlan(v edn.Value) bool {
	nodes := v.Key("nodes")
	if !v.IsMap() || !nodes.IsVector() && !nodes.IsList() {
		return false
	}
	for node := range nodes.Elems() {
		if !node.IsMap() {
			return false
		}
	}
	return true
}

// actRequest returns the request for the arguments of act.
func (c *command) actRequest(args []string, f *callFlags) (edn.Value, error) {
	if name := args[0]; name == "-" || !intentName.MatchString(name) || c.isFile(name) {
		if len(args) > 1 && name != "-" && !c.isFile(name) {
			return edn.Nil(), usagef("%q is not an intent: expected NS/NAME, such as chess/best-move", name)
		}
		if len(args) > 1 || f.inputFile != "" {
			return edn.Nil(), usagef("a request from a file has its own input")
		}
		return c.fileRequest(name, f)
	}
	input := edn.MustMap()
	if f.inputFile != "" {
		var err error
		if input, err = c.readValue(f.inputFile); err != nil {
			return edn.Nil(), err
		}
		f.isJSON = isJSONFile(f.inputFile)
	}
	if len(args) > 1 {
		given, isJSON, err := parseEither("INPUT", args[1])
		if err != nil {
			return edn.Nil(), err
		}
		f.isJSON = f.isJSON || isJSON
		if !given.IsMap() || !input.IsMap() {
			return edn.Nil(), usagef("the input of an act is a map, such as '{:fen \"...\"}', got %s",
				cutTo(given.String(), 60))
		}
		input = input.Merge(given)
	}
	input, err := bound(f.bind, input)
	if err != nil {
		return edn.Nil(), err
	}
	return envelope(strings.TrimPrefix(args[0], ":"), input), nil
}

func (c *command) isFile(name string) bool {
	info, err := os.Stat(c.path(name))
	return err == nil && info.Mode().IsRegular()
}

func (c *command) fileRequest(name string, f *callFlags) (edn.Value, error) {
	v, isJSON, err := c.readRequest(name)
	f.isJSON = isJSON
	if err != nil {
		return edn.Nil(), err
	}
	v = request.Envelope(v, cliTrace) // flags add keys to it
	if v.Has(edn.K("nodes")) && !v.Has(edn.K("proto")) {
		return edn.Nil(), usageError{
			err:     fmt.Errorf("%s is a plan, and act sends a request", sourceName(name)),
			nearest: "ferment run " + name,
		}
	}
	if len(f.bind) == 0 || !v.IsMap() {
		return v, nil
	}
	input, err := bound(f.bind, v.Key("input"))
	if err != nil {
		return edn.Nil(), err
	}
	return v.AssocKey("input", input), nil
}

// cliTrace is the trace id of requests that this program creates.
const cliTrace = "cli"

// envelope returns the request for an intent.
func envelope(intent string, input edn.Value) edn.Value {
	return edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text(cliTrace)),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent)),
		edn.K("input"), input,
	)
}

// bound adds NAME=EDN pairs to a map.
func bound(pairs []string, into edn.Value) (edn.Value, error) {
	if into.IsNil() {
		into = edn.MustMap()
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return edn.Nil(), usagef("--bind %s: expected NAME=EDN", pair)
		}
		key, err := edn.Keyword(strings.TrimPrefix(name, ":"))
		if err != nil {
			return edn.Nil(), usagef("--bind %s: %q is not a name", pair, name)
		}
		v, err := parseTyped("--bind "+name, text)
		if err != nil {
			return edn.Nil(), err
		}
		if !into.IsMap() {
			return edn.Nil(), usagef("--bind %s: the input is not a map", pair)
		}
		into = into.Assoc(key, v)
	}
	return into, nil
}
