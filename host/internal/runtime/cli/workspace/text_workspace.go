package workspace

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

func initText(p *page, out edn.Value) {
	if out.Key("created?").Truthy() {
		p.line("created workspace %s", plain(out.Key("workspace/id")))
	} else {
		p.line("workspace %s exists already", plain(out.Key("workspace/id")))
	}
	p.field("scheme", plain(out.Key("scheme")))
	p.field("store", name(plain(out.Key("data-dir"))))
}

func scanText(p *page, out edn.Value) {
	added, modified, removed := number(out.Key("added")), number(out.Key("modified")), number(out.Key("removed"))
	renamed := out.Key("renamed")
	done := "scanned"
	if out.Key("dry-run?").Truthy() {
		done = "dry run over"
	}
	total := added + modified + number(out.Key("unchanged"))
	p.line("%s %s: %s added, %s modified, %s removed, %s unchanged", done, counted(total, "node"), counted(added, ""),
		counted(modified, ""), counted(removed, ""), counted(number(out.Key("unchanged")), ""))
	paths := out.Key("paths")
	if added < total || added <= maxListed { // else it is the first scan
		p.list("+", paths.Key("added"), added)
	}
	p.list("~", paths.Key("modified"), modified)
	p.list("-", paths.Key("removed"), removed)
	p.list(">", renamed, renamed.Len())
	p.position(out)
	p.field("hashed", size(number(out.Key("bytes-hashed"))))
	p.field("rules", p.digest(out.Key("ignore/digest")))
	if skipped := number(out.Key("skipped")); skipped > 0 {
		p.field("skipped", counted(skipped, "entry")+", neither file, directory nor link")
	}
	p.inexact(out)
	if v := out.Key("tree/complete?"); !v.IsNil() && !v.Truthy() {
		p.field("warning", "the tree is not complete: "+counted(out.Key("unreadable").Len(), "entry")+" could not be read")
		p.list("!", out.Key("unreadable"), 0)
	}
	if unstable := out.Key("scan/unstable"); unstable.Len() > 0 {
		p.field("warning", counted(unstable.Len(), "file")+" changed during the scan; the next scan reads them again")
		p.list("!", unstable, 0)
	}
}

// inexact prints whether the ids are those of git.
func (p *page) inexact(out edn.Value) {
	exact := out.Key("git/exact?")
	switch {
	case exact.IsNil():
	case exact.Truthy():
		p.field("git", "ids equal those of git")
	default:
		p.field("git", "ids may differ from those of git:")
		p.list("!", out.Key("git/inexact"), 0)
	}
}

// position writes the root and the transaction of an output.
func (p *page) position(out edn.Value) {
	root := p.id(out.Key("root"))
	if root == "" {
		return
	}
	if seq := out.Key("seq"); !seq.IsNil() {
		root += ", transaction " + plain(seq)
	}
	p.field("root", root)
}

// digest returns a short form of a hash without a kind.
func (p *page) digest(v edn.Value) string {
	text := p.id(v)
	if p.verbose || len(text) <= shortID || wholeID.MatchString(plain(v)) {
		return text
	}
	return text[:shortID]
}

func statusText(p *page, out edn.Value) {
	if v := out.Key("scanned?"); !v.IsNil() && !v.Truthy() {
		p.line("the workspace was never scanned; \"ferment workspace scan\" scans it")
		p.field("workspace", plain(out.Key("workspace/id")))
		p.damage(out)
		return
	}
	p.position(out)
	p.field("state", p.id(out.Key("state-root")))
	p.field("workspace", joined(", ", plain(out.Key("workspace/id")), plain(out.Key("scheme"))))
	p.field("nodes", counts(out.Key("nodes")))
	if v := out.Key("tree/complete?"); !v.IsNil() && !v.Truthy() {
		p.field("tree", "incomplete: the scan skipped what it could not read")
	}
	p.field("frames", counted(number(out.Key("frames")), ""))
	p.field("heads", counts(out.Key("heads")))
	p.field("watch", words(out.Key("watch")))
	p.damage(out)
	p.field("warning", plain(out.Key("warning")))
	p.inexact(out)
	if top := out.Key("top-paths"); top.Len() > 0 {
		p.line("")
		var rows [][]string
		for pair := range top.Elems() {
			path, _ := pair.Nth(0)
			n, _ := pair.Nth(1)
			rows = append(rows, []string{counted(number(n), ""), name(plain(path))})
		}
		p.table([]string{"nodes", "directory"}, rows)
	}
	p.section("", out.Key("coverage"))
	p.section("deleted", out.Key("deleted"))
}

func (p *page) damage(out edn.Value) {
	if out.Key("damaged?").Truthy() {
		p.field("warning", "the store is damaged and takes no writes: \"ferment workspace validate\" shows where")
	}
}

// counts returns a map of numbers as text, such as "124 (14 dir, 110 file)".
func counts(v edn.Value) string {
	if !v.IsMap() {
		return counted(number(v), "")
	}
	total := 0
	var parts []string
	for k, n := range v.Entries() {
		total += number(n)
		parts = append(parts, counted(number(n), "")+" "+plain(k))
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", counted(total, ""), strings.Join(parts, ", "))
}

func joined(by string, parts ...string) string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, by)
}

func deletedText(p *page, out edn.Value) {
	deleted := out.Key("deleted")
	if deleted.Len() == 0 {
		p.line("nothing is deleted")
		return
	}
	p.rows(deleted)
}

func validateText(p *page, out edn.Value) {
	errors, warnings := out.Key("errors"), out.Key("warnings")
	verdict := "the store is valid"
	if !out.Key("valid?").Truthy() {
		verdict = "the store is NOT valid"
	}
	p.line("%s: %s, %s, %s, %s", verdict, counted(number(out.Key("nodes")), "node"),
		counted(number(out.Key("frames")), "frame"), counted(errors.Len(), "error"), counted(warnings.Len(), "warning"))
	for f := range errors.Elems() {
		p.finding("error", f)
	}
	for f := range warnings.Elems() {
		p.finding("warning", f)
	}
	if next := repairHint(errors); next != "" {
		p.line("next: %s", next)
	}
	p.position(out)
	p.field("state", p.id(out.Key("state-root")))
}

// repairHint returns the hint after a check with errors. A repair cannot make a policy
// deterministic.
func repairHint(errors edn.Value) string {
	hint := ""
	for f := range errors.Elems() {
		if plain(f.Key("code")) != "synthesis/nondeterministic" {
			return "\"ferment workspace repair --dry-run\" shows what can be rebuilt"
		}
		hint = "make these policies deterministic, or synthesize again without :deterministic?"
	}
	return hint
}

// finding writes one finding of a check: its place, its text, and its code.
func (p *page) finding(label string, f edn.Value) {
	where := name(plain(f.Key("file")))
	if path := pathOf(f); path != "" {
		where = joined(" ", where, path)
	}
	if seq := f.Key("seq"); !seq.IsNil() {
		where = joined(" ", where, "transaction "+plain(seq))
	}
	if id := f.Key("frame/id"); !id.IsNil() {
		where = joined(" ", where, p.id(id))
	}
	text := joined(": ", where, words(f.Key("message")))
	if code := plain(f.Key("code")); code != "" {
		text += " (:" + code + ")"
	}
	p.line("%s", diag.WrapLabeled("  "+label+": ", text))
}

func repairText(p *page, out edn.Value) {
	would, did, lost := out.Key("would"), out.Key("did"), out.Key("lost")
	switch {
	case would.Len() > 0:
		p.line("repair would:")
		p.list("-", would, 0)
	case did.Len() > 0:
		p.line("repaired:")
		p.list("-", did, 0)
	default:
		p.line("there is nothing to repair")
	}
	if lost.Len() > 0 {
		p.line("%s cannot be recovered:", counted(lost.Len(), "frame"))
		p.list("!", lost, 0)
	}
	if moved := out.Key("quarantined"); moved.Len() > 0 {
		p.line("moved to quarantine:")
		p.list(" ", moved, 0)
	}
}

func ignoreText(p *page, out edn.Value) {
	dry, then := "", "; the next scan applies the ignore list"
	if out.Key("dry-run?").Truthy() {
		dry, then = "would have ", ""
	}
	added, removed := out.Key("added"), out.Key("removed")
	for _, change := range []struct {
		verb string
		n    edn.Value
	}{{"added", added}, {"removed", removed}} {
		if number(change.n) > 0 {
			p.line("%s%s %s%s", dry, change.verb, counted(number(change.n), "pattern"), then)
		}
	}
	if changed := !added.IsNil() || !removed.IsNil(); changed && number(added)+number(removed) == 0 {
		p.line("the ignore list of the workspace is unchanged")
	}
	enter, leave := out.Key("changes").Key("added"), out.Key("changes").Key("removed")
	if n := enter.Len() + leave.Len(); n > 0 {
		p.line("the next scan would change %s:", counted(n, "path"))
		p.list("+", enter, 0)
		p.list("-", leave, 0)
	}
	if list := out.Key("patterns"); !list.IsNil() && out.Key("added").IsNil() && out.Key("removed").IsNil() {
		if list.Len() == 0 {
			p.line("the ignore list of the workspace has no patterns")
		}
		for pattern := range list.Elems() {
			p.line("%s", name(plain(pattern)))
		}
	}
}

func explainText(p *page, out edn.Value) {
	rule := ""
	if source := words(out.Key("source")); source != "" {
		rule = source
		if n := out.Key("line"); !n.IsNil() {
			rule += ":" + plain(n)
		}
		rule += " " + fmt.Sprintf("%q", plain(out.Key("pattern")))
	}
	switch ignored := out.Key("ignored?").Truthy(); {
	case !out.Key("skipped").IsNil():
		p.line("not ignored, but not in the tree: %s", plain(out.Key("skipped")))
	case ignored && plain(out.Key("source")) == "built-in":
		p.line("ignored: %s is never part of the tree", words(out.Key("at")))
	case ignored && rule != "":
		p.line("ignored by %s", rule)
	case ignored:
		p.line("ignored")
	case rule != "":
		p.line("not ignored, because of %s", rule)
	default:
		p.line("not ignored: no rule fits")
	}
}

func snapshotText(p *page, out edn.Value) {
	switch list := out.Key("snapshots"); {
	case !list.IsNil() && list.Len() == 0:
		p.line("there are no snapshots")
	case !list.IsNil():
		var rows [][]string
		for s := range list.Elems() {
			rows = append(rows, []string{name(plain(s.Key("name"))), plain(s.Key("commit"))})
		}
		p.table([]string{"snapshot", "transaction"}, rows)
	case !out.Key("removed?").IsNil():
		if out.Key("removed?").Truthy() {
			p.line("removed snapshot %s", name(plain(out.Key("name"))))
		} else {
			p.line("there was no snapshot %s", name(plain(out.Key("name"))))
		}
	default:
		p.line("snapshot %s is transaction %s", name(plain(out.Key("name"))), plain(out.Key("commit")))
	}
}

func exportText(p *page, out edn.Value) {
	p.line("exported %s, %s", counted(number(out.Key("frames")), "frame"), size(number(out.Key("bytes"))))
	p.field("hash", plain(out.Key("blob")))
	p.field("state", p.id(out.Key("state-root")))
}

func importText(p *page, out edn.Value) {
	verb, back := "imported", "are back"
	if out.Key("dry-run?").Truthy() {
		verb, back = "would import", "would be back"
	}
	conflicts := out.Key("conflicts")
	p.line("%s %s; %s exist already", verb, counted(number(out.Key("imported")), "frame"),
		counted(number(out.Key("existing")), ""))
	if restored := number(out.Key("restored")); restored > 0 {
		p.line("%s of these %s", counted(restored, "dropped text"), back)
	}
	if deleted := number(out.Key("deleted")); deleted > 0 {
		verb := "deleted"
		if out.Key("dry-run?").Truthy() {
			verb = "would be deleted"
		}
		p.line("%s %s, as in the export", counted(deleted, "node"), verb)
	}
	if conflicts.Len() > 0 {
		p.line("%s:", counted(conflicts.Len(), "conflict"))
		p.list("!", conflicts, 0)
	}
}

func compactText(p *page, out edn.Value) {
	verb, freed, dropped := "purged", "freed", "is dropped"
	if out.Key("dry-run?").Truthy() {
		verb, freed, dropped = "would purge", "would free", "would be dropped"
	}
	p.line("%s %s, %s %s", verb, counted(number(out.Key("purged")), "frame"), freed, size(number(out.Key("bytes-freed"))))
	if oldest := out.Key("oldest"); !oldest.IsNil() {
		p.line("history before transaction %s %s, except named states", plain(oldest), dropped)
	}
}

func tombstoneText(p *page, out edn.Value) {
	verb, n := "deleted", out.Key("tombstoned")
	if n.IsNil() {
		verb, n = "restored", out.Key("restored")
	}
	if out.Key("dry-run?").Truthy() {
		verb = "would be " + verb
	}
	p.line("%s %s", counted(number(n), "node"), verb)
	if dropped := number(out.Key("dropped")); dropped > 0 {
		p.line("the texts of %s do not come back: a compaction dropped them; regenerate the frames or put them again",
			counted(dropped, "frame"))
	}
	if verb == "deleted" && number(n) > 0 {
		p.line("\"ferment workspace restore\" brings them back")
	}
}
