package conversationtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// A talk is the model of a conversation: the steps of each version.
type talk struct {
	id       string
	versions [][]step // from version 0
	drafts   []draft
	parent   *talk
}

// draft is a message without an answer.
type draft struct{ id, text string }

func (c *talk) now() []step { return c.versions[len(c.versions)-1] }

// step is a turn with its selected alternative.
type step struct {
	turn     *turn
	selected *alternative
	stale    bool
}

type turn struct {
	id, role     string
	alternatives []*alternative
}

type alternative struct {
	id    string
	texts []string
}

// model executes the same random operations on a service and on plain lists.
type model struct {
	service *conversation.Service
	random  *rand.Rand
	prefix  string
	talks   []*talk
	n       int      // operations
	fails   bool     // of the next answer
	log     []string // the calls and their results
}

// run executes a number of random operations on conversations whose ids begin with the
// prefix. It returns the first difference between store and model, with the operations that
// led to it.
func run(store conversation.Store, seed uint64, prefix string, operations int) error {
	m := &model{
		service: conversation.New(store, nil, rules, nil), random: rand.New(rand.NewPCG(seed, 7)), prefix: prefix,
	}
	for range operations {
		err := m.operation()
		if err == nil {
			err = m.same()
		}
		if err != nil {
			return fmt.Errorf("seed %d: %w\n%s", seed, err, strings.Join(m.log, "\n"))
		}
	}
	return m.end()
}

var rules = conversation.Rules{Window: session.Window{Turns: 16, Chars: 20_000}, SummaryChars: 1200}

// Ann is the caller of the suite.
var Ann = session.Caller{Principal: "ann"}

// call executes an intent with an input in EDN.
func (m *model) call(intent, input string, args ...any) (edn.Value, *contract.Error) {
	m.n++
	text := fmt.Sprintf(input, args...)
	out, err := m.service.Do(context.Background(), conversation.Call{
		Caller: Ann, Intent: "conversation/" + intent, Input: edn.MustRead(text), Run: "run_1", Path: edn.Vector(edn.Int(int64(m.n))),
		Key: m.key(), Ask: m.answer, Serves: func(string) bool { return false },
	})
	result := out.String()
	if err != nil {
		result = err.Type
	}
	m.log = append(m.log, fmt.Sprintf("%s %s -> %.300s", intent, text, result))
	return out, err
}

// key returns the effect key of the last call.
func (m *model) key() string { return fmt.Sprint(m.prefix, "key-", m.n) }

// answer fails or repeats the last message.
func (m *model) answer(ctx context.Context, request edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
	if m.fails {
		return edn.Nil(), errModel
	}
	return echo(ctx, request, show)
}

// echo is a model that repeats the last message.
func echo(_ context.Context, request edn.Value, _ func(edn.Value)) (edn.Value, *contract.Error) {
	last := edn.Nil()
	for v := range request.Key("input").Key("messages").Elems() {
		last = v.Key("content")
	}
	said, _ := last.AsString()
	return contract.ValueResult(edn.MustMap(edn.K("text"), edn.Text("re: "+said), edn.K("finish"), edn.K("stop"))), nil
}

// operation does one random operation.
func (m *model) operation() error {
	if len(m.talks) == 0 || m.random.IntN(12) == 0 {
		return m.open()
	}
	c := m.talks[m.random.IntN(len(m.talks))]
	do := []func(*talk) error{
		m.append, m.append, m.send, m.send, m.regenerate, m.regenerate, m.edit, m.selects, m.selects, m.truncate, m.fork, m.fork,
		m.spawn, m.restore, m.delete, m.refused, m.refused, m.sweep,
	}
	return do[m.random.IntN(len(do))](c)
}

func (m *model) open() error {
	id := fmt.Sprint(m.prefix, len(m.log))
	if _, err := m.call("open", `{:conversation/id %q}`, id); err != nil {
		return err
	}
	m.talks = append(m.talks, &talk{id: id, versions: [][]step{nil}})
	return nil
}

// commit adds a version with the first keep steps and more, unless it equals the current
// version.
func (c *talk) commit(keep int, more ...step) {
	if now := c.now(); keep < len(now) || len(more) > 0 {
		c.versions = append(c.versions, slices.Concat(now[:keep], more))
	}
}

// learned returns the new steps in an answer; texts are the expected messages of each step.
func learned(out edn.Value, texts [][]string) (steps []step, err error) {
	i := 0
	for v := range out.Key("turns").Elems() {
		if i == len(texts) {
			return nil, fmt.Errorf("the answer has more than %d turns", i)
		}
		role, _ := v.Key("role").AsKeyword()
		a := &alternative{id: textOf(v, "span/id"), texts: texts[i]}
		steps = append(steps, step{turn: &turn{textOf(v, "turn/id"), role, []*alternative{a}}, selected: a})
		i++
	}
	if i != len(texts) {
		return nil, fmt.Errorf("the answer has %d turns, want %d", i, len(texts))
	}
	return steps, nil
}

func textOf(v edn.Value, key string) string {
	s, _ := v.Key(key).AsString()
	return s
}

// append adds one to four messages, neighbors of one role as one turn.
func (m *model) append(c *talk) error {
	var input strings.Builder
	var texts [][]string
	before := ""
	for range 1 + m.random.IntN(4) {
		role := []string{"user", "assistant"}[m.random.IntN(2)]
		said := fmt.Sprint("said ", m.random.IntN(5)) // often the same, so content is shared
		fmt.Fprintf(&input, `{:role :%s :content %q}`, role, said)
		if role == before {
			texts[len(texts)-1] = append(texts[len(texts)-1], said)
		} else {
			texts = append(texts, []string{said})
		}
		before = role
	}
	out, err := m.call("append", `{:conversation/id %q :messages [%s]}`, c.id, input.String())
	if err != nil {
		return err
	}
	return m.added(c, out, texts)
}

func (m *model) added(c *talk, out edn.Value, texts [][]string) error {
	steps, err := learned(out, texts)
	if err == nil {
		c.commit(len(c.now()), steps...)
	}
	return err
}

// send sends a text, a text that replaces a draft, or a draft: after the path, or in place
// of a turn. The answer may fail.
func (m *model) send(c *talk) error {
	said, was, replaces := fmt.Sprint("ask ", m.random.IntN(5)), "", true
	input := ""
	if n := len(c.drafts); n > 0 && m.random.IntN(2) == 0 {
		d := c.drafts[m.random.IntN(n)]
		was, replaces = d.id, m.random.IntN(2) == 0
		input = fmt.Sprintf(` :draft/id %q`, was)
		if !replaces {
			said = d.text
		}
	}
	if replaces {
		input += fmt.Sprintf(` :text %q`, said)
	}
	i := -1
	if m.random.IntN(3) == 0 {
		i = m.pick(c, func(s step) bool { return s.turn.role == "user" })
	}
	if i >= 0 {
		input += fmt.Sprintf(` :at-turn %q`, c.now()[i].turn.id)
	}
	m.fails = m.random.IntN(4) == 0
	out, err := m.call("send", `{:conversation/id %q%s}`, c.id, input)
	failed := m.fails
	m.fails = false
	own := m.key()
	c.drafts = append(slices.DeleteFunc(c.drafts, func(d draft) bool {
		return d.id == was && replaces || d.id != was && d.text == said
	}), draft{own, said})
	if failed {
		return expect(err, errModel.Type)
	}
	if err != nil {
		return err
	}
	c.drafts = slices.DeleteFunc(c.drafts, func(d draft) bool { return d.id == was || d.text == said })
	if i >= 0 {
		return m.exchanged(c, i, out, said)
	}
	return m.added(c, out, [][]string{{said}, {"re: " + said}})
}

// exchanged adds a message in place of a turn, with its answer.
func (m *model) exchanged(c *talk, i int, out edn.Value, said string) error {
	steps, err := learned(out, [][]string{{said}, {"re: " + said}})
	if err != nil {
		return err
	}
	for k, now := range c.now()[i:] {
		if k == 2 || k == 1 && now.turn.role != "assistant" {
			break
		}
		if id := steps[k].turn.id; id != now.turn.id {
			return fmt.Errorf("the answer changes turn %s, want %s", id, now.turn.id)
		}
		now.turn.alternatives = append(now.turn.alternatives, steps[k].selected)
		steps[k].turn = now.turn
	}
	c.commit(i, steps...)
	return nil
}

// tail draws the treatment of later turns.
func (m *model) tail() (keep bool, name string) {
	if m.random.IntN(3) == 0 {
		return true, "keep"
	}
	return false, "cut"
}

// after returns a changed step and the steps after it, marked as stale, if they are kept.
func after(steps []step, i int, changed step, keep bool) []step {
	out := []step{changed}
	for _, later := range steps[i+1:] {
		if later.stale = true; keep {
			out = append(out, later)
		}
	}
	return out
}

// answered adds the alternative that the answer of an operation reports to turn i.
func (m *model) answered(c *talk, i int, out edn.Value, texts []string, keep bool) error {
	first := edn.Nil()
	for v := range out.Key("turns").Elems() {
		first = v
		break
	}
	now := c.now()
	if id := textOf(first, "turn/id"); id != now[i].turn.id {
		return fmt.Errorf("the answer changes turn %s, want %s", id, now[i].turn.id)
	}
	a := &alternative{textOf(first, "span/id"), texts}
	now[i].turn.alternatives = append(now[i].turn.alternatives, a)
	c.commit(i, after(now, i, step{turn: now[i].turn, selected: a}, keep)...)
	return nil
}

// pick draws the position of a turn that fits, -1 if there is none.
func (m *model) pick(c *talk, fits func(step) bool) int {
	now := c.now()
	var places []int
	for i, s := range now {
		if fits(s) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return -1
	}
	return places[m.random.IntN(len(places))]
}

// every accepts every step.
func every(step) bool { return true }

func (m *model) regenerate(c *talk) error {
	i := m.pick(c, func(s step) bool { return s.turn.role == "assistant" })
	if i < 0 {
		return nil
	}
	now, last := c.now(), ""
	for _, s := range now[max(0, i-16):i] {
		last = s.selected.texts[len(s.selected.texts)-1]
	}
	keep, tail := m.tail()
	out, err := m.call("regenerate", `{:conversation/id %q :turn/id %q :tail :%s}`, c.id, now[i].turn.id, tail)
	if err != nil {
		return err
	}
	return m.answered(c, i, out, []string{"re: " + last}, keep)
}

func (m *model) edit(c *talk) error {
	i := m.pick(c, every)
	if i < 0 {
		return nil
	}
	said := fmt.Sprint("edit ", m.random.IntN(5))
	keep, tail := m.tail()
	out, err := m.call("edit", `{:conversation/id %q :turn/id %q :text %q :tail :%s :base-version %d}`,
		c.id, c.now()[i].turn.id, said, tail, len(c.versions)-1)
	if err != nil {
		return err
	}
	return m.answered(c, i, out, []string{said}, keep)
}

func (m *model) selects(c *talk) error {
	i := m.pick(c, func(s step) bool { return len(s.turn.alternatives) > 1 })
	if i < 0 {
		return nil
	}
	now := c.now()
	a := now[i].turn.alternatives[m.random.IntN(len(now[i].turn.alternatives))]
	keep, tail := m.tail()
	_, err := m.call("select", `{:conversation/id %q :turn/id %q :span/id %q :tail :%s}`, c.id, now[i].turn.id, a.id, tail)
	if err != nil {
		return err
	}
	if a != now[i].selected {
		c.commit(i, after(now, i, step{turn: now[i].turn, selected: a}, keep)...)
	}
	return nil
}

func (m *model) truncate(c *talk) error {
	i := m.pick(c, every)
	if i < 0 {
		return nil
	}
	if _, err := m.call("truncate", `{:conversation/id %q :turn/id %q}`, c.id, c.now()[i].turn.id); err != nil {
		return err
	}
	c.commit(i)
	return nil
}

func (m *model) fork(c *talk) error {
	id, i := fmt.Sprint(m.prefix, len(m.log)), m.pick(c, every)
	if i < 0 {
		return nil
	}
	if _, err := m.call("fork", `{:conversation/id %q :new/id %q :turn/id %q}`, c.id, id, c.now()[i].turn.id); err != nil {
		return err
	}
	copied := slices.Clone(c.now()[:i+1])
	for k, s := range copied { // the other alternatives stay behind, and later ones are of one conversation
		copied[k].turn = &turn{s.turn.id, s.turn.role, []*alternative{s.selected}}
	}
	m.talks = append(m.talks, &talk{id: id, versions: [][]step{nil, copied}})
	return nil
}

func (m *model) spawn(c *talk) error {
	id, depth := fmt.Sprint(m.prefix, len(m.log)), 1
	for p := c.parent; p != nil; p = p.parent {
		depth++
	}
	_, err := m.call("spawn", `{:conversation/id %q :new/id %q}`, c.id, id)
	if depth > 3 {
		return expect(err, "conversation/too-large")
	}
	if err != nil {
		return err
	}
	m.talks = append(m.talks, &talk{id: id, versions: [][]step{nil}, parent: c})
	return nil
}

func (m *model) restore(c *talk) error {
	version := m.random.IntN(len(c.versions))
	if _, err := m.call("restore", `{:conversation/id %q :version %d}`, c.id, version); err != nil {
		return err
	}
	if old := c.versions[version]; !slices.Equal(old, c.now()) {
		c.versions = append(c.versions, slices.Clone(old))
	}
	return nil
}

func (m *model) delete(c *talk) error {
	if _, err := m.call("delete", `{:conversation/id %q}`, c.id); err != nil {
		return err
	}
	var gone []*talk // with what was spawned from it, not with its forks
	m.talks = slices.DeleteFunc(m.talks, func(other *talk) bool {
		is := other == c || slices.Contains(gone, other.parent) // a parent is before its children
		if is {
			gone = append(gone, other)
		}
		return is
	})
	for _, other := range gone {
		_, err := m.call("get", `{:conversation/id %q}`, other.id)
		if err := expect(err, "conversation/not-found"); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes what no version of a conversation uses.
func (m *model) sweep(*talk) error {
	if _, err := m.service.Sweep(context.Background()); err != nil {
		return err
	}
	return nil
}

// refused executes a call that must fail and change nothing (CNV-029).
func (m *model) refused(c *talk) error {
	foreign := "t-999999999"
	for _, other := range m.talks {
		for _, s := range other.now() {
			if !slices.ContainsFunc(c.now(), func(own step) bool { return own.turn.id == s.turn.id }) {
				foreign = s.turn.id
			}
		}
	}
	rows := []struct{ intent, input, typ string }{
		{"truncate", fmt.Sprintf(`:turn/id %q`, foreign), "conversation/turn-not-in-path"},
		{"edit", fmt.Sprintf(`:turn/id %q :text "x"`, foreign), "conversation/turn-not-in-path"},
		{"select", fmt.Sprintf(`:turn/id %q :span/id "s-1"`, foreign), "conversation/turn-not-in-path"},
		{"regenerate", fmt.Sprintf(`:turn/id %q`, foreign), "conversation/turn-not-in-path"},
		{"fork", fmt.Sprintf(`:turn/id %q :new/id "%sx"`, foreign, m.prefix), "conversation/turn-not-in-path"},
		{"send", fmt.Sprintf(`:at-turn %q :text "x"`, foreign), "conversation/turn-not-in-path"},
		{"append", fmt.Sprintf(`:base-version %d :messages [{:role :user :content "x"}]`, len(c.versions)), "conversation/conflict"},
		{"send", fmt.Sprintf(`:base-version %d :text "x"`, len(c.versions)), "conversation/conflict"},
		{"restore", fmt.Sprintf(`:version %d`, len(c.versions)), "invalid-request"},
		{"append", `:messages [{:role :tool :tool/id "none" :content "x"}]`, "conversation/invalid-message"},
		{"append", `:messages []`, "conversation/invalid-message"},
		{"append", `:messages [{:role :robot :content "x"}]`, "conversation/invalid-message"},
		{"send", `:text ""`, "conversation/invalid-message"},
		{"spawn", fmt.Sprintf(`:new/id %q`, c.id), "conversation/conflict"},
	}
	row := rows[m.random.IntN(len(rows))]
	_, err := m.call(row.intent, `{:conversation/id %q %s}`, c.id, row.input)
	return expect(err, row.typ)
}

func expect(err *contract.Error, typ string) error {
	if err == nil || err.Type != typ {
		return fmt.Errorf("the error is %v, want one of the type %s", err, typ)
	}
	return nil
}

// same compares a random conversation with the model: its path, an earlier version of
// it, and the alternatives of a turn.
func (m *model) same() error {
	if len(m.talks) == 0 {
		return nil
	}
	c := m.talks[m.random.IntN(len(m.talks))]
	if err := m.sameVersion(c, len(c.versions)-1); err != nil {
		return err
	}
	if err := m.sameVersion(c, m.random.IntN(len(c.versions))); err != nil {
		return err
	}
	i := m.pick(c, every)
	if i < 0 {
		return nil
	}
	return m.sameTurn(c, c.now()[i])
}

func (m *model) sameVersion(c *talk, version int) error {
	out, err := m.call("get", `{:conversation/id %q :version %d}`, c.id, version)
	if err != nil {
		return err
	}
	var got, want []string
	for v := range out.Key("turns").Elems() {
		got = append(got, fmt.Sprint(textOf(v, "turn/id"), v.Key("role"), textOf(v, "span/id"), v.Key("stale?")))
	}
	for v := range out.Key("messages").Elems() {
		got = append(got, textOf(v, "content"))
	}
	for _, s := range c.versions[version] {
		stale := edn.Nil()
		if s.stale {
			stale = edn.Bool(true)
		}
		want = append(want, fmt.Sprint(s.turn.id, edn.K(s.turn.role), s.selected.id, stale))
	}
	for _, s := range c.versions[version] {
		want = append(want, s.selected.texts...)
	}
	var drafts []draft
	for v := range out.Key("drafts").Elems() {
		drafts = append(drafts, draft{textOf(v, "draft/id"), textOf(v.Key("message"), "content")})
	}
	byID := func(a, b draft) int { return strings.Compare(a.id, b.id) } // some are made in the same moment
	slices.SortFunc(drafts, byID)
	slices.SortFunc(c.drafts, byID)
	if !slices.Equal(drafts, c.drafts) {
		return fmt.Errorf("the drafts of %s:\n got %q\nwant %q", c.id, drafts, c.drafts)
	}
	if now, _ := out.Key("version").AsInt(); now != int64(len(c.versions)-1) || !slices.Equal(got, want) {
		return fmt.Errorf("version %d of %s, which has version %d:\n got %q\nwant %q", version, c.id, now, got, want)
	}
	return nil
}

// sameTurn compares the alternatives of a turn.
func (m *model) sameTurn(c *talk, s step) error {
	out, err := m.call("get", `{:conversation/id %q :turn/id %q}`, c.id, s.turn.id)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for v := range out.Key("alternatives").Elems() {
		var said []string
		for each := range v.Key("messages").Elems() {
			said = append(said, textOf(each, "content"))
		}
		got[textOf(v, "span/id")] = fmt.Sprint(said, v.Key("selected?"))
	}
	for _, a := range s.turn.alternatives {
		selected := edn.Nil()
		if a == s.selected {
			selected = edn.Bool(true)
		}
		if said := got[a.id]; said != fmt.Sprint(a.texts, selected) {
			return fmt.Errorf("alternative %s of %s is %q, want %q %s", a.id, s.turn.id, said, a.texts, selected)
		}
		delete(got, a.id)
	}
	if len(got) > 0 {
		return fmt.Errorf("turn %s has the alternatives %v besides", s.turn.id, got)
	}
	return nil
}

// end compares all versions of all conversations with the model, and deletes everything.
func (m *model) end() error {
	for _, c := range m.talks {
		for version := range c.versions {
			if err := m.sameVersion(c, version); err != nil {
				return err
			}
		}
	}
	for len(m.talks) > 0 {
		if err := m.delete(m.talks[0]); err != nil {
			return err
		}
	}
	return m.sweep(nil)
}
