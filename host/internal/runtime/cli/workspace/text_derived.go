package workspace

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
)

func synthesizeText(p *page, out edn.Value) {
	p.made("made", " from "+counted(number(out.Key("inputs")), "input"), out)
	p.field("basis", p.id(out.Key("basis/id")))
	if n := number(out.Key("stale-inputs")); n > 0 {
		p.field("stale", counted(n, "input"))
	}
	if built, reused := number(out.Key("built")), number(out.Key("reused")); built+reused > 0 {
		p.field("below", fmt.Sprintf("%s made, %s reused", counted(built, ""), counted(reused, "")))
	}
	if n := number(out.Key("omitted")); n > 0 {
		p.field("omitted", counted(n, "input"))
	}
	p.list("-", out.Key("skipped"), 0)
}

func regenerateText(p *page, out edn.Value) {
	p.counts(out.Key("counts"))
	if out.Key("items").Len() == 0 {
		p.line("nothing to make again in the tree of the last scan; \"ferment workspace scan\" reads later changes")
	}
	p.items(out.Key("items"))
	if stale := out.Key("authored-stale"); stale.Len() > 0 {
		p.line("%s that a person or an agent wrote, about an older state:", counted(stale.Len(), "frame"))
		p.list("!", stale, 0)
	}
}

// counts writes the number of targets for each outcome.
func (p *page) counts(c edn.Value) {
	made := number(c.Key("file")) + number(c.Key("directory"))
	p.line("made %s (%s of files, %s of directories), reused %s, skipped %s, failed %s", counted(made, "frame"),
		counted(number(c.Key("file")), ""), counted(number(c.Key("directory")), ""), counted(number(c.Key("reused")), ""),
		counted(number(c.Key("skipped")), ""), counted(number(c.Key("failed")), ""))
}

// items writes the outcome of each target, except for those whose frame is not changed, which are
// counted as reused.
func (p *page) items(items edn.Value) {
	var rows [][]string
	for i := range items.Elems() {
		if i.Key("outcome").Equal(edn.K("reused")) && i.Key("new").Equal(i.Key("old")) {
			continue
		}
		what := plain(i.Key("reason"))
		if what == "missing" {
			what = "first frame"
		}
		if n := number(i.Key("stale-inputs")); n > 0 {
			what += ", from " + counted(n, "stale input")
		}
		if e := i.Key("error"); !e.IsNil() {
			what = "failed: " + errorText(e)
			if hint, ok := e.Key("hint").AsString(); ok {
				what += "; next: " + hint
			}
		} else if i.Key("outcome").Equal(edn.K("skipped")) {
			what = "skipped: " + words(i.Key("why"))
		}
		id := p.id(i.Key("new"))
		if id == "" {
			id = p.id(i.Key("frame/id"))
		}
		rows = append(rows, []string{orRoot(pathOf(i)), dash(name(plain(i.Key("frame/type")))), dash(id), dash(what)})
	}
	p.table([]string{"path", "type", "frame", "reason"}, rows)
}

// errorText returns the error of an item as text: its message and its type.
func errorText(e edn.Value) string {
	return words(e.Key("message")) + " (:" + plain(e.Key("type")) + ")"
}

// someFailed reports whether an item failed.
func someFailed(_ *invocation, out edn.Value) bool {
	return number(out.Key("counts").Key("failed")) > 0
}

func invalidateText(p *page, out edn.Value) {
	p.line("marked %s as invalid", counted(number(out.Key("invalidated")), "head"))
}

func generateText(p *page, out edn.Value) {
	if id := out.Key("frame/id"); !id.IsNil() {
		p.made("made", "", out)
		a := out.Key("attribution")
		provider := a.Key("provider")
		p.field("model", joined(" ", plain(a.Key("cap/id")), plain(provider.Key("name")), plain(provider.Key("model"))))
		if usage := a.Key("usage"); !usage.IsNil() {
			p.field("usage", words(usage))
		}
		return
	}
	if frames := out.Key("frames"); !frames.IsNil() { // of a plan
		var made []string
		for f := range frames.Elems() {
			if id := p.id(f.Key("frame/id")); id != "" {
				made = append(made, "  "+id)
			}
		}
		p.line("the plan made %s; %s were there", counted(len(made), "frame"), counted(frames.Len()-len(made), ""))
		for _, id := range made {
			p.line("%s", id)
		}
		return
	}
	p.counts(out.Key("counts"))
	p.items(out.Key("items"))
}
