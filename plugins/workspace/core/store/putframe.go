package store

import (
	"cmp"
	"context"
	"regexp"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func compare[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// NewFrame is a frame to put. The caller must have verified that the agent may
// put it.
type NewFrame struct {
	Path   string
	Type   string
	Agent  string
	Origin Origin
	// Inputs are the basis. A node input must name the current state of the path,
	// a frame input a frame of the store.
	Inputs []Input
	Text   []byte
	Sample uint64 // of generated and sampled frames
	// Sampled means that equal inputs can give different texts; see Frame.
	Sampled bool
	Recipe  edn.Value
	// Meta is the metadata. The engine adds the agent. The metadata of an
	// authored frame must not contain keys of the engine.
	Meta edn.Value
	// ContentType is the media type of the text; empty if it is not known.
	ContentType string
	// ID is the expected id; absent if the caller has no expectation.
	ID id.ID
	// Head is the expected head before the frame is put; nil if the caller has no
	// expectation, an absent id if there must be none. It is the head of the
	// current state of the path, or the one that is read by path.
	Head *id.ID
	// MaxFrame is the maximum length of the text in bytes; 0 means the constant
	// MaxFrame.
	MaxFrame int
	// AsOf is the state from which the inputs of a derived frame were read, plus
	// the earlier writes of the transaction; 0 if unknown. The inputs are compared
	// again only if a later state exists.
	AsOf uint64
	// Now is the state of the path at AsOf. First means that no frame had the basis at
	// that state.
	Now   Version
	First bool
}

// Put is the result of putting a frame.
type Put struct {
	Frame    *Frame
	Existing bool  // nothing was written
	Previous id.ID // head of the state of the path before; of PutFrame and Put only
}

var frameTypes = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,128}$`)

// CheckFrameType returns an error of type frame/type-invalid unless text is a
// valid frame type.
func CheckFrameType(text string) error {
	if frameTypes.MatchString(text) {
		return nil
	}
	return contract.Errorf("frame/type-invalid",
		"expected 1 to 128 of A-Z a-z 0-9 . _ : / - as frame type, found %.140q", text)
}

// PutFrame appends a frame and makes it the head of its path, in the current
// state of that path, and type. A frame that already exists is not written again
// and moves no head. PutFrame checks in this order, and returns the first error:
// that the path is in the tree, the type, the size, the metadata, the basis, the
// expected ids. A text that a compaction dropped is stored again.
func (tx *Tx) PutFrame(n NewFrame) (*Put, error) {
	r := tx.frames()
	now, err := r.current(tx.reads(), n.Path)
	if err != nil {
		return nil, inPut(n.Path, err)
	}
	return tx.put(r, n, now)
}

// put is PutFrame for a path whose current state is known, nil if it has none.
func (tx *Tx) put(r *frames, n NewFrame, now *Version) (*Put, error) {
	var err error
	if now == nil {
		err = notInTree("put-frame", n.Path)
	}
	if err == nil {
		err = n.check()
	}
	if err == nil {
		err = tx.checkInputs(r, n, now)
	}
	if err != nil {
		return nil, inPut(n.Path, err)
	}
	f := tx.newFrame(n, now)
	existing, err := tx.expected(r, n, f)
	if err != nil {
		return nil, inPut(n.Path, err)
	}
	if existing != nil {
		return &Put{Frame: existing, Existing: true}, tx.putContent(f.Content, n.Text) // it may have been dropped
	}
	previous, err := tx.expectedHead(r, n, now)
	if err != nil {
		return nil, inPut(n.Path, err)
	}
	return &Put{Frame: f, Previous: previous}, tx.appendFrame(f, n.Text, !f.hasInput(id.InputFrame))
}

// reads is the context of the queries of a transaction. They end with the
// transaction, not with the caller, because they are part of the savepoint.
func (tx *Tx) reads() context.Context { return context.Background() }

// inPut adds the operation to an error that has none.
func inPut(path string, err error) error {
	if e := contract.AsError(err); e.Op == "" {
		return e.WithOp("put-frame", Shown(path))
	}
	return err
}

// check verifies type, size and metadata.
func (n *NewFrame) check() error {
	if err := CheckFrameType(n.Type); err != nil {
		return err
	}
	if limit := cmp.Or(n.MaxFrame, MaxFrame); len(n.Text) > limit {
		return contract.Errorf("frame/too-large", "the text has %d bytes, more than %d", len(n.Text), limit).
			WithDetail("limit", edn.Int(int64(limit))).WithDetail("bytes", edn.Int(int64(len(n.Text))))
	}
	if claimed, ok := n.Meta.Get(edn.K("agent/id")); ok && !edn.Equal(claimed, edn.Text(n.Agent)) {
		return contract.Errorf("frame/invalid", "the metadata names the agent %s, the writer is %q", claimed, n.Agent)
	}
	if n.Origin == Authored {
		return CheckMeta(n.Meta)
	}
	return nil
}

// newFrame returns the frame with its ids.
func (tx *Tx) newFrame(n NewFrame, now *Version) *Frame {
	f := n.frame(now)
	f.Content = contentOf(tx.store.Scheme, n.Text)
	f.CreatedAt, f.Seq = tx.store.o.Now(), tx.seq
	f.seal(tx.store.Scheme)
	return f
}

// frame returns the frame without its ids and its time.
func (n *NewFrame) frame(now *Version) *Frame {
	f := &Frame{
		Path:    n.Path,
		Node:    now.Node,
		Type:    n.Type,
		Agent:   n.Agent,
		Origin:  n.Origin,
		Inputs:  n.Inputs,
		Bytes:   len(n.Text),
		Sample:  n.Sample,
		Sampled: n.Sampled,
		Recipe:  n.Recipe,
		Meta:    n.Meta,
	}
	if !f.Meta.IsMap() {
		f.Meta = edn.MustMap()
	}
	f.Meta = f.Meta.AssocKey("agent/id", edn.Text(n.Agent))
	if n.ContentType != "" {
		f.Meta = f.Meta.AssocKey(contentTypeKey, edn.Text(n.ContentType))
	}
	return f
}

// expected compares the id of a frame with the expected one and with what the
// store has. It returns the frame that exists already, nil if there is none.
func (tx *Tx) expected(r *frames, n NewFrame, f *Frame) (*Frame, error) {
	immutable := func(x id.ID) error {
		return contract.Errorf("frame/immutable", "the frame %s exists with other text", x).WithDetail("frame/id", edn.Text(x.String()))
	}
	existing, err := r.frame(tx.reads(), f.ID)
	switch {
	case err == nil && existing.Content != f.Content:
		return nil, immutable(f.ID)
	case err != nil && !isNotFound(err):
		return nil, err
	case n.ID.IsZero() || n.ID == f.ID:
		return existing, nil
	}
	if _, err := r.frame(tx.reads(), n.ID); err == nil {
		return nil, immutable(n.ID)
	} else if !isNotFound(err) {
		return nil, err
	}
	return nil, contract.Errorf("frame/id-mismatch", "the frame gets the id %s, expected %s", f.ID, n.ID).
		WithDetail("frame/id", edn.Text(f.ID.String()))
}

// expectedHead returns the head of the current state and verifies that it is the
// expected one.
func (tx *Tx) expectedHead(r *frames, n NewFrame, now *Version) (id.ID, error) {
	previous, err := r.headOf(tx.reads(), n.Path, now.Node, n.Type)
	if err != nil || n.Head == nil || *n.Head == previous {
		return previous, err
	}
	found := previous
	if previous.IsZero() { // the head by path is that of an earlier state
		h, err := r.head(tx.reads(), n.Path, n.Type)
		switch {
		case err == nil && h.Frame.ID == *n.Head:
			return previous, nil
		case err == nil:
			found = h.Frame.ID
		case !isType(err, "frame/no-head"):
			return previous, err
		}
	}
	return previous, contract.Errorf("head/conflict", "the head is %s, expected %s", headText(found), headText(*n.Head)).
		WithOp("put-frame", Shown(n.Path)).WithDetail("head", headValue(found)).WithDetail("expected", headValue(*n.Head))
}

// headText is short enough for people; the details of the error have the whole id.
func headText(x id.ID) string {
	if x.IsZero() {
		return "none"
	}
	return x.String()[:len("f1-b3-")+12] + "…"
}

func headValue(x id.ID) edn.Value {
	if x.IsZero() {
		return edn.Nil()
	}
	return edn.Text(x.String())
}

func isType(err error, typ string) bool { return err != nil && contract.AsError(err).Type == typ }

func isNotFound(err error) bool { return isType(err, "frame/not-found") }

// checkInputs verifies that the node and the frames which the basis names exist.
func (tx *Tx) checkInputs(r *frames, n NewFrame, now *Version) error {
	for _, in := range n.Inputs {
		switch in.Kind {
		case id.InputNode:
			if in.ID != now.Node {
				return contract.Errorf("frame/basis-mismatch", "the path has the state %s, the basis %s", now.Node,
					in.ID).
					WithDetail("node/id", edn.Text(now.Node.String()))
			}
		case id.InputFrame:
			if _, err := r.frame(tx.reads(), in.ID); isNotFound(err) {
				return contract.Errorf("frame/basis-mismatch",
					"the basis contains frame %s, which the store does not have", in.ID)
			} else if err != nil {
				return err
			}
		case id.InputPath, id.InputType, id.InputPolicy, id.InputPrompt, id.InputParams: // these never change
		default:
			return contract.Errorf("frame/invalid", "a basis entry of kind %q cannot be compared with the tree", in.Kind)
		}
	}
	return nil
}

// appendFrame writes content, frame and head. checked means that the basis was
// compared with the tree.
func (tx *Tx) appendFrame(f *Frame, text []byte, checked bool) error {
	if err := tx.writeFrame(f, text); err != nil {
		return err
	}
	return tx.setHead(f, headRecord{Node: f.Node, Checked: checked, current: true, unused: true})
}

// setHead makes a frame the head at a state of its path.
func (tx *Tx) setHead(f *Frame, head headRecord) error {
	head.RawPath, head.Type, head.Frame = []byte(f.Path), f.Type, f.ID
	r, err := encodeRecord(kindHead, head)
	if err != nil {
		return err
	}
	return tx.addAs(r, func(x *index, _ log.Place) error { return x.applyHead(context.Background(), tx.seq, head) })
}

// writeFrame writes content and frame.
func (tx *Tx) writeFrame(f *Frame, text []byte) error {
	if err := tx.putContent(f.Content, text); err != nil {
		return err
	}
	frame, err := encodeRecord(kindFrame, frameRecord{Frame: *f, RawPath: []byte(f.Path)})
	if err != nil {
		return err
	}
	tx.store.drafts[f.ID] = frame.Payload
	return tx.addAs(frame, func(x *index, p log.Place) error { return x.applyFrame(context.Background(), tx.seq, f, p) })
}

func (tx *Tx) frames() *frames {
	return &frames{store: tx.store, q: tx.store.index.conn, seq: tx.seq, latest: true, drafts: tx.store.drafts, readCache: tx.cache}
}
