package livetest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// The shape of the model. It is as small as a whole llama can be.
const (
	width    = 64
	heads    = 4
	inner    = 128
	context  = 8192
	spread   = 0.02 // of the weights of attention and feed-forward
	emphasis = 8    // by how much the next word stands out
)

// Types of values in a GGUF file.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// Kinds of tokens in a GGUF file.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	userToken    = 4
	byteToken    = 6
)

const align = 32

type token struct {
	text  string
	kind  int32
	score float32
}

// Model writes a GGUF file: a llama with seeded random weights whose output layer is arranged so
// that each script is generated word by word after its trigger. In every other respect it is a
// complete model, which the server loads and runs like any other. Equal arguments give equal bytes.
func Model(scripts ...Script) []byte {
	v := newVocabulary(scripts)
	g := &gguf{}
	g.text("general.architecture", "llama")
	g.text("general.name", Name)
	g.number("general.alignment", align)
	g.number("llama.context_length", context)
	g.number("llama.embedding_length", width)
	g.number("llama.block_count", 1)
	g.number("llama.feed_forward_length", inner)
	g.number("llama.attention.head_count", heads)
	g.number("llama.attention.head_count_kv", heads)
	g.number("llama.rope.dimension_count", width/heads)
	g.number("llama.vocab_size", uint32(len(v.tokens)))
	g.float("llama.attention.layer_norm_rms_epsilon", 1e-5)
	g.vocabulary(v)
	g.weights(v)
	return g.file()
}

// Script is the text that the model generates after each of its triggers. The
// words of all scripts differ; a script without an end repeats after its last
// word.
type Script struct {
	Triggers []string
	Words    []string
	Endless  bool
}

// vocabulary holds all tokens, and the token that follows each.
type vocabulary struct {
	tokens []token
	next   []int
	ids    map[string]int
}

const (
	unknown = iota
	begin
	end
)

func newVocabulary(scripts []Script) *vocabulary {
	v := &vocabulary{ids: map[string]int{}}
	v.add("<unk>", unknownToken)
	v.add("<s>", controlToken)
	v.add("</s>", controlToken)
	const hex = "0123456789ABCDEF"
	for b := range 256 {
		v.add("<0x"+string(hex[b>>4])+string(hex[b&15])+">", byteToken)
	}
	for _, s := range scripts {
		var words []int
		for _, w := range s.Words {
			words = append(words, v.add(w, normalToken))
		}
		for _, trigger := range s.Triggers {
			v.next[v.add(trigger, userToken)] = words[0]
		}
		for i, id := range words[:len(words)-1] {
			v.next[id] = words[i+1]
		}
		if s.Endless {
			v.next[words[len(words)-1]] = words[0]
		}
	}
	return v
}

// add adds a token and returns its number. The end token follows it unless next is changed later.
func (v *vocabulary) add(text string, kind int32) int {
	id := len(v.tokens)
	if _, twice := v.ids[text]; twice {
		panic("the word " + text + " is there twice")
	}
	v.ids[text] = id
	v.tokens = append(v.tokens, token{text: text, kind: kind, score: -float32(id)})
	v.next = append(v.next, end)
	return id
}

// gguf builds a GGUF file.
type gguf struct {
	keys    int
	head    bytes.Buffer
	tensors []tensor
}

type tensor struct {
	name  string
	shape []uint64
	data  []float32
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes everything
	}
}

func putText(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

func (g *gguf) key(name string, kind uint32) {
	g.keys++
	putText(&g.head, name)
	put(&g.head, kind)
}

func (g *gguf) text(name, value string) {
	g.key(name, typeString)
	putText(&g.head, value)
}

func (g *gguf) number(name string, n uint32) {
	g.key(name, typeUint32)
	put(&g.head, n)
}

func (g *gguf) float(name string, f float32) {
	g.key(name, typeFloat32)
	put(&g.head, f)
}

func (g *gguf) flag(name string, on bool) {
	g.key(name, typeBool)
	put(&g.head, on)
}

func (g *gguf) list(name string, kind uint32, n int) {
	g.key(name, typeArray)
	put(&g.head, kind, uint64(n))
}

// vocabulary writes the tokens for a tokenizer that merges pieces by their scores.
func (g *gguf) vocabulary(v *vocabulary) {
	g.text("tokenizer.ggml.model", "llama")
	g.list("tokenizer.ggml.tokens", typeString, len(v.tokens))
	for _, t := range v.tokens {
		putText(&g.head, t.text)
	}
	g.list("tokenizer.ggml.scores", typeFloat32, len(v.tokens))
	for _, t := range v.tokens {
		put(&g.head, t.score)
	}
	g.list("tokenizer.ggml.token_type", typeInt32, len(v.tokens))
	for _, t := range v.tokens {
		put(&g.head, t.kind)
	}
	g.number("tokenizer.ggml.bos_token_id", begin)
	g.number("tokenizer.ggml.eos_token_id", end)
	g.number("tokenizer.ggml.unknown_token_id", unknown)
	g.flag("tokenizer.ggml.add_bos_token", true)
	g.flag("tokenizer.ggml.add_eos_token", false)
	g.flag("tokenizer.ggml.add_space_prefix", false)
}

// weights adds the tensors. They are random and small, so that the embedding of a token dominates
// the state. The row of a token in the output layer is the sum of the tokens that precede it in a
// script.
func (g *gguf) weights(v *vocabulary) {
	random := rand.New(rand.NewPCG(2026, 11))
	n := len(v.tokens)
	normal := func(count int, scale float64) []float32 {
		all := make([]float32, count)
		for i := range all {
			all[i] = float32(random.NormFloat64() * scale)
		}
		return all
	}
	ones := func() []float32 {
		all := make([]float32, width)
		for i := range all {
			all[i] = 1
		}
		return all
	}
	embedded := normal(n*width, 1)
	output := make([]float32, n*width)
	for from, to := range v.next {
		if k := v.tokens[from].kind; k == byteToken || k == unknownToken || k == controlToken {
			continue
		}
		for i := range width {
			output[to*width+i] += embedded[from*width+i] * emphasis / float32(math.Sqrt(width))
		}
	}
	g.add("token_embd.weight", embedded, width, n)
	g.add("blk.0.attn_norm.weight", ones(), width)
	for _, part := range []string{"q", "k", "v", "output"} {
		g.add("blk.0.attn_"+part+".weight", normal(width*width, spread), width, width)
	}
	g.add("blk.0.ffn_norm.weight", ones(), width)
	g.add("blk.0.ffn_gate.weight", normal(width*inner, spread), width, inner)
	g.add("blk.0.ffn_up.weight", normal(width*inner, spread), width, inner)
	g.add("blk.0.ffn_down.weight", normal(width*inner, spread), inner, width)
	g.add("output_norm.weight", ones(), width)
	g.add("output.weight", output, width, n)
}

func (g *gguf) add(name string, data []float32, shape ...int) {
	t := tensor{name: name, data: data}
	for _, n := range shape {
		t.shape = append(t.shape, uint64(n))
	}
	g.tensors = append(g.tensors, t)
}

func (g *gguf) file() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put(&b, uint32(3), uint64(len(g.tensors)), uint64(g.keys))
	b.Write(g.head.Bytes())
	offset := uint64(0)
	for _, t := range g.tensors {
		putText(&b, t.name)
		put(&b, uint32(len(t.shape)), t.shape, uint32(0), offset) // 0: 32-bit floats
		offset += uint64(padded(4 * len(t.data)))
	}
	pad(&b)
	for _, t := range g.tensors {
		put(&b, t.data)
		pad(&b)
	}
	return b.Bytes()
}

func padded(n int) int { return (n + align - 1) / align * align }

func pad(b *bytes.Buffer) { b.Write(make([]byte, padded(b.Len())-b.Len())) }
