package edn

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Read reads exactly one form, with whitespace, comments and discarded forms
// around it. It copies b once; the value shares that copy. Rejected text
// returns a *SyntaxError.
func Read(b []byte, opts ...Option) (Value, error) {
	set := newSettings(opts)
	if len(b) > set.limits.Bytes {
		return Value{}, tooLong(unsafe.String(unsafe.SliceData(b), len(b)), &set)
	}
	return readText(string(b), &set, false)
}

// ReadString is Read for a string, which the value shares without a copy.
func ReadString(s string, opts ...Option) (Value, error) {
	set := newSettings(opts)
	if len(s) > set.limits.Bytes {
		return Value{}, tooLong(s, &set)
	}
	return readText(s, &set, false)
}

// readText reads all of s as EDN or as JSON.
func readText(s string, set *settings, json bool) (Value, error) {
	r := newReader(s, set.limits)
	r.json = json
	r.run()
	v, f := r.root, r.verdict()
	if f != nil {
		return Value{}, r.explain(f, s, set)
	}
	r.release()
	return v, nil
}

// ReadPrefix reads the first form of b and returns its length in bytes,
// including anything before it; the text after it is not examined. To read a
// stream, call it again with b[n:]; the error code "empty-input" means that no
// form is left. The byte limit applies to these n bytes, not to the text after
// them.
func ReadPrefix(b []byte, opts ...Option) (v Value, n int, err error) {
	set := newSettings(opts)
	view := unsafe.String(unsafe.SliceData(b), min(len(b), set.limits.Bytes))
	// The first pass reads in place and keeps nothing: it finds the end.
	// Copying all of b would make reading a stream quadratic.
	r := newReader(view, set.limits)
	r.prefix = true
	r.run()
	f := r.verdict()
	cut := len(view) < len(b)
	if f == nil && cut && r.i == len(view) && class[b[r.i]]&clsEnd == 0 && !endsItself(view[r.i-1]) ||
		f != nil && cut && (f.code == "unexpected-end" || f.code == "empty-input") {
		return Value{}, 0, tooLong(unsafe.String(unsafe.SliceData(b), len(b)), &set)
	}
	if f != nil {
		seen := max(f.at, min(r.i+1, len(view))) // a duplicate is detected at the end of its map
		return Value{}, 0, r.explain(f, strings.Clone(view[:lineEnd(view, seen)]), &set)
	}
	n = r.i
	r.release()
	v, err = readText(string(b[:n]), &set, false)
	return v, n, err
}

// endsItself reports whether c ends a form, whatever follows.
func endsItself(c byte) bool { return c == ')' || c == ']' || c == '}' || c == '"' }

func tooLong(text string, set *settings) *SyntaxError {
	f := fault{
		code: "limit-bytes", at: set.limits.Bytes, first: -1,
		message: "text is longer than " + strconv.Itoa(set.limits.Bytes) + " bytes",
	}
	return f.report(text, set.source)
}

// frame is an open collection or tag; the frame at index 0 is the text.
type frame struct {
	kind  Kind  // KindNil for the text
	mute  bool  // inside a discarded form: tags are not applied
	depth int16 // of the deepest element
	pend  int32 // number of discards that wait for their form
	base  int   // index of its first element on the stack
	at    int   // offset of its opening
	tag   string
	spill [][]Value // elements moved off the stack
}

// reader reads EDN text. It has its own stacks, so that no input can exhaust
// the stack of the goroutine.
type reader struct {
	s      string
	i      int
	lim    Limits
	nodes  int
	json   bool // the text is JSON
	prefix bool // stop after the first form
	have   bool // root is set
	root   Value
	stack  []Value
	high   int // the largest number of elements on the stack
	frames []frame
	fail   *fault
	mem    allocator

	// The fields below are used only to explain an error or to record
	// positions.
	observed bool     // one of the following is set
	watch    int      // offset of the collection whose parts are recorded, or -1
	watched  []int    // offsets of its parts
	noted    *fault   // the duplicate found among them
	secrets  *[]span  // extents of secrets
	tree     *posTree // positions of all forms
}

// run reads until the end, the first form of a prefix, or a fault.
func (r *reader) run() {
	if r.json {
		r.runJSON()
	} else {
		r.runEDN()
	}
}

func (r *reader) runEDN() {
	r.frames = append(r.frames, frame{})
	if strings.HasPrefix(r.s, byteOrderMark) {
		r.i = len(byteOrderMark)
	}
	for r.fail == nil {
		if r.i >= len(r.s) || class[r.s[r.i]]&clsBlank != 0 {
			if r.skipBlank(); r.fail != nil {
				return
			}
		}
		if r.i >= len(r.s) {
			r.atEnd()
			return
		}
		at, c := r.i, r.s[r.i]
		switch c {
		case ')', ']', '}':
			r.closeFrame(at, c)
		case '(':
			r.open(KindList, at, 1)
		case '[':
			r.open(KindVector, at, 1)
		case '{':
			r.open(KindMap, at, 1)
		case '#':
			r.dispatch(at)
		default:
			if !r.begin(at) {
				return
			}
			if v, ok := r.scalar(at, c); ok {
				r.complete(v, at)
			}
		}
		if r.prefix && r.have {
			return
		}
	}
}

// skipBlank skips whitespace and comments.
func (r *reader) skipBlank() {
	s, i := r.s, r.i
	for i < len(s) {
		if class[s[i]]&clsSpace != 0 {
			i++
			continue
		}
		if s[i] != ';' {
			break
		}
		end := lineEnd(s, i)
		if nul := strings.IndexByte(s[i:end], 0); nul >= 0 {
			r.failAt("unexpected-character", i+nul, "unexpected character U+0000", "")
			i += nul
			break
		}
		i = end
	}
	r.i = i
}

// begin counts a form that starts at offset at.
func (r *reader) begin(at int) bool {
	top := &r.frames[len(r.frames)-1]
	if top.pend == 0 && !r.have && r.nodes < r.lim.Nodes {
		r.nodes++
		return true
	}
	return r.beginRare(at, top)
}

// beginRare is begin for the uncommon cases, including errors.
func (r *reader) beginRare(at int, top *frame) bool {
	if top.pend > 0 {
		return true // its discard was already counted
	}
	if len(r.frames) == 1 && r.have {
		if r.startsForm(at) {
			r.failAt("trailing-form", at, "a second form follows the first", "give one form")
		} else {
			r.unexpected(at)
		}
		return false
	}
	return r.count(at)
}

func (r *reader) count(at int) bool {
	if r.nodes >= r.lim.Nodes {
		r.failAt("limit-nodes", at, "more than "+strconv.Itoa(r.lim.Nodes)+" forms", "")
		return false
	}
	r.nodes++
	return true
}

// open pushes a collection whose opening takes width bytes.
func (r *reader) open(k Kind, at, width int) {
	if r.begin(at) && r.push(k, at) {
		r.i = at + width
	}
}

func (r *reader) push(k Kind, at int) bool {
	if len(r.frames) > r.lim.Depth {
		r.failAt("limit-depth", at, "nested deeper than "+strconv.Itoa(r.lim.Depth), "")
		return false
	}
	top := &r.frames[len(r.frames)-1]
	r.frames = append(r.frames, frame{kind: k, at: at, base: len(r.stack), mute: top.mute || top.pend > 0})
	if r.tree != nil {
		r.tree.open()
	}
	return true
}

// complete adds a form that started at offset at to its parent.
func (r *reader) complete(v Value, at int) {
	top := &r.frames[len(r.frames)-1]
	if top.pend > 0 || !top.kind.isCollection() || r.observed || len(r.stack)-top.base >= spillSize {
		r.completeRare(v, at)
		return
	}
	if v.kind >= KindList {
		top.depth = max(top.depth, int16(v.Depth()))
	}
	r.stack = append(r.stack, v)
}

// completeRare is complete for the form after a discard or a tag, for the end
// of the text, for collections that outgrow the stack, and for readers that
// record positions.
func (r *reader) completeRare(v Value, at int) {
	for {
		top := &r.frames[len(r.frames)-1]
		switch {
		case top.pend > 0:
			top.pend--
			if r.tree != nil {
				r.tree.drop()
			}
			return
		case top.kind == KindTagged:
			start := top.at
			tagged, ok := r.closeTag(top, v, at)
			if !ok {
				return
			}
			if r.tree != nil {
				r.tree.closeTag(at, r.i, tagged.kind == KindTagged)
			}
			v, at = tagged, start
			continue
		case top.kind == KindNil:
			r.root, r.have = v, true
		default:
			if v.kind >= KindList {
				top.depth = max(top.depth, int16(v.Depth()))
			}
			if len(r.stack)-top.base >= spillSize && r.tree == nil {
				r.spill(top)
			}
			r.stack = append(r.stack, v)
		}
		if r.tree != nil {
			r.tree.add(at, r.i)
		}
		if r.watch >= 0 && top.at == r.watch && top.kind != KindNil {
			r.watched = append(r.watched, at)
		}
		return
	}
}

// spillSize is the number of elements of one collection that may wait on the
// stack. Elements of larger ones move to blocks of exact size, because growing
// the stack by doubling would need more than 64 bytes per element. It is even,
// so that an entry of a map is never split.
const spillSize = 512

func (r *reader) spill(top *frame) {
	r.high = max(r.high, len(r.stack))
	top.spill = append(top.spill, slices.Clone(r.stack[top.base:]))
	r.stack = r.stack[:top.base]
}

// closeFrame ends the innermost collection at a closing bracket.
func (r *reader) closeFrame(at int, c byte) {
	top := &r.frames[len(r.frames)-1]
	if top.pend > 0 {
		r.failAt("unexpected-end", at, "#_ has no form to discard", "")
		return
	}
	if top.kind == KindTagged {
		r.failAt("invalid-tag", at, "tag "+r.tagText(top)+" has no form", "")
		return
	}
	if want := closerOf(top.kind); want != c {
		r.failUnbalanced(top, at, want, c)
		return
	}
	elems := r.takeElems(top)
	var ok bool
	switch top.kind {
	case KindMap:
		ok = r.finishMap(top, at, elems)
	case KindSet:
		ok = r.finishSet(top, elems)
	default:
		ok = true
	}
	if !ok {
		return
	}
	r.i = at + 1
	v := Value{kind: top.kind, num: uint64(len(elems)), aux: top.depth + 1}
	if len(elems) > 0 {
		v.p = unsafe.Pointer(r.mem.node(elems, len(r.s)-r.i))
	}
	start := top.at
	r.frames = r.frames[:len(r.frames)-1]
	if r.tree != nil {
		r.tree.close()
	}
	r.complete(v, start)
}

func closerOf(k Kind) byte {
	switch k {
	case KindList:
		return ')'
	case KindVector:
		return ']'
	case KindMap, KindSet:
		return '}'
	}
	return 0
}

// takeElems moves the elements of top from the stack to memory of their own.
func (r *reader) takeElems(top *frame) []Value {
	r.high = max(r.high, len(r.stack))
	tail := r.stack[top.base:]
	n := len(tail)
	for _, block := range top.spill {
		n += len(block)
	}
	elems := r.mem.values(n, len(r.s)-r.i)
	filled := 0
	for i, block := range top.spill {
		filled += copy(elems[filled:], block)
		top.spill[i] = nil
	}
	copy(elems[filled:], tail)
	r.stack = r.stack[:top.base]
	return elems
}

func (r *reader) finishMap(top *frame, at int, elems []Value) bool {
	if len(elems)%2 != 0 {
		last := &elems[len(elems)-1]
		r.failIn("odd-map", at, "map has a key without a value: "+last.brief(), "give the key a value or remove it")
		return false
	}
	list := entries(elems)
	if r.watch == top.at {
		r.noted = r.findDuplicate(top.kind, elems, 2)
	}
	if r.tree != nil {
		r.tree.sort(elems, 2)
	}
	if !sortEntries(list) {
		r.failIn("duplicate-key", top.at, "duplicate key "+list[duplicateKey(list)].Key.brief(), hintDuplicateKey)
		return false
	}
	return true
}

func (r *reader) finishSet(top *frame, elems []Value) bool {
	if r.watch == top.at {
		r.noted = r.findDuplicate(top.kind, elems, 1)
	}
	if r.tree != nil {
		r.tree.sort(elems, 1)
	}
	if !sortMembers(elems) {
		r.failIn("duplicate-member", top.at, "duplicate member "+elems[duplicateMember(elems)].brief(), hintDuplicateMember)
		return false
	}
	return true
}

const (
	hintDuplicateKey    = "merge the two values or rename one key"
	hintDuplicateMember = "remove one of the two members"
)

// closeTag applies a tag to its form, which starts at offset at, and pops the
// tag.
func (r *reader) closeTag(top *frame, v Value, at int) (Value, bool) {
	if top.tag == tagSecret && r.secrets != nil {
		*r.secrets = append(*r.secrets, span{at, r.i})
	}
	var out Value
	if top.mute {
		out = taggedValue(top.tag, v)
	} else {
		var code, message string
		if out, code, message = applyTag(top.tag, v); code != "" {
			r.failAt(code, top.at, message, "")
			return Value{}, false
		}
	}
	r.frames = r.frames[:len(r.frames)-1]
	return out, true
}

// atEnd handles the end of the text.
func (r *reader) atEnd() {
	if r.fail != nil {
		return
	}
	top := &r.frames[len(r.frames)-1]
	switch {
	case top.pend > 0:
		r.failAt("unexpected-end", len(r.s), "text ends where #_ has no form to discard", "")
	case top.kind == KindNil && !r.have:
		r.failAt("empty-input", len(r.s), "there is no form", "")
	case top.kind == KindTagged:
		r.failAt("unexpected-end", len(r.s), "text ends behind tag "+r.tagText(top), "")
	case top.kind != KindNil:
		p := positionAt(r.s, top.at)
		r.failIn("unexpected-end", len(r.s), "text ends inside the "+top.kind.String()+" opened at "+
			strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column), "close it with "+strconv.Quote(string(closerOf(top.kind))))
	}
}

// verdict returns the fault of a finished run. The text that was read is
// checked for valid UTF-8: an invalid byte before the fault is the first error.
func (r *reader) verdict() *fault {
	end := r.i
	if r.fail != nil {
		end = min(r.fail.at, len(r.s))
	}
	if utf8.ValidString(r.s[:end]) {
		return r.fail
	}
	at := invalidUTF8(r.s[:end])
	return &fault{code: "invalid-utf8", at: at, first: -1, message: "text is not valid UTF-8"}
}

func invalidUTF8(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(s)
}
