package workspace

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fileFailure is the error of a file that was named on the command line.
type fileFailure struct{ err error }

func (f fileFailure) Error() string { return f.err.Error() }

func asFile(err error, into *fileFailure) bool { return errors.As(err, into) }

func (in *invocation) readFile(name string) ([]byte, error) {
	b, err := in.ReadFile(name)
	if err != nil {
		return nil, fileFailure{err}
	}
	if name == "-" && len(b) > edn.Body.Bytes { // what follows was not read
		return nil, fmt.Errorf("standard input has more than %s: expected the name of a file", size(edn.Body.Bytes))
	}
	return b, nil
}

// text returns the reader of an argument that is the text of one key.
func text(key string) func(*invocation, edn.Value, []string) (edn.Value, error) {
	return func(_ *invocation, input edn.Value, args []string) (edn.Value, error) {
		if len(args) == 0 {
			return input, nil
		}
		return input.AssocKey(key, edn.Text(args[0])), nil
	}
}

// node reads the argument NODE.
func node(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	return in.at.node(input, args[0])
}

// nodeOrRoot reads the argument NODE; without one it is the working directory.
func nodeOrRoot(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	return in.at.node(input, args[0])
}

// nodeAndFile reads the arguments NODE and FILE.
func nodeAndFile(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	input, err := in.at.node(input, args[0])
	if err != nil {
		return edn.Nil(), err
	}
	content, err := in.readFile(args[1])
	if err != nil {
		return edn.Nil(), err
	}
	if !utf8.Valid(content) {
		return input.AssocKey("content/b64", edn.Text(base64.StdEncoding.EncodeToString(content))), nil
	}
	return input.AssocKey("content", edn.Text(string(content))), nil
}

func texts(all []string) edn.Value {
	vs := make([]edn.Value, len(all))
	for i, s := range all {
		vs[i] = edn.Text(s)
	}
	return edn.Vector(vs...)
}

func patterns(_ *invocation, input edn.Value, args []string) (edn.Value, error) {
	return input.AssocKey("patterns", texts(args)), nil
}

// explained reads a path that need not exist; a slash at its end means a directory.
func explained(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	path, err := in.at.path(args[0])
	if err != nil {
		return edn.Nil(), err
	}
	if strings.HasSuffix(args[0], "/") {
		input = input.AssocKey("directory?", edn.Bool(true))
	}
	return input.AssocKey("path", edn.Text(path)), nil
}

func dataDir(in *invocation, input edn.Value) (edn.Value, error) {
	dir := in.first("data-dir")
	if dir == "" {
		return input, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(in.Dir, dir)
	}
	return input.AssocKey("data-dir", edn.Text(dir)), nil
}

// maxSent is the size of a file that is sent with the request: a daemon takes
// requests of 4 MiB, and base64 has a third more bytes. The plugin reads larger
// files itself.
const maxSent = 2 << 20

// imported reads the file of an import.
func imported(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	return in.exported(input, args[0])
}

// exported adds the bytes of the file of an export, or its name if it is large.
func (in *invocation) exported(into edn.Value, file string) (edn.Value, error) {
	content, err := in.readFile(file)
	if err != nil {
		return edn.Nil(), err
	}
	if len(content) <= maxSent || file == "-" {
		return into.AssocKey("content/b64", edn.Text(base64.StdEncoding.EncodeToString(content))), nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(in.Dir, file)
	}
	return into.AssocKey("file", edn.Text(file)), nil
}

// viewed completes a view. One of a name or in EDN is sent as it is.
func viewed(in *invocation, input edn.Value) (edn.Value, error) {
	own := edn.MustMap()
	for _, key := range []string{"max-frames", "max-bytes", "ordering"} {
		if v := input.Key(key); !v.IsNil() {
			own, input = own.AssocKey(key, v), input.Dissoc(edn.K(key))
		}
	}
	if in.set("include-deleted") {
		own = own.AssocKey("include", edn.Keywords("stale", "deleted"))
	}
	if in.set("view") {
		view, err := in.given["view"].value(in.at)
		if err != nil {
			return edn.Nil(), err
		}
		if own.Len() > 0 && !view.IsMap() {
			return edn.Nil(), errors.New("--view NAME has its own limits: expected it alone, or a view as EDN")
		}
		if !view.IsMap() {
			return input.AssocKey("view", view), nil
		}
		own = view.Merge(own)
	}
	if own.Len() == 0 {
		return input, nil
	}
	return input.AssocKey("view", own), nil
}

// putDefaults completes a new frame.
func putDefaults(in *invocation, input edn.Value) (edn.Value, error) {
	if !in.set("type") {
		input = input.AssocKey("frame/type", edn.Text("note"))
	}
	switch id := in.first("expect-head"); id {
	case "":
	case "none":
		input = input.AssocKey("expect/head", edn.Nil())
	default:
		input = input.AssocKey("expect/head", edn.Text(id))
	}
	return input, nil
}

// needsType refuses a command without --type.
func needsType(in *invocation, input edn.Value) (edn.Value, error) {
	if !in.set("type") {
		return edn.Nil(), fmt.Errorf("%s needs --type TYPE: a node has one head of each type", last(in.words))
	}
	return input, nil
}

// withPolicy adds the policy of a synthesis; a name is one without parameters.
func withPolicy(in *invocation, input edn.Value) (edn.Value, error) {
	if !in.set("policy") {
		return input, nil
	}
	policy, err := in.given["policy"].value(in.at)
	if err != nil {
		return edn.Nil(), err
	}
	if policy.IsKeyword() {
		policy = edn.MustMap(edn.K("kind"), policy)
	}
	return input.AssocKey("policy", policy), nil
}

func synthesisInput(in *invocation, input edn.Value) (edn.Value, error) {
	input, err := needsType(in, input)
	if err != nil {
		return edn.Nil(), err
	}
	if in.set("recursive") {
		input = input.AssocKey("children", edn.K("build"))
	}
	return withPolicy(in, input)
}

// composed completes a composition.
func composed(in *invocation, input edn.Value) (edn.Value, error) {
	var sources, related []edn.Value
	for _, s := range in.given["source"].given {
		switch bare := strings.TrimPrefix(s, ":"); bare {
		case "current", "parent", "siblings":
			sources = append(sources, edn.K(bare))
		default:
			one, err := in.at.node(edn.MustMap(), s)
			if err != nil {
				return edn.Nil(), err
			}
			for _, v := range one.Entries() {
				related = append(related, v)
			}
		}
	}
	if len(related) > 0 {
		sources = append(sources, edn.Vector(edn.K("related"), edn.Vector(related...)))
	}
	if len(sources) > 0 {
		input = input.AssocKey("sources", edn.Vector(sources...))
	}
	if in.set("order") {
		order, err := in.given["order"].value(in.at)
		if err != nil {
			return edn.Nil(), err
		}
		input = input.AssocKey("ordering", order)
	}
	var filters []edn.Value
	for _, text := range in.given["filter"].given {
		f, err := readEDN(text)
		if err != nil {
			return edn.Nil(), fmt.Errorf("--filter %s: %w", text, err)
		}
		filters = append(filters, f)
	}
	if len(filters) > 0 {
		input = input.AssocKey("filters", edn.Vector(filters...))
	}
	if in.set("ids") {
		input = input.AssocKey("as", edn.K("ids"))
	}
	return input, nil
}

// items reads the calls of a batch.
func items(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	content, err := in.readFile(args[0])
	if err != nil {
		return edn.Nil(), err
	}
	read, isJSON := edn.Read, strings.HasSuffix(args[0], ".json")
	if isJSON {
		read = edn.ReadJSON
	}
	v, err := read(content, edn.WithLimits(edn.Body), edn.WithSource(args[0]))
	if err != nil {
		return edn.Nil(), contract.AsError(contract.SyntaxError("invalid-request", err))
	}
	if v.IsMap() && v.HasKey("items") {
		v = v.Key("items")
	}
	if !v.IsVector() && !v.IsList() {
		return edn.Nil(), fmt.Errorf("%s: expected a list of calls {:intent :context/get-head :input {...}}", args[0])
	}
	var calls []edn.Value
	for call := range v.Elems() {
		if intent, ok := call.Key("intent").AsString(); ok {
			if k, err := named(intent); err == nil {
				call = call.AssocKey("intent", k)
			}
		}
		calls = append(calls, call)
	}
	return input.AssocKey("items", edn.Vector(calls...)), nil
}

// compared reads the two states of a diff.
func compared(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	for i, key := range []string{"from", "to"} {
		v, err := in.state(append(args, "current")[i])
		if err != nil {
			return edn.Nil(), err
		}
		input = input.AssocKey(key, v)
	}
	return input, nil
}

// state reads the number of a transaction, the word current, the file of an
// export, or the name of a snapshot.
func (in *invocation) state(text string) (edn.Value, error) {
	if n, err := strconv.ParseInt(text, 10, 62); err == nil && n >= 0 {
		return edn.Int(n), nil
	}
	switch {
	case text == "current" || text == ":current":
		return edn.K("current"), nil
	case isFile(text):
		return in.exported(edn.MustMap(), text)
	}
	return edn.Text(text), nil
}

// isFile reports whether a state is named by a file: no snapshot has a slash in its
// name.
func isFile(text string) bool { return text == "-" || strings.ContainsRune(text, filepath.Separator) }

// oneOrAll reads the argument AGENT; the list has the state of all agents.
func oneOrAll(_ *invocation, input edn.Value, args []string) (edn.Value, error) {
	if len(args) == 0 {
		return input.AssocKey("op", edn.K("list")), nil
	}
	return input.AssocKey("agent/id", edn.Text(args[0])), nil
}

func generated(in *invocation, input edn.Value) (edn.Value, error) {
	if in.set("plan") {
		if in.set("stream") {
			return edn.Nil(), errors.New("--plan has no text to stream: expected --stream or --plan")
		}
		input = input.AssocKey("mode", edn.K("plan"))
		if !in.set("producer") {
			input = input.AssocKey("producer", edn.K("generate"))
		}
	}
	return input, nil
}

// reported adds the form in which a report is asked for.
func reported(in *invocation, input edn.Value) (edn.Value, error) {
	if sections := input.Key("sections"); !sections.IsNil() {
		var names []edn.Value
		for s := range sections.Elems() {
			k, err := named(plain(s))
			if err != nil {
				return edn.Nil(), fmt.Errorf("--section %s: %w", plain(s), err)
			}
			names = append(names, k)
		}
		input = input.AssocKey("sections", edn.Vector(names...))
	}
	if in.form != "" {
		if in.set("template") {
			return edn.Nil(), fmt.Errorf("--template gives the form: expected it without -o %s", in.form)
		}
		input = input.AssocKey("format", edn.K(in.form))
	}
	return input, nil
}

func watchInput(in *invocation, input edn.Value) (edn.Value, error) {
	if regenerate := input.Key("regenerate"); !regenerate.IsNil() && !regenerate.HasKey("frame/types") {
		return edn.Nil(), errors.New("--up and --stop-at belong to --regenerate TYPE")
	}
	if in.set("regenerate") {
		input = input.AssocKey("agent/fallback", edn.Text(synthesis))
	}
	return input, nil
}
