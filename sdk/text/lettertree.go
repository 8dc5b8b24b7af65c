package text

import "slices"

// letterTree is a trie of words and word prefixes; a lookup takes one step per
// letter. A reversed tree stores word suffixes. Words consist of lower-case
// ASCII letters and digits.
type letterTree struct {
	backwards bool
	single    [letterClasses]int32                 // words of one letter
	pairs     [letterClasses * letterClasses]int32 // nodes by their first two letters
	nodes     []letterNode
}

// letterNode is a node of the tree. Zero means none: no node points to the
// first one, and values count from 1.
type letterNode struct {
	letter      byte
	next, child int32 // sibling, and first child
	whole, open int32 // value of a word that ends here, and of a prefix that ends here
}

// letterClasses is the number of letters and digits, plus 0 for other bytes.
const letterClasses = 37

var letterClass = func() (class [256]uint8) {
	for i := range 26 {
		class['a'+i] = uint8(1 + i)
	}
	for i := range 10 {
		class['0'+i] = uint8(27 + i)
	}
	return class
}()

// letter returns the class of letter i of a word.
func (t *letterTree) letter(word string, i int) byte {
	if t.backwards {
		return word[len(word)-1-i]
	}
	return word[i]
}

func (t *letterTree) pair(word string) *int32 {
	return &t.pairs[letterClasses*int(letterClass[t.letter(word, 0)])+int(letterClass[t.letter(word, 1)])]
}

// add sets n as the value of a word; open words (prefixes) have at least two
// letters.
func (t *letterTree) add(word string, open bool, n int) {
	if len(word) == 1 {
		t.single[letterClass[word[0]]] = int32(n + 1)
		return
	}
	if len(t.nodes) == 0 {
		t.nodes = make([]letterNode, 1)
	}
	at := t.pair(word)
	if *at == 0 {
		*at = t.grow(letterNode{})
	}
	node := *at
	for i := 2; i < len(word); i++ {
		node = t.step(node, t.letter(word, i))
	}
	if open {
		t.nodes[node].open = int32(n + 1)
	} else {
		t.nodes[node].whole = int32(n + 1)
	}
}

func (t *letterTree) grow(n letterNode) int32 {
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// step returns the child for a letter and creates it if needed.
func (t *letterTree) step(node int32, letter byte) int32 {
	child := t.child(node, letter)
	if child == 0 {
		child = t.grow(letterNode{letter: letter, next: t.nodes[node].child})
		t.nodes[node].child = child
	}
	return child
}

func (t *letterTree) child(node int32, letter byte) int32 {
	child := t.nodes[node].child
	for child != 0 && t.nodes[child].letter != letter {
		child = t.nodes[child].next
	}
	return child
}

// find appends the values of the words and prefixes that match word to out, in
// ascending order.
func (t *letterTree) find(word string, out []int) []int {
	if len(word) < 2 {
		if n := t.single[letterClass[word[0]]]; n > 0 {
			out = append(out, int(n-1))
		}
		return out
	}
	for node, i := *t.pair(word), 2; node != 0; i++ {
		here := &t.nodes[node]
		if here.open > 0 {
			out = append(out, int(here.open-1))
		}
		if i == len(word) {
			if here.whole > 0 {
				out = append(out, int(here.whole-1))
			}
			break
		}
		node = t.child(node, t.letter(word, i))
	}
	if len(out) > 1 {
		slices.Sort(out)
	}
	return out
}
