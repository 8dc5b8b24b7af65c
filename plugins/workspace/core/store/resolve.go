package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of references to nodes.
const (
	MaxPath      = 4096 // bytes of a path
	idSize       = 64   // digits of an id
	minPrefix    = 8    // digits of a prefix of an id
	maxAmbiguous = 10   // nodes or frames that an error lists
)

// Ref identifies a node: by its path, or by its node id or a prefix of it. The
// zero Ref is the root.
type Ref struct {
	Path string
	// Node is the text form of a node id or a prefix of it, or at least the first
	// 8 digits of its hash. If it is not empty, Path is ignored.
	Node string
}

// RefFrom returns the reference in the input of a request, which has exactly one
// of :node/id, :path and :path/b64. A path is checked with CheckPath.
func RefFrom(input edn.Value) (Ref, error) {
	var given []string
	for _, key := range []string{"node/id", "path", "path/b64"} {
		if !input.Key(key).IsNil() {
			given = append(given, ":"+key)
		}
	}
	switch len(given) {
	case 0:
		return Ref{}, invalidInput("path", "expected one of :node/id, :path and :path/b64, found none")
	case 1:
	default:
		return Ref{}, invalidInput(given[1][1:],
			"expected one of :node/id, :path and :path/b64, found "+strings.Join(given, " and "))
	}
	key := given[0][1:]
	text, ok := input.Key(key).AsString()
	if !ok {
		return Ref{}, invalidInput(key, fmt.Sprintf("expected a string, found %.80s", input.Key(key)))
	}
	switch key {
	case "node/id":
		_, _, err := parseNode(text)
		return Ref{Node: text}, err
	case "path/b64":
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
		if err != nil {
			return Ref{}, invalidInput(key, "it is not base64url")
		}
		text = string(raw)
	}
	path, err := CheckPath(text)
	return Ref{Path: path}, err
}

// CheckPath returns path in its stored form, in which the root is the empty
// path, or an error if it is not a path below the root. The root can also be
// written as a dot.
func CheckPath(path string) (string, error) {
	if path == "" || path == "." {
		return "", nil
	}
	reason := ""
	switch {
	case len(path) > MaxPath:
		reason = "it is longer than 4096 bytes"
	case strings.IndexByte(path, 0) >= 0:
		reason = "it has a zero byte"
	case path[0] == '/':
		reason = "it is absolute"
	case path[len(path)-1] == '/':
		reason = "it ends in a slash"
	}
	if reason == "" {
		for part := range strings.SplitSeq(path, "/") {
			switch part {
			case "":
				reason = "it has an empty part"
			case ".", "..":
				reason = `it has the part "` + part + `"`
			}
		}
	}
	if reason != "" {
		return "", contract.Errorf("path/invalid", "%.200q: %s", path, reason).WithDetail("reason", edn.Text(reason)).
			WithHint("write the path relative to the workspace, without . and ..")
	}
	return path, nil
}

// invalidInput returns an error about an entry of the input of a request.
func invalidInput(key, reason string) *contract.Error {
	return contract.Errorf("input/invalid", ":%s: %s", key, reason).
		WithDetail("path", edn.Vector(edn.K(key))).WithDetail("reason", edn.Text(reason))
}

// idDigits returns the digits that an id begins with: text is the text form of an id
// of the kind, whole or cut off, or at least 8 of its digits alone. x is the id if it
// is whole, absent otherwise.
func idDigits(kind id.Kind, key, text string) (digits string, x id.ID, err error) {
	digits = text
	if i := strings.LastIndexByte(text, '-'); i >= 0 {
		digits = text[i+1:]
		x, err = id.Parse(kind, text+strings.Repeat("0", max(0, idSize-len(digits))))
		if err != nil {
			return "", id.ID{}, contract.AsError(id.About(err, text)).WithDetail("path", edn.Vector(edn.K(key)))
		}
		if len(digits) < idSize {
			x = id.ID{}
		}
	}
	switch {
	case strings.Trim(digits, "0123456789abcdef") != "":
		err = invalidInput(key,
			fmt.Sprintf("expected an id, or lower-case hexadecimal digits of one, found %.80q", text))
	case len(digits) < minPrefix:
		err = invalidInput(key, fmt.Sprintf("expected at least 8 digits of the id, found %d", len(digits)))
	case len(digits) > idSize:
		err = invalidInput(key, fmt.Sprintf("expected an id of 64 digits, found %d", len(digits)))
	}
	return digits, x, err
}

// FrameDigits returns the leading digits of a frame id from text, which has the form
// that FrameID accepts.
func FrameDigits(text string) (digits string, err error) {
	digits, _, err = idDigits(id.Frame, "frame/id", text)
	return digits, err
}

// IsNode reports whether text has the form of a node id or of a prefix of one.
func IsNode(text string) bool {
	_, _, err := idDigits(id.Node, "node/id", text)
	return err == nil
}

// parseNode returns the bounds between which the first 8 bytes of the id lie, and
// the digits that it begins with.
func parseNode(text string) (bounds [2]int64, digits string, err error) {
	if digits, _, err = idDigits(id.Node, "node/id", text); err != nil {
		return bounds, "", err
	}
	var low, high [8]byte
	for i := range 16 {
		l, h := byte(0), byte(15)
		if i < len(digits) {
			l = byte(strings.IndexByte("0123456789abcdef", digits[i]))
			h = l
		}
		low[i/2], high[i/2] = low[i/2]<<4|l, high[i/2]<<4|h
	}
	return [2]int64{nodeKey(low[:]), nodeKey(high[:])}, digits, nil
}

// nodeKey is the column of the index for a node id. Ids with a common prefix of
// one bit or more lie between two keys.
func nodeKey(sum []byte) int64 { return int64(binary.BigEndian.Uint64(sum)) }

// Found is the node that a Ref identifies.
type Found struct {
	Path string
	// States are the states of the path, the newest first; At is the index of
	// the identified state.
	States []Version
	At     int
	// ByID means that the node was identified by its id; its heads are then
	// those of exactly this state.
	ByID bool
}

// State returns the identified state.
func (f *Found) State() Version { return f.States[f.At] }

// Current reports whether the state is that of the current tree.
func (f *Found) Current() bool { return f.State().Until == 0 }

// Gone reports whether the path is not in the current tree.
func (f *Found) Gone() bool { return f.States[0].Until != 0 }

// Resolve returns the node that ref identifies. For a path that was removed, the
// error is node/deleted with the last node id in its details, unless deleted is
// true.
func (v *Snapshot) Resolve(ctx context.Context, ref Ref, deleted bool) (*Found, error) {
	r := v.frames()
	f := &Found{Path: ref.Path}
	var node id.ID
	var err error
	if ref.Node != "" {
		f.Path, node, err = r.named(ctx, ref.Node)
	}
	if err == nil {
		f.States, err = r.lineage(ctx, f.Path)
	}
	if err == nil && len(f.States) == 0 {
		err = v.Missing(ctx, "node", f.Path)
	}
	if err != nil {
		return nil, readError(err)
	}
	if !node.IsZero() {
		f.ByID = true
		f.At = slices.IndexFunc(f.States, func(s Version) bool { return s.Node == node })
	}
	if f.Gone() && !deleted {
		return nil, removed("node", f.Path, f.States[0])
	}
	return f, nil
}

// removed returns the error about a path that is not in the tree any more. last
// is its last state. Its hint is the step that brings the path back; readers add how to
// read it without.
func removed(op, path string, last Version) *contract.Error {
	verb, hint := "removed", "`ferment workspace scan` adds it again if it is in the directory and not ignored"
	if last.Until == last.Tombstone {
		verb, hint = "deleted", "restore it with `ferment workspace restore PATH`"
	}
	return contract.Errorf("node/deleted", "the path was %s in transaction %d", verb, last.Until).
		WithOp(op, Shown(path)).WithDetail("path", ShownPath(path).Value()).
		WithDetail("node/id", edn.Text(last.Node.String())).WithDetail("seq", edn.Int(int64(last.Until))).
		WithHint(hint)
}

// Missing returns the error about a path that has no current state: node/deleted if it
// had one, else path/not-in-tree, or workspace/unscanned without any tree.
func (v *Snapshot) Missing(ctx context.Context, op, path string) error {
	states, err := v.frames().versions(ctx, path, 1)
	switch {
	case err != nil:
		return readError(err)
	case len(states) > 0:
		return removed(op, path, states[0])
	case v.frames().unscanned(ctx):
		return contract.Errorf("workspace/unscanned", "nothing was scanned").WithOp(op, Shown(path))
	}
	return notInTree(op, path)
}

// IsMissing reports whether an error is about a path that is not, or no longer, in the tree.
func IsMissing(err error) bool {
	return errors.Is(err, contract.OfType("path/not-in-tree")) || errors.Is(err, contract.OfType("node/deleted"))
}

// unscanned reports whether there is no tree yet.
func (r *frames) unscanned(ctx context.Context) bool {
	var first sql.Null[int64]
	err := r.q.QueryRowContext(ctx, "SELECT min(seq) FROM trees WHERE seq <= ?", int64(r.seq)).Scan(&first)
	return err == nil && !first.Valid
}

func notInTree(op, path string) *contract.Error {
	return contract.Errorf("path/not-in-tree", "the path was not scanned or is ignored").WithOp(op, Shown(path)).
		WithDetail("path", ShownPath(path).Value())
}

// named returns path and id of the node with an id or a prefix. Of several
// states of one place with the same id it is the last one.
func (r *frames) named(ctx context.Context, text string) (path string, node id.ID, err error) {
	bounds, digits, err := parseNode(text)
	if err != nil {
		return "", id.ID{}, err
	}
	if full := len(digits) == 64 && strings.Contains(text, "-"); full {
		x, err := id.Parse(id.Node, text)
		if err == nil {
			err = r.store.Scheme.Check(x)
		}
		if err != nil {
			return "", id.ID{}, err
		}
	}
	found := map[id.ID]string{}
	err = eachRow(ctx, r.q, func(rows *sql.Rows) error {
		var path, sum []byte
		var mode id.Mode
		if err := rows.Scan(&path, &mode, &sum); err != nil {
			return err
		}
		content, err := id.Of(id.Content, r.store.Scheme.ContentAlg(), sum)
		if err != nil {
			return corrupt(indexFile, "%w", err)
		}
		if x := r.store.Scheme.Node(string(path), mode, content); strings.HasPrefix(x.Hex(), digits) {
			found[x] = string(path)
		}
		return nil
	}, "SELECT path, mode, content FROM versions WHERE node BETWEEN ?1 AND ?2 AND since <= ?3", bounds[0], bounds[1], int64(r.seq))
	if err != nil {
		return "", id.ID{}, err
	}
	switch len(found) {
	case 0:
		return "", id.ID{}, contract.Errorf("node/not-found", "no node has the id %s", text).WithOp("node", "").WithDetail("node/id", edn.Text(text))
	case 1:
		for node, path = range found {
			return path, node, nil
		}
	}
	return "", id.ID{}, ambiguous(text, found)
}

// FrameID returns the frame id that text identifies: by its text form or a prefix
// of it, or by at least the first 8 digits of its hash. key is the key of text in
// the input, for errors. FrameID does not check that a frame with a complete id
// exists.
func (v *Snapshot) FrameID(ctx context.Context, key, text string) (id.ID, error) {
	digits, x, err := idDigits(id.Frame, key, text)
	if err != nil || !x.IsZero() {
		return x, err
	}
	bound := func(digit string) []byte {
		b, _ := hex.DecodeString(digits + strings.Repeat(digit, idSize-len(digits)))
		return b
	}
	list, err := v.frames().ids(ctx, "SELECT id FROM frames WHERE id BETWEEN ?1 AND ?2 AND seq <= ?3 ORDER BY id LIMIT 11",
		bound("0"), bound("f"), int64(v.seq))
	switch {
	case err != nil:
		return x, readError(err)
	case len(list) == 1:
		return list[0], nil
	case len(list) == 0:
		return x, contract.Errorf("frame/not-found", "no frame has an id that begins with %s", digits).WithDetail("frame/id", edn.Text(text))
	}
	shown := make([]edn.Value, 0, maxAmbiguous)
	for _, f := range list[:min(len(list), maxAmbiguous)] {
		shown = append(shown, edn.Text(f.String()))
	}
	return x, invalidInput(key, "several frames have ids that begin with "+digits).WithDetail("matches", edn.Vector(shown...)).
		WithHint("write more digits of the id")
}

// ambiguous returns the error about a prefix of several nodes, with the first of
// them.
func ambiguous(prefix string, found map[id.ID]string) error {
	list := make([]id.ID, 0, len(found))
	for x := range found {
		list = append(list, x)
	}
	slices.SortFunc(list, id.ID.Compare)
	var shown []edn.Value
	for _, x := range list[:min(len(list), maxAmbiguous)] {
		shown = append(shown, ShownPath(found[x]).entry(edn.MustMap(edn.K("node/id"), edn.Text(x.String()))))
	}
	return contract.Errorf("node/ambiguous", "%d nodes have ids that begin with %s", len(list), prefix).
		WithDetail("matches", edn.Vector(shown...)).WithDetail("count", edn.Int(int64(min(len(list), math.MaxInt32))))
}
