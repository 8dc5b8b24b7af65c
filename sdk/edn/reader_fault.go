package edn

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// failAt stops the reader with a fault whose path leads to the form at the
// current position.
func (r *reader) failAt(code string, at int, message, hint string) {
	r.setFault(code, at, message, hint, true)
}

// failIn stops the reader with a fault whose path leads to the innermost open
// collection.
func (r *reader) failIn(code string, at int, message, hint string) {
	r.setFault(code, at, message, hint, false)
}

func (r *reader) setFault(code string, at int, message, hint string, withForm bool) {
	if r.fail == nil {
		r.fail = &fault{code: code, at: at, first: -1, message: message, hint: hint, path: r.path(withForm)}
		for i := range r.frames {
			if r.frames[i].tag == tagSecret {
				r.fail.secrets = append(r.fail.secrets, span{r.frames[i].at + 1 + len(tagSecret), len(r.s)})
			}
		}
	}
}

func (r *reader) failUnbalanced(top *frame, at int, want, got byte) {
	if top.kind == KindNil {
		r.failIn("unbalanced", at, strconv.QuoteRune(rune(got))+" closes nothing", "remove it")
		return
	}
	p := positionAt(r.s, top.at)
	r.failIn("unbalanced", at, strconv.QuoteRune(rune(got))+" does not close the "+top.kind.String()+" opened at "+
		strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column), "expected "+strconv.QuoteRune(rune(want)))
}

func (r *reader) tagText(top *frame) string { return "#" + clip(top.tag, 40) }

// path returns the path of the open collections by key or index. With form, the
// last step leads to the form being read.
func (r *reader) path(form bool) []Value {
	var path []Value
	last := len(r.frames)
	if !form {
		last--
		for last > 0 && r.frames[last].kind == KindTagged {
			last--
		}
	}
	for i := range last {
		f := &r.frames[i]
		if f.kind == KindNil || f.kind == KindTagged || f.pend > 0 && i == len(r.frames)-1 {
			continue
		}
		end := len(r.stack)
		if i+1 < len(r.frames) {
			end = r.frames[i+1].base
		}
		n := end - f.base
		for _, block := range f.spill {
			n += len(block)
		}
		switch {
		case f.kind != KindMap:
			path = append(path, Int(int64(n)))
		case n%2 == 0:
			path = append(path, Vector(K("key"), Int(int64(n/2))))
		case end > f.base:
			path = append(path, r.stack[end-1])
		default:
			block := f.spill[len(f.spill)-1]
			path = append(path, block[len(block)-1])
		}
	}
	return path
}

// explain converts a fault to the error for the caller. Duplicates need the
// positions of both forms and excerpts those of secrets; the reader does not
// record them without an error, so the text is read a second time.
func (r *reader) explain(f *fault, text string, set *settings) *SyntaxError {
	duplicate := f.code == "duplicate-key" || f.code == "duplicate-member"
	if duplicate || strings.Contains(text, tagSecret) {
		var secrets []span
		again := newReader(text, set.limits)
		again.json, again.secrets = r.json, &secrets
		if duplicate {
			again.watch, again.observed = f.at, true
		}
		again.run()
		if again.noted != nil {
			again.noted.path, again.noted.secrets = f.path, f.secrets
			f = again.noted
		}
		from, to := lineStart(text, min(f.at, len(text))), lineEnd(text, min(f.at, len(text)))
		for _, s := range secrets {
			if s.end > from && s.start < to {
				f.secrets = append(f.secrets, s)
			}
		}
	}
	e := f.report(text, set.source)
	if !r.json && e.Hint == "" && jsonObject.MatchString(text[:min(len(text), jsonReach)]) {
		e.Message += "; the text looks like JSON, expected EDN"
		e.Hint = "write keys as keywords, such as {:key \"value\"}"
	}
	return e
}

// findDuplicate returns the first part of the watched collection, in the order
// of the text, that repeats an earlier one. Stride is 2 for the keys of a map.
func (r *reader) findDuplicate(k Kind, elems []Value, stride int) *fault {
	order := make([]int, 0, len(elems)/stride)
	for i := 0; i < len(elems); i += stride {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		if c := compare(&elems[a], &elems[b]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	first, second := -1, len(elems)
	for i := 1; i < len(order); i++ {
		if order[i] < second && equal(&elems[order[i-1]], &elems[order[i]]) {
			first, second = order[i-1], order[i]
		}
	}
	if first < 0 {
		return nil
	}
	f := &fault{code: "duplicate-member", at: r.watched[second], first: r.watched[first], hint: hintDuplicateMember}
	what := "member "
	if k == KindMap {
		f.code, f.hint, what = "duplicate-key", hintDuplicateKey, "key "
	}
	f.message = "duplicate " + what + elems[second].brief()
	return f
}
