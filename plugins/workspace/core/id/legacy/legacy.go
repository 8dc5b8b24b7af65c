package legacy

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
	"lukechampine.com/blake3"
)

// ID is a hash of the earlier design.
type ID [32]byte

// Child is an entry of a directory.
type Child struct {
	Name string
	ID   ID
}

// Path returns the form in which an absolute path without symbolic links was
// hashed: in normal form C, without a slash at its end.
func Path(absolute string) string {
	p := norm.NFC.String(absolute)
	if len(p) > 1 {
		p = strings.TrimRight(p, "/")
	}
	return p
}

// Content returns the hash of the bytes of a file.
func Content(b []byte) ID { return blake3.Sum256(b) }

// File returns the id of a file.
func File(path string, content ID, metadata map[string]string) ID {
	return sum("file", size(len(path)), path, text(content), listed(metadata))
}

// Directory returns the id of a directory.
func Directory(path string, children []Child, metadata map[string]string) ID {
	parts := []string{"directory", size(len(path)), path, size(len(children))}
	sorted := slices.SortedFunc(slices.Values(children), func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range sorted {
		parts = append(parts, c.Name, ":", text(c.ID))
	}
	return sum(append(parts, listed(metadata))...)
}

// NodeBasis returns the basis of a frame about a node.
func NodeBasis(node ID) ID { return sum("node:", text(node)) }

// FrameBasis returns the basis of a frame made from a frame.
func FrameBasis(frame ID) ID { return sum("frame:", text(frame)) }

// BothBasis returns the basis of a frame made from a node and a frame.
func BothBasis(node, frame ID) ID { return sum("both:", text(node), text(frame)) }

// Frame returns the id of a frame.
func Frame(basis ID, agent, frameType, content string) ID {
	return sum(text(basis), "agent:", agent, "type:", frameType, "content:", content)
}

// FrameSet returns the root of the Merkle tree over the ids of frames.
func FrameSet(frames []ID) ID {
	if len(frames) == 0 {
		return sum("empty_frame_set")
	}
	level := slices.SortedFunc(slices.Values(frames), func(a, b ID) int { return strings.Compare(text(a), text(b)) })
	for i, f := range level {
		level[i] = sum("frame_leaf", text(f))
	}
	for len(level) > 1 {
		next := level[:0]
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				next = append(next, level[i])
			} else {
				next = append(next, sum(text(level[i]), text(level[i+1])))
			}
		}
		level = next
	}
	return level[0]
}

// Policy is a synthesis policy of the earlier design.
type Policy struct {
	Name    string // concat, summarize or filter
	Maximum uint64 // of filter
}

// SynthesisBasis returns the basis of a synthesized frame. The order of the
// child frames is that of the caller.
func SynthesisBasis(node ID, frames []ID, frameType string, policy Policy) ID {
	parts := []string{text(node)}
	for _, f := range frames {
		parts = append(parts, text(f))
	}
	parts = append(parts, frameType, policy.Name)
	if policy.Name == "filter" {
		parts = append(parts, string(binary.LittleEndian.AppendUint64(nil, policy.Maximum)))
	}
	return sum(parts...)
}

func text(x ID) string { return string(x[:]) }

func size(n int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func listed(metadata map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		b.WriteString(k + ":" + metadata[k] + "\n")
	}
	return b.String()
}

func sum(parts ...string) (x ID) {
	h := blake3.New(len(x), nil)
	for _, p := range parts {
		_, _ = io.WriteString(h, p)
	}
	h.Sum(x[:0])
	return x
}
