package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// Kinds of records. They are stored: a kind never changes its meaning.
const (
	// kindWorkspace is the first record of a log: the hash of workspace.edn.
	kindWorkspace = log.FirstKind + iota
	// kindContent is the text of a frame. Its payload is the text; it is stored
	// once per content id.
	kindContent
	// kindVersions are new versions of entries of one directory.
	kindVersions
	// kindFrame is a frame, kindHead a move of a head to one.
	kindFrame
	kindHead
	// kindMark marks a head as invalid.
	kindMark
)

// version is a new state of one path.
type version struct {
	path string
	node *tree.Node // nil if the path is gone
	from string     // path that a renamed file had before
}

// encodeVersions returns records for changed paths, at least one for each
// directory.
func encodeVersions(changes *tree.Changes) []log.Record {
	byDir, from := map[string][]tree.Change{}, map[string]string{}
	for _, r := range changes.Renamed {
		from[r.To] = r.From
	}
	for _, list := range [][]tree.Change{changes.Added, changes.Modified, changes.Removed} {
		for _, c := range list {
			dir, _ := split(c.Path)
			byDir[dir] = append(byDir[dir], c)
		}
	}
	dirs := make([]string, 0, len(byDir))
	for dir := range byDir {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	records := make([]log.Record, 0, len(dirs))
	for _, dir := range dirs {
		list := byDir[dir]
		slices.SortFunc(list, func(a, b tree.Change) int { return strings.Compare(a.Path, b.Path) })
		for part := range slices.Chunk(list, maxVersions) {
			records = append(records, log.Record{Kind: kindVersions, Payload: encodePart(dir, part, from)})
		}
	}
	return records
}

// maxVersions is the number of versions in a record. Between two records, a
// canceled scan ends.
const maxVersions = 1000

func encodePart(dir string, list []tree.Change, from map[string]string) []byte {
	b := appendText(make([]byte, 0, 64*len(list)), dir)
	for _, c := range list {
		_, name := split(c.Path)
		b = appendText(b, name)
		if c.New == nil {
			b = binary.AppendUvarint(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(c.New.Mode))
		b = binary.AppendUvarint(b, uint64(c.New.Size))
		b = appendText(c.New.Content.AppendSum(b), from[c.Path])
	}
	return b
}

// split returns directory and name of a path; both are empty for the root.
func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errRecord = errors.New("a record is malformed")

// decodeVersions calls visit for each version of a record.
func decodeVersions(b []byte, scheme id.Scheme, visit func(version) error) error {
	bad := false
	number := func() uint64 {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return x
	}
	bytes := func(n uint64) []byte {
		if n > uint64(len(b)) {
			bad, b = true, nil
			return nil
		}
		out := b[:n]
		b = b[n:]
		return out
	}
	dir := string(bytes(number()))
	for !bad && len(b) > 0 {
		name := string(bytes(number()))
		v := version{path: tree.Join(dir, name)}
		if mode := id.Mode(number()); mode != 0 {
			size := number()
			content, err := id.Of(id.Content, scheme.ContentAlg(), bytes(uint64(scheme.ContentAlg().Size())))
			if err != nil || !mode.Valid() {
				return errRecord
			}
			v.from = string(bytes(number()))
			v.node = &tree.Node{Name: name, Mode: mode, Size: int64(size), Content: content, ID: scheme.Node(v.path, mode, content)}
		}
		if bad {
			break
		}
		if err := visit(v); err != nil {
			return err
		}
	}
	if bad {
		return errRecord
	}
	return nil
}
