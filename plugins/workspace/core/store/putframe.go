package store

import (
	"cmp"
	"context"
	"regexp"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func compare[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// NewFrame is a frame that is to be put. The caller has verified that the agent
// may put it.
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
	// Sampled means that equal inputs may give other text: see Frame.
	Sampled bool
	Recipe  edn.Value
	Meta    edn.Value
	// ID is the expected id; absent if the caller has no expectation.
	ID id.ID
	// Head is the expected head before the frame is put; nil if the caller has no
	// expectation, an absent id if there must be none.
	Head *id.ID
}

// Put is what putting a frame did.
type Put struct {
	Frame    *Frame
	Existing bool // nothing was written
	Previous id.ID
}

// MaxFrame is the largest text of a frame, in bytes.
const MaxFrame = 1 << 20

var frameTypes = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,128}$`)

// PutFrame appends a frame and makes it the head of its path, in the current
// state of that path, and type. A frame that exists already is not written again
// and moves no head.
func (tx *Tx) PutFrame(n NewFrame) (*Put, error) {
	ctx := context.Background()
	refuse := func(typ, format string, args ...any) (*Put, error) {
		return nil, contract.Errorf(typ, format, args...).WithOp("put-frame", n.Path)
	}
	r := tx.frames()
	now, err := r.current(ctx, n.Path)
	switch {
	case err != nil:
		return nil, err
	case now == nil:
		return refuse("path/not-in-tree", "the path was not scanned or is ignored")
	case !frameTypes.MatchString(n.Type):
		return refuse("frame/type-invalid", "%.140q is not a type: 1 to 128 of A-Z a-z 0-9 . _ : / -", n.Type)
	case len(n.Text) > MaxFrame:
		return refuse("frame/too-large", "the text has %d bytes, more than %d", len(n.Text), MaxFrame)
	}
	if claimed, ok := n.Meta.Get(edn.K("agent/id")); ok && !edn.Equal(claimed, edn.Text(n.Agent)) {
		return refuse("frame/invalid", "the metadata names the agent %s, the writer is %q", claimed, n.Agent)
	}
	if err := tx.checkInputs(r, n, now); err != nil {
		return nil, err
	}
	f := &Frame{
		Path:      n.Path,
		Node:      now.Node,
		Type:      n.Type,
		Agent:     n.Agent,
		Origin:    n.Origin,
		Inputs:    n.Inputs,
		Content:   contentOf(tx.store.Scheme, n.Text),
		Bytes:     len(n.Text),
		Sample:    n.Sample,
		Recipe:    n.Recipe,
		Meta:      n.Meta,
		CreatedAt: tx.store.o.Now(),
		Seq:       tx.seq,
	}
	f.seal(tx.store.Scheme)
	if existing, err := r.frame(ctx, f.ID); err == nil {
		if existing.Content != f.Content {
			return refuse("frame/immutable", "the frame %s exists with other text", f.ID)
		}
		return &Put{Frame: existing, Existing: true}, nil
	} else if !isNotFound(err) {
		return nil, err
	}
	if !n.ID.IsZero() && n.ID != f.ID {
		if _, err := r.frame(ctx, n.ID); err == nil {
			return refuse("frame/immutable", "the frame %s exists with other text", n.ID)
		}
		return refuse("frame/id-mismatch", "the frame has the id %s, not %s", f.ID, n.ID)
	}
	previous, err := r.headOf(ctx, n.Path, now.Node, n.Type)
	if err != nil {
		return nil, err
	}
	if n.Head != nil && *n.Head != previous {
		return refuse("head/conflict", "the head is %q, not %q", previous, *n.Head)
	}
	return &Put{Frame: f, Previous: previous}, tx.appendFrame(f, n.Text, !f.hasInput(id.InputFrame))
}

func isNotFound(err error) bool { return contract.AsError(err).Type == "frame/not-found" }

// checkInputs verifies that the basis names what is there.
func (tx *Tx) checkInputs(r *frames, n NewFrame, now *Version) error {
	for _, in := range n.Inputs {
		switch in.Kind {
		case id.InputNode:
			if in.ID != now.Node {
				return contract.Errorf("frame/basis-mismatch", "the path has the state %s, not %s", now.Node, in.ID).WithOp("put-frame", n.Path)
			}
		case id.InputFrame:
			if _, err := r.frame(context.Background(), in.ID); isNotFoundOrNil(err) != nil {
				return err
			} else if err != nil {
				return contract.Errorf("frame/basis-mismatch", "there is no frame %s", in.ID).WithOp("put-frame", n.Path)
			}
		case id.InputPath, id.InputType, id.InputPolicy, id.InputPrompt, id.InputParams: // these never change
		default:
			return contract.Errorf("frame/invalid", "a basis entry of kind %q cannot be compared with the tree", in.Kind).WithOp("put-frame", n.Path)
		}
	}
	return nil
}

// isNotFoundOrNil returns errors other than those of missing frames.
func isNotFoundOrNil(err error) error {
	if err == nil || isNotFound(err) {
		return nil
	}
	return err
}

// appendFrame writes content, frame and head. checked means that the basis was
// compared with the tree.
func (tx *Tx) appendFrame(f *Frame, text []byte, checked bool) error {
	if _, err := tx.PutContent(text); err != nil {
		return err
	}
	frame, err := encodeRecord(kindFrame, frameRecord{Frame: *f, RawPath: []byte(f.Path)})
	if err != nil {
		return err
	}
	tx.store.drafts[f.ID] = frame.Payload
	if err := tx.add(frame); err != nil {
		return err
	}
	return tx.setHead(f, f.Node, checked)
}

// setHead makes a frame the head at a state of its path.
func (tx *Tx) setHead(f *Frame, node id.ID, checked bool) error {
	head, err := encodeRecord(kindHead, headRecord{RawPath: []byte(f.Path), Node: node, Type: f.Type, Frame: f.ID, Checked: checked})
	if err != nil {
		return err
	}
	return tx.add(head)
}

func (tx *Tx) frames() *frames {
	return &frames{store: tx.store, q: tx.store.index.conn, seq: tx.seq, latest: true, drafts: tx.store.drafts, readCache: tx.cache}
}
