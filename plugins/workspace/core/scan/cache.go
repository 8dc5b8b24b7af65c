package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// cacheMagic begins a stat cache. Its digit changes with the format.
const cacheMagic = "ferment-stat-cache 1\n"

// SaveCache writes the tree of a result, with the file information of the
// system, to path, so that the first scan of another process reads only changed
// files. The file is replaced atomically; its last bytes are a hash of the
// rest.
func SaveCache(path string, r *Result) error {
	b := append([]byte(cacheMagic), r.Tree.Scheme.String()...)
	root := *r.Tree.Root
	root.Stat.Inode = r.Inode // other directories have no file information
	b = appendNode(append(b, '\n'), &root)
	sum := id.BLAKE3.Sum(b)
	return renameio.WriteFile(path, append(b, sum[:]...), 0o600)
}

func appendNode(b []byte, n *tree.Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(n.Name)))
	b = append(b, n.Name...)
	b = binary.AppendUvarint(b, uint64(n.Mode))
	b = binary.AppendVarint(b, n.Size)
	b = n.Content.AppendSum(b)
	b = n.ID.AppendSum(b)
	b = binary.AppendVarint(b, n.Stat.MTime)
	b = binary.AppendVarint(b, n.Stat.CTime)
	b = binary.AppendUvarint(b, n.Stat.Inode)
	trusted := uint64(0)
	if n.Stat.Trusted {
		trusted = 1
	}
	b = binary.AppendUvarint(b, uint64(n.Stat.Mode)<<1|trusted)
	b = binary.AppendUvarint(b, uint64(len(n.Children)))
	for _, c := range n.Children {
		b = appendNode(b, c)
	}
	return b
}

// errCache means that a stat cache is damaged, or of another format or scheme.
var errCache = errors.New("the stat cache cannot be used")

// LoadCache reads a stat cache. A file that is missing, damaged or of another
// scheme is an error; the next scan then reads every file.
func LoadCache(path string, scheme id.Scheme) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head := cacheMagic + scheme.String() + "\n"
	if len(b) < len(head)+id.ChainSize {
		return nil, errCache
	}
	body, sum := b[:len(b)-id.ChainSize], b[len(b)-id.ChainSize:]
	if want := id.BLAKE3.Sum(body); !bytes.Equal(sum, want[:]) || string(body[:len(head)]) != head {
		return nil, errCache
	}
	d := decoder{b: body[len(head):], scheme: scheme}
	root := d.node(0)
	if d.bad || len(d.b) > 0 {
		return nil, errCache
	}
	return &Result{Tree: &tree.Tree{Scheme: scheme, Root: root}, Complete: true, Inode: root.Stat.Inode}, nil
}

// decoder reads the nodes of a stat cache.
type decoder struct {
	b      []byte
	scheme id.Scheme
	bad    bool
}

func (d *decoder) unsigned() uint64 {
	x, n := binary.Uvarint(d.b)
	return x * uint64(d.skip(n))
}

func (d *decoder) signed() int64 {
	x, n := binary.Varint(d.b)
	return x * int64(d.skip(n))
}

// skip drops the bytes of a number and returns 1, or 0 if there was none.
func (d *decoder) skip(n int) int {
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return 1
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) id(kind id.Kind, alg id.Alg) id.ID {
	x, err := id.Of(kind, alg, d.bytes(uint64(alg.Size())))
	d.bad = d.bad || err != nil
	return x
}

func (d *decoder) node(depth int) *tree.Node {
	n := &tree.Node{Name: string(d.bytes(d.unsigned()))}
	n.Mode = id.Mode(d.unsigned())
	n.Size = d.signed()
	n.Content, n.ID = d.id(id.Content, d.scheme.ContentAlg()), d.id(id.Node, d.scheme.Alg())
	n.Stat = tree.Stat{MTime: d.signed(), CTime: d.signed(), Inode: d.unsigned()}
	mode := d.unsigned()
	n.Stat.Mode, n.Stat.Trusted = uint32(mode>>1), mode&1 == 1
	count := d.unsigned()
	if d.bad = d.bad || depth > maxDepth+1 || count > uint64(len(d.b)); d.bad {
		return n
	}
	n.Children = make([]*tree.Node, count)
	for i := range n.Children {
		if n.Children[i] = d.node(depth + 1); d.bad {
			return n
		}
	}
	n.Counted()
	return n
}
