package workspace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

func nodeText(p *page, out edn.Value) {
	n := out.Key("node")
	p.line("%s  %s", orRoot(pathOf(n)), joined("  ", plain(n.Key("kind")), plain(n.Key("mode")), sized(n)))
	p.field("node", p.id(out.Key("node/id")))
	p.field("content", p.id(n.Key("content/id")))
	if l := n.Key("lineage"); !l.IsNil() {
		text := fmt.Sprintf("version %s since transaction %s", plain(l.Key("version")), plain(l.Key("since")))
		if from := plain(l.Key("renamed-from")); from != "" {
			text += ", renamed from " + name(from)
		}
		p.field("lineage", text)
	}
	if at := n.Key("tombstoned-at"); !at.IsNil() {
		p.field("deleted", words(at))
	}
	p.children(n.Key("children"))
	p.field("frames", fmt.Sprintf("%s of %s", counted(number(out.Key("frame/returned")), ""), counted(number(out.Key("frame/count")), "")))
	p.frames(out.Key("frames"))
}

func orRoot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// sized returns the size of a node as text; empty if it has none.
func sized(n edn.Value) string {
	if bytes, ok := n.Key("size").AsInt(); ok && plain(n.Key("kind")) != "dir" {
		return size(int(bytes))
	}
	return ""
}

// children writes the entries of a directory.
func (p *page) children(children edn.Value) {
	if children.Len() == 0 {
		return
	}
	p.field("children", counted(children.Len(), ""))
	var rows []string
	for c := range children.Elems() {
		text := encoded(c, "name")
		if plain(c.Key("kind")) == "dir" {
			text += "/"
		}
		rows = append(rows, text)
	}
	for i, text := range rows {
		if i == maxListed {
			p.line("  and %s more", counted(len(rows)-i, ""))
			break
		}
		p.line("  %s", text)
	}
}

// frames writes frames with their texts.
func (p *page) frames(frames edn.Value) {
	for f := range frames.Elems() {
		p.line("")
		p.line("%s", p.frameLine(f))
		switch content, ok := f.Key("content").AsString(); {
		case f.Key("content/dropped?").Truthy():
			p.line("    (%s, no longer stored: regenerate the frame or put it again)", size(number(f.Key("content/bytes"))))
		case f.Key("content/omitted?").Truthy():
			p.line("    (%s, not shown: raise --max-bytes)", size(number(f.Key("content/bytes"))))
		case f.HasKey("content/b64"):
			p.line("    (%s that are not text)", size(number(f.Key("content/bytes"))))
		case ok && content != "":
			p.WriteString(indented(content, "    "))
		}
	}
}

// frameLine returns a description of a frame on one line.
func (p *page) frameLine(f edn.Value) string {
	text := name(plain(f.Key("frame/type")))
	if path := pathOf(f); path != "" {
		text += " of " + path
	}
	return joined("  ", text, joined(", ", "by "+name(plain(f.Key("agent/id"))), plain(f.Key("frame/origin")), plain(f.Key("state"))),
		day(f.Key("created-at")), p.id(f.Key("frame/id")))
}

func putText(p *page, out edn.Value) {
	p.made("put", "", out)
	p.field("node", p.id(out.Key("node/id")))
	if before := out.Key("head/previous"); !before.IsNil() {
		p.field("previous", p.id(before))
	}
}

// made describes the frame in an output, and whether it is new.
func (p *page) made(verb, from string, out edn.Value) {
	id := p.id(out.Key("frame/id"))
	if out.Key("frame/existing?").Truthy() {
		p.line("frame %s%s exists already", id, from)
		return
	}
	p.line("%s frame %s%s", verb, id, from)
}

func framesText(p *page, out edn.Value) {
	frames := out.Key("frames")
	if frames.Len() == 0 {
		p.line("there are no such frames")
	}
	var rows [][]string
	for f := range frames.Elems() {
		rows = append(rows, []string{name(plain(f.Key("frame/type"))), name(plain(f.Key("agent/id"))), plain(f.Key("frame/origin")),
			dash(plain(f.Key("state"))), size(number(f.Key("content/bytes"))), dash(day(f.Key("created-at"))), p.id(f.Key("frame/id"))})
	}
	p.table([]string{"type", "agent", "origin", "state", "size", "created", "frame"}, rows)
	p.more(out)
}

// more prints the cursor of the next page, if there is one.
func (p *page) more(out edn.Value) {
	if next := plain(out.Key("cursor")); next != "" {
		p.line("more: --cursor %s", name(next))
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func headText(p *page, out edn.Value) {
	f := out.Key("frame")
	p.line("%s  %s", p.id(out.Key("frame/id")), joined(", ", plain(out.Key("state")), words(out.Key("reasons"))))
	if f.IsNil() {
		return
	}
	p.field("type", name(plain(f.Key("frame/type"))))
	p.field("agent", name(plain(f.Key("agent/id"))))
	p.field("origin", plain(f.Key("frame/origin")))
	p.field("basis", p.id(f.Key("basis/id")))
	p.field("size", size(number(f.Key("content/bytes"))))
	p.field("created", joined(", ", day(f.Key("created-at")), "transaction "+plain(f.Key("commit"))))
	if m := f.Key("meta"); m.Len() > 0 {
		p.field("metadata", words(m))
	}
}

func historyText(p *page, out edn.Value) {
	for v := range out.Key("versions").Elems() {
		since := "transaction " + plain(v.Key("since"))
		if until := v.Key("until"); !until.IsNil() {
			since += " to " + plain(until)
		}
		line := joined("  ", since, p.id(v.Key("node/id")), plain(v.Key("mode")))
		if bytes := v.Key("size"); !bytes.IsNil() {
			line = joined("  ", line, size(number(bytes)))
		}
		if from := plain(v.Key("renamed-from")); from != "" {
			line += "  renamed from " + name(from)
		}
		p.line("%s", line)
		for f := range v.Key("frames").Elems() {
			if f.IsMap() {
				p.line("    %s", p.frameLine(f))
			} else {
				p.line("    %s", p.id(f))
			}
		}
	}
	if out.Key("versions").Len() == 0 {
		p.line("there are no such states")
	}
	p.more(out)
}

func composeText(p *page, out edn.Value) {
	if ids := out.Key("ids"); !ids.IsNil() {
		for id := range ids.Elems() {
			p.line("%s", plain(id))
		}
	} else {
		frames := out.Key("frames")
		p.line("%s", counted(frames.Len(), "frame"))
		p.frames(frames)
	}
	if n := number(out.Key("omitted")); n > 0 {
		p.line("")
		p.line("%s left out: raise --max-frames or --max-bytes", counted(n, "frame"))
	}
	if skipped := out.Key("skipped"); skipped.Len() > 0 {
		p.line("")
		p.line("not found:")
		p.list("-", skipped, 0)
	}
}

func batchText(p *page, out edn.Value) {
	p.line("%s: %s ok, %s failed", counted(out.Key("results").Len(), "call"), counted(number(out.Key("ok")), ""),
		counted(number(out.Key("failed")), ""))
	i := 0
	for r := range out.Key("results").Elems() {
		i++
		if e := r.Key("error"); !e.IsNil() {
			p.line("  %d  failed: %s", i, errorText(e))
		} else {
			p.line("  %d  %s", i, p.result(r.Key("out")))
		}
	}
}

// result returns a description of the output of a call of a batch on one line: its scalars and the
// sizes of its collections, without what one head reports about its inputs.
func (p *page) result(out edn.Value) string {
	var parts []string
	for k, v := range out.Entries() {
		switch key := plain(k); {
		case slices.Contains([]string{"root", "seq", "basis", "basis/id", "meta"}, key):
		case v.IsMap() || v.IsVector() || v.IsList() || v.IsSet():
			parts = append(parts, counted(v.Len(), "")+" "+key)
		case wholeID.MatchString(plain(v)):
			parts = append(parts, key+" "+p.id(v))
		default:
			parts = append(parts, key+" "+words(v))
		}
	}
	return joined("  ", parts...)
}

// marks are the marks of changes in a diff.
var marks = []struct{ key, mark string }{
	{"added", "+"}, {"modified", "~"}, {"removed", "-"}, {"renamed", ">"},
}

func diffText(p *page, out edn.Value) {
	for w := range out.Key("warnings").Elems() {
		p.field("warning", words(w))
	}
	if !differs(out) {
		p.line("the states are equal")
		return
	}
	if roots := out.Key("state-roots"); roots.Len() == 2 && !listsChanges(out) {
		from, _ := roots.Nth(0)
		to, _ := roots.Nth(1)
		p.line("all nodes and frames are equal, but the state roots differ, for instance because of deleted nodes")
		p.field("state roots", p.id(from)+", "+p.id(to))
	}
	nodes, frames := out.Key("nodes"), out.Key("frames")
	for _, m := range marks {
		for item := range nodes.Key(m.key).Elems() {
			p.line("%s %s", m.mark, moved(item))
		}
	}
	var rows [][]string
	for k, list := range frames.Entries() {
		for item := range list.Elems() {
			rows = append(rows, []string{plain(k), p.frameChange(item)})
		}
	}
	p.table([]string{"frames", "of"}, rows)
	for c := range out.Key("texts").Elems() {
		p.line("")
		text, ok := c.Key("diff").AsString()
		if !ok {
			p.line("%s", words(c))
			continue
		}
		p.line("%s", joined("  ", pathOf(c), name(plain(c.Key("frame/type")))))
		p.WriteString(indented(text, ""))
	}
}

// moved returns a changed path, or both paths of a rename, as text.
func moved(item edn.Value) string {
	if item.IsVector() && item.Len() == 2 {
		from, _ := item.Nth(0)
		to, _ := item.Nth(1)
		return words(from) + " -> " + words(to)
	}
	return words(item)
}

// frameChange returns one changed frame as text, with short ids.
func (p *page) frameChange(item edn.Value) string {
	if !item.IsMap() {
		return words(item)
	}
	parts := []string{pathOf(item), name(plain(item.Key("frame/type")))}
	for _, key := range []string{"frame/id", "old", "new"} {
		if id := p.id(item.Key(key)); id != "" {
			parts = append(parts, strings.TrimPrefix(key, "frame/")+" "+id)
		}
	}
	return joined("  ", parts...)
}

// differs reports whether the states of a diff differ.
func differs(out edn.Value) bool { return out.HasKey("state-roots") || listsChanges(out) }

// listsChanges reports whether a diff has changes of nodes or frames.
func listsChanges(out edn.Value) bool {
	for _, side := range []string{"nodes", "frames"} {
		for _, list := range out.Key(side).Entries() {
			if number(list) > 0 {
				return true
			}
		}
	}
	return false
}

func agentsText(p *page, out edn.Value) {
	list := out.Key("agents")
	if list.IsNil() {
		p.agent(out)
		return
	}
	var rows [][]string
	for a := range list.Elems() {
		state := "ok"
		if v := a.Key("valid?"); !v.IsNil() && !v.Truthy() {
			state = "INVALID: " + problems(a)
		}
		rows = append(rows, []string{name(plain(a.Key("agent/id"))), plain(a.Key("role")), dash(plain(a.Key("model"))), state})
	}
	p.table([]string{"agent", "role", "model", "state"}, rows)
}

func (p *page) agent(a edn.Value) {
	p.field("agent", name(plain(a.Key("agent/id"))))
	p.field("role", plain(a.Key("role")))
	p.field("model", plain(a.Key("model")))
	p.field("may", words(a.Key("capabilities")))
	p.field("principals", words(a.Key("principals")))
	for k, text := range a.Key("prompts").Entries() {
		p.field(plain(k), words(text))
	}
	if v := a.Key("valid?"); !v.IsNil() && !v.Truthy() {
		p.field("problems", problems(a))
	}
}

// problems returns the problems of an agent.
func problems(a edn.Value) string {
	var list []string
	for v := range a.Key("problems").Elems() {
		list = append(list, words(v))
	}
	return strings.Join(list, "; ")
}

// unsound reports whether a validated agent has a problem.
func unsound(out edn.Value) bool {
	bad := func(a edn.Value) bool { return a.HasKey("valid?") && !a.Key("valid?").Truthy() }
	for a := range out.Key("agents").Elems() {
		if bad(a) {
			return true
		}
	}
	return bad(out)
}
