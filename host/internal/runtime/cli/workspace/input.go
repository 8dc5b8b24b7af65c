package workspace

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fileFailure is the error of a file in the command line.
type fileFailure struct{ err error }

func (f fileFailure) Error() string { return f.err.Error() }

func asFile(err error, into *fileFailure) bool { return errors.As(err, into) }

// readFile reads a file, or standard input for "-". More than limit bytes are an error.
func (in *invocation) readFile(file string, limit int) ([]byte, error) {
	b, err := in.ReadFile(file, limit)
	if err != nil {
		return nil, fileFailure{err}
	}
	if len(b) > limit { // the rest was not read
		if file = name(file); file == "-" {
			file = "standard input"
		}
		return nil, fmt.Errorf("%s has more than %s", file, size(limit))
	}
	return b, nil
}

// maxText is the maximum size in bytes of the text of a frame that any setting permits (max_frame).
const maxText = 16 << 20

// text returns a function that reads an argument as the text of a key.
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

// nodeOrRoot reads the argument NODE; without one it uses the working directory.
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
	content, err := in.readFile(args[1], maxText)
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

// explained reads a path that need not exist. A slash at its end means a directory.
func explained(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	if strings.HasSuffix(args[0], "/") {
		input = input.AssocKey("directory?", edn.Bool(true))
	}
	return in.at.pathInto(input, args[0])
}

func dataDir(in *invocation, input edn.Value) (edn.Value, error) {
	dir := in.first("data-dir")
	if dir == "" {
		return input, nil
	}
	return input.AssocKey("data-dir", edn.Text(in.absolute(dir))), nil
}

// absolute returns the absolute path for a path relative to the working directory.
func (in *invocation) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(in.Dir, path)
}

// maxSent is the maximum size in bytes of a file that is sent in the request: a daemon accepts
// strings of 1 MiB (see edn.Body), and base64 needs a third more. Larger files are sent before in
// parts of this size.
const maxSent = 768 << 10

// imported reads the file of an import.
func imported(in *invocation, input edn.Value, args []string) (edn.Value, error) {
	return in.exported(input, args[0])
}

// exported adds the bytes of an export file, or its hash if the file is sent in parts before the
// call.
func (in *invocation) exported(into edn.Value, file string) (edn.Value, error) {
	f, err := in.OpenFile(file, func(head []byte) error { return isExport(file, head) })
	if err != nil {
		return edn.Nil(), fileFailure{err}
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSent+1))
	if err == nil && len(content) <= maxSent {
		_ = f.Close() // it was only read
		return into.AssocKey("content/b64", edn.Text(base64.StdEncoding.EncodeToString(content))), nil
	}
	if err == nil {
		if err := isExport(file, content); err != nil {
			_ = f.Close() // it was only read
			return edn.Nil(), fileFailure{err}
		}
	}
	hash := blake3.New(32, nil)
	_, _ = hash.Write(content)
	if err == nil {
		_, err = io.Copy(hash, f)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return edn.Nil(), fileFailure{fmt.Errorf("read %s: %w", name(file), err)}
	}
	p := parts{blob: "b3:" + hex.EncodeToString(hash.Sum(nil)), content: f}
	if file != "-" {
		p.file = in.absolute(file)
	}
	in.parts = append(in.parts, p)
	return into.AssocKey("blob", edn.Text(p.blob)), nil
}

// exportMark is in the first bytes of every export that the workspace plugin writes.
const exportMark = "ferment-workspace-bundle "

// isExport refuses a file whose first bytes are not those of an export, so that a large one, or
// one without an end, is neither copied nor sent.
func isExport(file string, head []byte) error {
	if len(head) == 0 || bytes.Contains(head[:min(len(head), 2*len(exportMark))], []byte(exportMark)) {
		return nil
	}
	return contract.Errorf("import/invalid", "the data is not an export of a workspace").WithOp("import", file)
}

// parts is a file that is sent in parts.
type parts struct {
	file    string // absolute; empty: standard input
	blob    string
	content *os.File
}

func (in *invocation) closeParts() {
	for _, p := range in.parts {
		_ = p.content.Close() // it was only read
	}
	in.parts = nil
}

// send sends the files that an input names by their hashes, and returns the input. A comparison
// only reads, but sending needs a right to write. Without that right the input has the name of the
// file, which the capability reads if it may.
func (c *caller) send(input edn.Value) (edn.Value, error) {
	for _, p := range c.parts {
		err := c.sendParts(p)
		if err == nil {
			continue
		}
		named, compares := p.byName(input)
		if !compares || !forbidden(err) {
			return edn.Nil(), err
		}
		input = named
	}
	c.closeParts()
	return input, nil
}

func (c *caller) sendParts(p parts) error {
	part := make([]byte, maxSent)
	for at := int64(0); ; {
		n, err := p.content.ReadAt(part, at)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", cmp.Or(p.file, "standard input"), err)
		}
		_, err = c.callIntent("workspace/import", edn.MustMap(
			edn.K("workspace"), edn.Text(c.at.root), edn.K("blob"), edn.Text(p.blob), edn.K("offset"), edn.Int(at),
			edn.K("content/b64"), edn.Text(base64.StdEncoding.EncodeToString(part[:n])),
		))
		if err != nil {
			return err
		}
		at += int64(n)
	}
}

// byName replaces a hash in the states of a comparison by the name of its file. ok is false if
// there is none, or if the file is standard input.
func (p *parts) byName(input edn.Value) (out edn.Value, ok bool) {
	for _, key := range []string{"from", "to"} {
		if blob, _ := input.Key(key).Key("blob").AsString(); blob == p.blob && p.file != "" {
			input, ok = input.AssocKey(key, edn.MustMap(edn.K("file"), edn.Text(p.file), edn.K("blob"), edn.Text(p.blob))), true
		}
	}
	return input, ok
}

// forbidden reports whether an error is that of a caller without a right.
func forbidden(err error) bool {
	e := contract.AsError(err)
	return !e.Retryable && (strings.HasPrefix(e.Type, "auth/") || e.Type == "agent/role-denied")
}

// viewed completes a view. A name and a view in EDN are not changed.
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

// needsType returns an error for a command without --type.
func needsType(in *invocation, input edn.Value) (edn.Value, error) {
	if !in.set("type") {
		return edn.Nil(), fmt.Errorf("%s needs --type TYPE: a node has one head of each type", last(in.words))
	}
	return input, nil
}

// withPolicy adds the policy of a synthesis. A name means a policy without parameters.
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
			if path := one.Key("path"); !path.IsNil() {
				one = path
			}
			related = append(related, one)
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
	content, err := in.readFile(args[0], edn.Body.Bytes)
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

// state reads the number of a transaction, the word current, the file of an export, or the name of
// a snapshot.
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

// isFile reports whether a state is the name of a file. Names of snapshots have no slash.
func isFile(text string) bool { return text == "-" || strings.ContainsRune(text, filepath.Separator) }

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

// reported adds the requested form of a report.
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
