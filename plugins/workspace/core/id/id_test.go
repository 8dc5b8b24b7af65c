package id

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var schemes = []Scheme{B3, S2, GitSHA1, GitSHA256}

// WS-005: the text form of every kind and algorithm is parsed as what it was
// written from, and only as its kind.
func TestTextForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alg := rapid.SampledFrom([]Alg{BLAKE3, SHA256, gitSHA1Alg, gitSHA256Alg}).Draw(t, "alg")
		kind := rapid.SampledFrom([]Kind{Content, Node, Basis, Frame, Record, State, Prompt, Context, Params}).Draw(t, "kind")
		if alg.git() {
			kind = Content
		}
		x, err := Of(kind, alg, rapid.SliceOfN(rapid.Byte(), alg.Size(), alg.Size()).Draw(t, "sum"))
		require.NoError(t, err)
		back, err := Parse(kind, x.String())
		require.NoError(t, err)
		assert.Equal(t, x, back)
		for _, other := range []Kind{Content, Frame} {
			if other != kind {
				_, err := Parse(other, x.String())
				require.ErrorIs(t, err, contract.OfType("input/invalid"))
			}
		}
	})
}

// WS-005, WS-220: other kinds, versions, algorithms, lengths and upper case are
// rejected, and the error says which.
func TestTextFormRejects(t *testing.T) {
	good := B3.Bytes([]byte("x")).String()
	digits := good[len("c1-b3-"):]
	for text, reason := range map[string]string{
		"":                                    "form",
		"c1b3" + digits:                       "form",
		"c1-b3-" + digits + "-":               "form",
		"z1-b3-" + digits:                     "kind",
		"n1-b3-" + digits:                     "kind",
		"c2-b3-" + digits:                     "version",
		"c1-b4-" + digits:                     "algorithm",
		"c1-b3-" + digits[1:]:                 "digits",
		"c1-b3-" + digits[2:]:                 "length",
		"c1-g1-" + digits:                     "length",
		"c1-b3-" + strings.ToUpper(digits):    "case",
		"c1-b3-" + digits[:62] + "0x":         "digits",
		"n1-g1-" + strings.Repeat("0", 40):    "algorithm",
		"c1-b3-" + digits[:63] + "\u0661"[:1]: "digits",
	} {
		_, err := Parse(Content, text)
		var e *contract.Error
		require.ErrorAs(t, err, &e, text)
		assert.Equal(t, "input/invalid", e.Type, text)
		got, _ := e.Details.Get(edn.K("reason"))
		assert.True(t, edn.Equal(edn.K(reason), got), "%q: %s", text, got)
	}
	require.Error(t, S2.Check(B3.Bytes(nil)))
	require.NoError(t, GitSHA1.Check(GitSHA1.Bytes(nil)))
	require.NoError(t, GitSHA1.Check(GitSHA1.Node("a", File, GitSHA1.Bytes(nil))))
	require.Error(t, GitSHA1.Check(B3.Bytes(nil)))
}

func FuzzParse(f *testing.F) {
	f.Add(B3.Bytes(nil).String())
	f.Add("c1-g1-" + strings.Repeat("0", 40))
	f.Fuzz(func(t *testing.T, text string) {
		var x ID
		if err := x.UnmarshalText([]byte(text)); err == nil && x.String() != text {
			t.Errorf("%q is read as %q", text, x)
		}
	})
}

// WS-003: E is injective: a reader that knows only the framing gets the fields
// back from what is hashed.
func TestEncodingIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alg := rapid.SampledFrom([]Alg{BLAKE3, SHA256}).Draw(t, "alg")
		domain := rapid.SampledFrom([]Domain{domainNode, domainDirectory, domainState}).Draw(t, "domain")
		fields := rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "fields")
		items := rapid.SliceOfN(rapid.SliceOfN(rapid.String(), 0, 3), 0, 4).Draw(t, "items")
		n := rapid.Uint64().Draw(t, "number")
		x := B3.Bytes([]byte(rapid.String().Draw(t, "content")))

		e := begin(alg, domain)
		for _, s := range fields {
			e.text(s)
		}
		e.number(n)
		e.id(x)
		e.id(ID{})
		e.list(len(items), func(i int) {
			for _, s := range items[i] {
				e.text(s)
			}
		})

		in := e.b
		require.Equal(t, fmt.Sprintf("ferment\x00\x01%c%c", alg, domain), string(in[:11]))
		in = in[11:]
		field := func() []byte {
			n := binary.BigEndian.Uint64(in)
			out := in[8 : 8+n]
			in = in[8+n:]
			return out
		}
		for _, s := range fields {
			require.Equal(t, s, string(field()))
		}
		require.Equal(t, n, binary.BigEndian.Uint64(field()))
		require.Equal(t, x.AppendSum([]byte{byte(x.alg)}), field())
		require.Empty(t, field())
		count := binary.BigEndian.Uint64(in)
		in = in[8:]
		require.Len(t, items, int(count))
		for _, item := range items {
			whole := field()
			rest := in
			in = whole
			for _, s := range item {
				require.Equal(t, s, string(field()))
			}
			require.Empty(t, in)
			in = rest
		}
		require.Empty(t, in)
	})
}

// WS-003, WS-004: the hash is that of the library over E, for inputs on both
// sides of each limit of the implementation, however they are cut into pieces.
func TestBlobIsTheHashOfItsEncoding(t *testing.T) {
	text := make([]byte, 3*smallBlob+17)
	for i := range text {
		text[i] = byte(i * 7 / 3)
	}
	head := "ferment\x00\x01\x01\x01"
	var sizes []int
	for _, edge := range []int{0, 64, 1024, 2048, smallBlob / 2, smallBlob, 2 * smallBlob, 3 * smallBlob} {
		for d := -2; d <= 2; d++ {
			for _, n := range []int{edge + d, edge - len(head) + d} {
				if n >= 0 {
					sizes = append(sizes, n)
				}
			}
		}
	}
	b := B3.NewBlob()
	for _, n := range sizes {
		want := blake3.Sum256(append([]byte(head), text[:n]...))
		for _, piece := range []int{1 << 20, smallBlob, 1000, 7} {
			b.Reset(int64(n))
			for part := range slices.Chunk(text[:n], piece) {
				_, _ = b.Write(part)
			}
			require.Equal(t, want[:], b.ID().Sum(), "%d bytes in pieces of %d", n, piece)
		}
		require.Equal(t, want[:], B3.Bytes(text[:n]).Sum(), "%d bytes", n)
	}
}

// Ids are stored, so they never change: these are the ids of the first version.
func TestVectors(t *testing.T) {
	var lines []string
	for _, s := range schemes {
		file := s.Bytes([]byte("hello\n"))
		dir := s.Directory([]Entry{{Mode: Exec, Name: "b", Content: file}, {Mode: File, Name: "a", Content: file}})
		node := s.Node("src", Dir, dir)
		basis := s.Basis([]Input{{Kind: InputNode, ID: node}, {Kind: InputType, Text: "note"}})
		frame := s.Frame("src", basis, "writer", "note", file)
		for _, x := range []ID{
			file, dir, node, basis, frame,
			s.Generated("src", basis, "writer", "note", 1),
			s.Record(Stored{Frame: frame, Content: file, Origin: "authored", Recipe: "{}", Metadata: "{}", CreatedAt: 1}),
			s.FrameSet(nil), s.FrameSet([]ID{frame}), s.FrameSet([]ID{frame, s.Generated("", basis, "", "", 0), s.Generated("", basis, "", "", 1)}),
			s.StateRoot([]PathState{{Path: "src", Node: node, FrameSet: s.FrameSet([]ID{frame}), Heads: []Head{{Type: "note", Frame: frame}}}}),
			s.Prompt("a", "b"), s.Params("{}"), s.Context([]Input{{Kind: InputChild, Text: "a", ID: file}}),
		} {
			lines = append(lines, s.String()+" "+x.String())
		}
		sum := s.Alg().Chain([ChainSize]byte{1}, 2, []byte("x"))
		lines = append(lines, fmt.Sprintf("%s chain %x", s, sum))
	}
	got := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", "vectors.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// WS-015: git computes the same ids for blobs and trees.
func TestGitObjects(t *testing.T) {
	coretest.NeedGit(t)
	for _, s := range []Scheme{GitSHA1, GitSHA256} {
		dir := t.TempDir()
		format := strings.TrimPrefix(s.String(), "git-")
		run := func(stdin string, args ...string) string {
			cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			out, err := cmd.Output()
			require.NoError(t, err, args)
			return strings.TrimSpace(string(out))
		}
		run("", "init", "-q", "--object-format="+format)
		blob := s.Bytes([]byte("hello\n"))
		assert.Equal(t, run("hello\n", "hash-object", "-w", "--stdin"), blob.Hex())
		entries := []Entry{
			{Mode: File, Name: "a.b", Content: blob},
			{Mode: Link, Name: "a0", Content: blob},
			{Mode: Dir, Name: "a", Content: s.Directory([]Entry{{Mode: Exec, Name: "x", Content: blob}})},
			{Mode: Dir, Name: "empty", Content: s.Directory(nil)},
			{Mode: Exec, Name: "a-", Content: blob},
		}
		sub := run("100755 blob "+blob.Hex()+"\tx\n", "mktree")
		want := run("100644 blob "+blob.Hex()+"\ta.b\n120000 blob "+blob.Hex()+"\ta0\n040000 tree "+sub+"\ta\n100755 blob "+blob.Hex()+"\ta-\n", "mktree")
		assert.Equal(t, want, s.Directory(entries).Hex())
	}
	assert.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte("blob 0\x00"))), GitSHA1.Bytes(nil).Hex())
}

// WS-010, WS-011: every input of a frame id counts, and the classes differ.
func TestFrameIDs(t *testing.T) {
	basis, content := B3.Basis(nil), B3.Bytes([]byte("t"))
	all := []ID{
		B3.Frame("p", basis, "a", "t", content),
		B3.Frame("q", basis, "a", "t", content),
		B3.Frame("p", B3.Basis([]Input{{Kind: InputType}}), "a", "t", content),
		B3.Frame("p", basis, "b", "t", content),
		B3.Frame("p", basis, "a", "u", content),
		B3.Frame("p", basis, "a", "t", B3.Bytes(nil)),
		B3.Frame("pa", basis, "", "t", content),
		B3.Generated("p", basis, "a", "t", 0),
		B3.Generated("p", basis, "a", "t", 1),
	}
	slices.SortFunc(all, ID.Compare)
	assert.Len(t, slices.Compact(all), 9)
}

// WS-009: the id of a basis depends on the kind, text and id of every entry and on
// their order.
func TestBasisIDs(t *testing.T) {
	x, y := B3.Bytes([]byte("x")), B3.Bytes([]byte("y"))
	var all []ID
	add := func(inputs ...Input) { all = append(all, B3.Basis(inputs)) }
	add()
	kinds := []string{InputNode, InputPath, InputFrame, InputChild, InputType, InputPolicy, InputPrompt, InputContext, InputParams}
	for _, kind := range kinds {
		add(Input{Kind: kind, ID: x, Text: "t"})
		add(Input{Kind: kind, ID: y, Text: "t"})
		add(Input{Kind: kind, ID: x, Text: "u"})
		add(Input{Kind: kind, ID: x}, Input{Kind: kind, ID: y})
		add(Input{Kind: kind, ID: y}, Input{Kind: kind, ID: x})
		add(Input{Kind: kind, ID: x}, Input{Kind: kind, ID: x})
	}
	assert.Equal(t, B3.Basis([]Input{{Kind: InputNode, ID: x}}), B3.Basis([]Input{{Kind: InputNode, ID: x}}))
	assert.NotEqual(t, B3.Basis(nil), S2.Basis(nil))
	count := len(all)
	slices.SortFunc(all, ID.Compare)
	assert.Len(t, slices.Compact(all), count)
	assert.Equal(t, 1+6*len(kinds), count)
}

// WS-013: the root depends on the set only; the order of insertion does not
// matter, every member does.
func TestFrameSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var frames []ID
		for i := range rapid.IntRange(0, 40).Draw(t, "n") {
			frames = append(frames, B3.Generated("", ID{}, "", "", uint64(i)))
		}
		root := B3.FrameSet(frames)
		shuffled := rapid.Permutation(slices.Clone(frames)).Draw(t, "order")
		assert.Equal(t, root, B3.FrameSet(shuffled))
		growing := B3.NewFrameTree()
		for i, f := range shuffled { // asked for after each, and added twice
			growing.Add(f)
			growing.Add(shuffled[rapid.IntRange(0, i).Draw(t, "again")])
			require.Equal(t, B3.FrameSet(shuffled[:i+1]), growing.Root())
		}
		assert.Equal(t, []any{root, len(frames)}, []any{growing.Root(), growing.Size()})
		for i := range frames {
			assert.NotEqual(t, root, B3.FrameSet(slices.Delete(slices.Clone(frames), i, i+1)))
		}
		assert.NotEqual(t, root, B3.FrameSet(append(frames, B3.Generated("x", ID{}, "", "", 0))))
	})
}

// rootAsDocumented returns the root of a set of frames by the definition in README.md of the plugin,
// without the encoder of this package. hash is that of the algorithm with the byte alg.
func rootAsDocumented(alg byte, hash func([]byte) [32]byte, frames [][]byte) []byte {
	sum := func(domain byte, fields ...[]byte) []byte {
		e := append([]byte("ferment\x00\x01"), alg, domain)
		for _, f := range fields {
			e = append(binary.BigEndian.AppendUint64(e, uint64(len(f))), f...)
		}
		h := hash(e)
		return h[:]
	}
	id := func(sum []byte) []byte { return append([]byte{alg}, sum...) }
	var tree func(frames [][]byte, bit int) []byte
	tree = func(frames [][]byte, bit int) []byte {
		if len(frames) == 1 {
			return sum(7, id(frames[0]))
		}
		var sides [2][][]byte
		for _, f := range frames {
			side := f[bit/8] >> (7 - bit%8) & 1
			sides[side] = append(sides[side], f)
		}
		if len(sides[0]) == 0 || len(sides[1]) == 0 {
			return tree(frames, bit+1)
		}
		return sum(8, id(tree(sides[0], bit+1)), id(tree(sides[1], bit+1)))
	}
	var top []byte
	if len(frames) > 0 {
		top = id(tree(frames, 0))
	}
	return sum(9, binary.BigEndian.AppendUint64(nil, uint64(len(frames))), top)
}

// WS-013: the root is that of the documented definition.
func TestFrameSetByDefinition(t *testing.T) {
	var frames []ID
	var sums [][]byte
	for n := range 500 {
		require.Equal(t, rootAsDocumented(1, blake3.Sum256, sums), B3.FrameSet(frames).Sum(), "%d frames", n)
		frames = append(frames, B3.Generated("", ID{}, "", "", uint64(n)))
		sums = append(sums, frames[n].Sum())
	}
}

// exampleRoot is a row of the examples in README.md of the plugin: an algorithm, frames, and the root of their set.
var exampleRoot = regexp.MustCompile("(?m)^\\| (b3|s2) \\| ([0-9a-f ]*)\\| `(s1-[^`]+)` \\|$")

// WS-013: the examples of the document are right, by its definition and by the code.
func TestFrameSetExamples(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	rows := exampleRoot.FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		scheme, alg, hash := B3, byte(1), blake3.Sum256
		if row[1] == "s2" {
			scheme, alg, hash = S2, 2, sha256.Sum256
		}
		var frames []ID
		var sums [][]byte
		for _, digits := range strings.Fields(row[2]) {
			frame, err := Parse(Frame, "f1-"+row[1]+"-"+digits+strings.Repeat("0", 64-len(digits)))
			require.NoError(t, err)
			frames, sums = append(frames, frame), append(sums, frame.Sum())
		}
		assert.Equal(t, row[3], scheme.FrameSet(frames).String(), row[2])
		assert.Equal(t, row[3], fmt.Sprintf("s1-%s-%x", row[1], rootAsDocumented(alg, hash, sums)), row[2])
	}
}

// WS-006: names and modes are part of the id; the order of the entries is not.
func TestDirectory(t *testing.T) {
	for _, s := range schemes {
		a := Entry{Mode: File, Name: "a", Content: s.Bytes([]byte("1"))}
		b := Entry{Mode: File, Name: "b", Content: s.Bytes([]byte("2"))}
		root := s.Directory([]Entry{a, b})
		assert.Equal(t, root, s.Directory([]Entry{b, a}))
		exec, renamed := a, a
		exec.Mode, renamed.Name = Exec, "c"
		assert.NotEqual(t, root, s.Directory([]Entry{exec, b}))
		assert.NotEqual(t, root, s.Directory([]Entry{renamed, b}))
		empty := Entry{Mode: Dir, Name: "e", Content: s.Directory(nil)}
		assert.Equal(t, s.Git(), root == s.Directory([]Entry{a, b, empty}))
		assert.Equal(t, s.Git(), s.EmptyTree(s.Directory([]Entry{empty})))
	}
}

func TestSumDoesNotReadBehindItsInput(t *testing.T) {
	long := bytes.Repeat([]byte("x"), smallBlob)
	assert.Equal(t, BLAKE3.Sum(slices.Clone(long[:3000])), BLAKE3.Sum(long[:3000]))
}

func BenchmarkBlob2KiB(b *testing.B) {
	text, h := make([]byte, 2048), B3.NewBlob()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		h.Reset(int64(len(text)))
		_, _ = h.Write(text)
		_ = h.ID()
	}
}

func BenchmarkNode(b *testing.B) {
	content := B3.Bytes(nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = B3.Node("host/internal/orchestration/dispatch/drive.go", File, content)
	}
}
