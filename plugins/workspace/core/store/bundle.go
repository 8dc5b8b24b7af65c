package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Bundle is the content of an export that was read and verified as a whole.
type Bundle struct {
	Head   ExportHead
	Scheme id.Scheme
	// Nodes are the nodes of the selected paths, without their children.
	Nodes map[string]*tree.Node
	// Frames are in the order of the export.
	Frames []*Frame
	Heads  []BundleHead
	// Deleted are the selected paths that are deleted; only an export of history has them.
	Deleted []string

	texts map[id.ID][]byte
	byID  map[id.ID]*Frame
	begun bool
}

// BundleHead is the head of a path and type in one state. If the state is absent,
// it is the head by path: that of the latest state which has one.
type BundleHead struct {
	Path  string
	Node  id.ID
	Type  string
	Frame id.ID
	// Marked means that the head is invalid.
	Marked bool
}

// Text returns the text of a frame of the bundle.
func (b *Bundle) Text(f *Frame) []byte { return b.texts[f.Content] }

// Frame returns a frame by id, nil if it is not in the bundle.
func (b *Bundle) Frame(frame id.ID) *Frame { return b.byID[frame] }

// ReadExport reads an export and verifies it completely: it recomputes every id,
// and checks that every head has its frame, every frame its text, and that no
// path leaves the workspace. If one of these does not hold, the error is
// import/invalid.
func ReadExport(r io.Reader) (*Bundle, error) {
	b := &Bundle{Nodes: map[string]*tree.Node{}, texts: map[id.ID][]byte{}, byID: map[id.ID]*Frame{}}
	record := 0
	err := log.ReadBundle(r, func(r log.Record) error {
		record++
		return b.take(r)
	})
	if err == nil && !b.begun {
		err = errNotExport
	}
	if err != nil && record == 0 {
		return nil, contract.Errorf("import/invalid", "%w", err).WithOp("import", "")
	}
	if err != nil {
		return nil, contract.Errorf("import/invalid", "%w", err).WithOp("import", fmt.Sprintf("record %d", record+1))
	}
	return b, nil
}

// CheckExportHead returns an error unless the first bytes of a file can be those of an export.
func CheckExportHead(head []byte) error {
	if log.BeginsBundle(head) {
		return nil
	}
	return contract.Errorf("import/invalid", "%w", errNotExport).WithOp("import", "")
}

var (
	errNotExport = errors.New("the data is not an export of a workspace")
	errNoText    = errors.New("the text of a frame is missing")
	errNoFrame   = errors.New("the frame of a head is missing")
	errNoHead    = errors.New("a mark does not follow the head that it marks")
	errScheme    = errors.New("the algorithm of an id differs from the scheme")
)

// take verifies one record.
func (b *Bundle) take(r log.Record) error {
	if !b.begun {
		if r.Kind != kindExport {
			return errNotExport
		}
		b.begun = true
		err := decodeRecord(r.Payload, &b.Head)
		if err == nil {
			b.Scheme, err = id.ParseScheme(b.Head.Scheme)
		}
		return err
	}
	switch r.Kind {
	case kindVersions:
		return decodeVersions(r.Payload, b.Scheme, func(v version) error {
			if v.node == nil {
				return errRecord
			}
			b.Nodes[v.path] = v.node
			return scan.CheckPath(v.path)
		})
	case kindContent:
		b.texts[contentOf(b.Scheme, r.Payload)] = r.Payload
		return nil
	case kindFrame:
		return b.takeFrame(r.Payload)
	case kindHead:
		return b.takeHead(r.Payload)
	case kindMark:
		return b.takeMark(r.Payload)
	case kindTombstones:
		return b.takeTombstones(r.Payload)
	}
	return fmt.Errorf("a record has the unknown kind %d: the export has a newer version", r.Kind)
}

func (b *Bundle) takeFrame(payload []byte) error {
	f, err := openFrame(b.Scheme, payload)
	if err != nil {
		return err
	}
	text, ok := b.texts[f.Content]
	if !ok || len(text) != f.Bytes {
		return errNoText
	}
	for _, x := range []id.ID{f.Node, f.Content, f.ID} {
		if b.Scheme.Check(x) != nil {
			return errScheme
		}
	}
	if f.Node.Kind() != id.Node {
		return errRecord
	}
	if err := CheckFrameType(f.Type); err != nil {
		return err
	}
	b.Frames, b.byID[f.ID] = append(b.Frames, f), f
	return scan.CheckPath(f.Path)
}

func (b *Bundle) takeHead(payload []byte) error {
	var h headRecord
	if err := decodeRecord(payload, &h); err != nil {
		return err
	}
	f := b.byID[h.Frame]
	if f == nil || f.Path != string(h.RawPath) || f.Type != h.Type {
		return errNoFrame
	}
	if !h.Node.IsZero() && (h.Node.Kind() != id.Node || b.Scheme.Check(h.Node) != nil) {
		return errScheme
	}
	b.Heads = append(b.Heads, BundleHead{Path: f.Path, Node: h.Node, Type: h.Type, Frame: h.Frame})
	return nil
}

// takeMark marks the head before it.
func (b *Bundle) takeMark(payload []byte) error {
	var m markRecord
	if err := decodeRecord(payload, &m); err != nil {
		return err
	}
	if len(b.Heads) == 0 {
		return errNoHead
	}
	h := &b.Heads[len(b.Heads)-1]
	if h.Path != string(m.RawPath) || h.Node != m.Node || h.Type != m.Type {
		return errNoHead
	}
	h.Marked = true
	return nil
}

func (b *Bundle) takeTombstones(payload []byte) error {
	var t tombstoneRecord
	if err := decodeRecord(payload, &t); err != nil {
		return err
	}
	if !t.Deleted {
		return errRecord
	}
	for _, p := range t.Paths {
		if err := scan.CheckPath(string(p)); err != nil {
			return err
		}
		b.Deleted = append(b.Deleted, string(p))
	}
	return nil
}
