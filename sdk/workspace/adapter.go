package workspace

import (
	"context"
	"encoding/base64"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Invoker calls an intent. *[sdk.Host] implements it.
type Invoker interface {
	Invoke(ctx context.Context, ask sdk.Ask) (sdk.Answer, error)
}

// Adapter reads and writes the frames of one workspace. It is safe for
// concurrent use.
type Adapter struct {
	// Invoker calls the intents; nil means the host of the call of the context.
	Invoker Invoker
	// Workspace is the directory or the id of the workspace. Empty means the
	// only workspace of the host.
	Workspace string
	// Agent is the id of the agent for which frames are read and written. Empty
	// means the default agent of the configuration.
	Agent string
}

// View selects the frames of a node. The zero View is the default view of the
// workspace.
type View struct {
	// Name is the name of a view of the configuration, or a built-in view such
	// as heads, history or fresh. If it is empty, the other fields apply.
	Name string
	// MaxFrames and MaxBytes limit the frames and the bytes of their texts; 0
	// means the default.
	MaxFrames, MaxBytes int
	// Types and Agents select frames by type and by agent; empty means all.
	Types, Agents []string
	// Fresh leaves out frames whose inputs changed.
	Fresh bool
}

// Node is a node with its frames.
type Node struct {
	ID     string
	Path   string // its bytes; they need not be UTF-8
	Kind   string // file, dir, link or repo
	Frames []Frame
	// Count is the number of all frames of the node, including frames that the
	// view leaves out.
	Count int
	// Seq is the transaction that was read, Root the id of the root at that
	// transaction.
	Seq  uint64
	Root string
}

// Frame is a text about a node.
type Frame struct {
	ID        string    `edn:"frame/id"`
	Type      string    `edn:"frame/type"`
	Agent     string    `edn:"agent/id"`
	Node      string    `edn:"node/id"`
	Content   string    `edn:"content"` // its bytes; they need not be UTF-8
	MediaType string    `edn:"content/type"`
	Omitted   bool      `edn:"content/omitted?"` // the text did not fit into MaxBytes
	CreatedAt time.Time `edn:"created-at"`
	Meta      edn.Value `edn:"meta"`
	// Origin and State are names without colon, such as authored and fresh. A
	// frame that is not the head of its type has no state.
	Origin, State string `edn:"-"`
}

// NewFrame is a frame to write.
type NewFrame struct {
	Type      string
	Content   string         // its bytes; they need not be UTF-8
	MediaType string         // such as text/markdown; may be empty
	Meta      map[string]any // scalars; may be nil
	// Basis is the id of a frame on which the text is based in addition to the
	// node; empty for none.
	Basis string
	// ExpectHead is the id of the expected head: nil for no expectation, "" for
	// the expectation that there is no head.
	ExpectHead *string
}

// Written is the result of writing, synthesizing or generating a frame.
type Written struct {
	ID string
	// Existing means that the frame already existed and nothing was written.
	Existing bool
	Seq      uint64
	// Attribution is the data about the model that wrote a generated frame, nil
	// for other frames.
	Attribution edn.Value
}

// ReadContext returns a node with the frames that a view selects. node is a
// path or a node id, here and in the other methods. A path need not be UTF-8.
func (a Adapter) ReadContext(ctx context.Context, node string, v View) (Node, error) {
	in := a.input(node)
	in.Opt("view", v.value())
	answer, err := a.invoke(ctx, "context/get-node", &in)
	if err != nil {
		return Node{}, err
	}
	return nodeOf(answer.Out())
}

// WriteContext appends a frame to a node. If an equal frame exists, it writes
// nothing and succeeds with Existing set.
func (a Adapter) WriteContext(ctx context.Context, node string, f NewFrame) (Written, error) {
	in := a.input(node)
	in.Key("frame/type", edn.Text(f.Type))
	putBytes(&in, "content", f.Content)
	in.OptText("content/type", f.MediaType)
	if f.Meta != nil {
		meta, err := sdk.Encode(f.Meta)
		if err != nil {
			return Written{}, contract.Errorf("input/invalid", "write a frame of %s: encode its metadata: %w", node, err)
		}
		in.Key("meta", meta)
	}
	if f.Basis != "" {
		in.Key("basis", edn.Vector(edn.K("both"), edn.Text(f.Basis)))
	}
	if f.ExpectHead != nil {
		in.Key("expect/head", textOrNil(*f.ExpectHead))
	}
	return a.written(ctx, "context/put-frame", &in)
}

// Synthesize makes the frame of a directory from the frames of its children.
// Directories below that have no frame get theirs first.
func (a Adapter) Synthesize(ctx context.Context, node, frameType string) (Written, error) {
	in := a.input(node)
	in.Key("frame/type", edn.Text(frameType))
	in.Key("children", edn.K("build"))
	return a.written(ctx, "context/synthesize", &in)
}

// GenerateFrame makes a frame about a node, as context/generate does. prompt replaces
// the prompt of the agent; empty keeps it. With a prompt, or if the agent has a model,
// a model writes the frame, unless one with equal inputs exists; Attribution is then
// that of the model. Otherwise the frame is extracted from the file or synthesized from
// the frames of the directory, unless there is a fresh one of the type.
func (a Adapter) GenerateFrame(ctx context.Context, node, prompt, frameType string) (Written, error) {
	in := a.input(node)
	in.Key("frame/type", edn.Text(frameType))
	in.OptText("prompt", prompt)
	return a.written(ctx, "context/generate", &in)
}

var nodeID = regexp.MustCompile(`^n[0-9]+-[a-z0-9]+-[0-9a-f]+$`)

// input begins the input of an intent about a node.
func (a Adapter) input(node string) edn.MapBuilder {
	var b edn.MapBuilder
	b.OptText("workspace", a.Workspace)
	b.OptText("agent/id", a.Agent)
	if nodeID.MatchString(node) {
		b.Key("node/id", edn.Text(node))
	} else {
		putBytes(&b, "path", node)
	}
	return b
}

// putBytes adds a text under key, or bytes that are not UTF-8 under key/b64.
func putBytes(b *edn.MapBuilder, key, s string) {
	if utf8.ValidString(s) {
		b.Key(key, edn.Text(s))
		return
	}
	b.Key(key+"/b64", edn.Text(base64.RawURLEncoding.EncodeToString([]byte(s))))
}

// bytesOf returns what putBytes added to a map.
func bytesOf(m edn.Value, key string) (string, error) {
	if encoded, ok := m.Key(key + "/b64").AsString(); ok {
		raw, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil {
			return "", contract.Errorf("runtime/protocol", ":context/get-node: :%s/b64 of the answer: %w", key, err)
		}
		return string(raw), nil
	}
	s, _ := m.Key(key).AsString()
	return s, nil
}

func (a Adapter) invoke(ctx context.Context, intent string, in *edn.MapBuilder) (sdk.Answer, error) {
	by := a.Invoker
	if by == nil {
		by = sdk.HostFrom(ctx)
	}
	return by.Invoke(ctx, sdk.Ask{Intent: intent, Input: in.Map()})
}

func (a Adapter) written(ctx context.Context, intent string, in *edn.MapBuilder) (Written, error) {
	answer, err := a.invoke(ctx, intent, in)
	if err != nil {
		return Written{}, err
	}
	out := answer.Out()
	w := Written{Existing: out.Key("frame/existing?").Truthy(), Attribution: out.Key("attribution")}
	var known bool
	if w.ID, known = out.Key("frame/id").AsString(); !known {
		return Written{}, contract.Errorf("runtime/protocol", ":%s: the answer has no :frame/id, expected a text", intent)
	}
	seq, _ := out.Key("seq").AsInt()
	w.Seq = uint64(seq)
	return w, nil
}

// value returns the view as get-node reads it, nil for the default.
func (v View) value() edn.Value {
	if v.Name != "" {
		return edn.Text(v.Name)
	}
	var b edn.MapBuilder
	b.OptInt("max-frames", int64(v.MaxFrames))
	b.OptInt("max-bytes", int64(v.MaxBytes))
	if v.Fresh {
		b.Key("select", edn.K("fresh"))
	}
	var filters []edn.Value
	for _, f := range []struct {
		kind string
		any  []string
	}{{"type", v.Types}, {"agent", v.Agents}} {
		if len(f.any) == 0 {
			continue
		}
		names := make([]edn.Value, len(f.any))
		for i, name := range f.any {
			names[i] = edn.Text(name)
		}
		filters = append(filters, edn.Vector(edn.K(f.kind), edn.SetOf(names...)))
	}
	if filters != nil {
		b.Key("filters", edn.Vector(filters...))
	}
	if m := b.Map(); m.Len() > 0 {
		return m
	}
	return edn.Nil()
}

// nodeOf reads the output of get-node.
func nodeOf(out edn.Value) (n Node, err error) {
	n.ID, _ = out.Key("node/id").AsString()
	if n.Path, err = bytesOf(out.Key("node"), "path"); err != nil {
		return n, err
	}
	n.Kind, _ = out.Key("node").Key("kind").AsKeyword()
	n.Root, _ = out.Key("root").AsString()
	count, _ := out.Key("frame/count").AsInt()
	seq, _ := out.Key("seq").AsInt()
	n.Count, n.Seq = int(count), uint64(seq)
	for v := range out.Key("frames").Elems() {
		var f Frame
		if err := edn.Decode(v, &f); err != nil {
			return n, contract.Errorf("runtime/protocol", ":context/get-node: a frame of the answer: %w", err)
		}
		if f.Content, err = bytesOf(v, "content"); err != nil {
			return n, err
		}
		f.Origin, _ = v.Key("frame/origin").AsKeyword()
		f.State, _ = v.Key("state").AsKeyword()
		n.Frames = append(n.Frames, f)
	}
	return n, nil
}

func textOrNil(s string) edn.Value {
	if s == "" {
		return edn.Nil()
	}
	return edn.Text(s)
}
