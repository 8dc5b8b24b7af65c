package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
)

// driven is a screen with what its effects have done.
type driven struct {
	screen
	scrolled         []string
	executed         []string
	replaced         []string // drafts, by the line executed
	canceled, closed int
}

func (d *driven) send(messages ...tea.Msg) *driven {
	for _, m := range messages {
		var effects []effect
		d.screen, effects = d.step(m)
		for _, e := range effects {
			switch e := e.(type) {
			case scroll:
				d.scrolled = append(d.scrolled, e.lines...)
			case execute:
				d.executed, d.replaced = append(d.executed, e.line), append(d.replaced, e.draft)
			case cancel:
				d.canceled++
			case leave:
				d.closed++
			}
		}
	}
	return d
}

// keys sends text as it is typed; names in angle brackets are keys.
func (d *driven) keys(list ...string) *driven {
	named := map[string]tea.Key{
		"<enter>": {Code: tea.KeyEnter}, "<alt+enter>": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "<up>": {Code: tea.KeyUp},
		"<down>": {Code: tea.KeyDown}, "<tab>": {Code: tea.KeyTab}, "<ctrl+c>": {Code: 'c', Mod: tea.ModCtrl},
		"<ctrl+d>": {Code: 'd', Mod: tea.ModCtrl}, "<ctrl+j>": {Code: 'j', Mod: tea.ModCtrl}, "<shift+enter>": {Code: tea.KeyEnter, Mod: tea.ModShift}, "<ctrl+u>": {Code: 'u', Mod: tea.ModCtrl}, "<backspace>": {Code: tea.KeyBackspace},
	}
	for _, k := range list {
		if key, ok := named[k]; ok {
			d.send(tea.KeyPressMsg(key))
			continue
		}
		for _, r := range k {
			d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return d
}

func (d *driven) shows() string {
	lines, _, _ := d.view()
	return strings.TrimRight(strings.Join(lines, "\n"), " \n")
}

func plainScreen() *driven {
	return (&driven{screen: newScreen(style{})}).send(Moved{"c-01", "mine/chat"})
}

// A message is echoed and executed once; while it is, no other one is.
func TestEnterExecutes(t *testing.T) {
	d := plainScreen().keys("Hello", "<enter>", "more", "<enter>")
	assert.Equal(t, []string{"Hello"}, d.executed)
	assert.Equal(t, []string{"> Hello", ""}, d.scrolled)
	assert.Equal(t, "more", d.input.Value())
	d.send(ended{}).keys("<enter>")
	assert.Equal(t, []string{"Hello", "more"}, d.executed)
	d.send(ended{}).keys("  ", "<enter>")
	assert.Len(t, d.executed, 2, "blanks are no message")
}

// Lines are added by Alt+Enter, by a backslash and by a paste, which does not send.
func TestSeveralLines(t *testing.T) {
	d := plainScreen().keys("one", "<alt+enter>", "two\\", "<enter>", "three")
	assert.Empty(t, d.executed)
	assert.Equal(t, "one\ntwo\nthree", d.input.Value())
	pasted := strings.Repeat("a line\r\n", 300) + "\x1b[31mend\x07"
	d = plainScreen().send(tea.PasteMsg{Content: pasted})
	assert.Empty(t, d.executed)
	assert.Equal(t, strings.Repeat("a line\n", 300)+`\x1b[31mend\x07`, d.input.Value())
	lines, _, _ := d.view()
	assert.LessOrEqual(t, len(lines), 9, "the input stays small")
	d.keys("<enter>")
	assert.Equal(t, []string{strings.Repeat("a line\n", 300) + `\x1b[31mend\x07`}, d.executed)

	// There may be more of them than the input has room for.
	for _, height := range []int{12, 50} {
		for _, next := range []string{"<alt+enter>", "<shift+enter>", "<ctrl+j>"} {
			d = plainScreen().send(tea.WindowSizeMsg{Width: 80, Height: height})
			for i := range 20 {
				d.keys(fmt.Sprint("line ", i), next)
			}
			d.keys("end", "<enter>")
			require.Len(t, d.executed, 1)
			assert.Equal(t, 21, len(strings.Split(d.executed[0], "\n")), next)
		}
	}
}

// What is pasted, offered or recalled is executed byte for byte; blank lines around a text
// that was written in the input are not part of it, its indent is.
func TestTextIsKept(t *testing.T) {
	makefile := "\tall: x\n\t\tcc  \ufffd \t"
	d := plainScreen().send(tea.PasteMsg{Content: "\n \n" + makefile + "\n\t\n"})
	assert.Contains(t, d.shows(), "→all: x")
	d.keys("<enter>").send(ended{})
	assert.Equal(t, []string{makefile}, d.executed)
	assert.Contains(t, strings.Join(d.scrolled, "\n"), ">     all: x")
	d.keys("<up>", "<enter>").send(ended{}).keys("<up>", "!", "<enter>").send(ended{})
	assert.Equal(t, []string{makefile, makefile + "!"}, d.executed[1:])

	draft := "\n\r\n  a\tb\x1b[2J\x07\r\nc\\\n\n"
	for _, line := range []string{draft, "  //" + draft, "/edit #1 " + draft, "  " + draft + `\`} {
		d = plainScreen().send(Offer{line, "d-1"})
		assert.NotContains(t, d.shows(), "\x1b")
		d.keys("<enter>")
		assert.Equal(t, []string{line}, d.executed)
		assert.Equal(t, []string{"d-1"}, d.replaced)
		d = plainScreen().keys("old", "<enter>").send(ended{}, Offer{line, "d-1"}).keys("<up>", "<down>", "<enter>")
		assert.Equal(t, line, d.executed[1])
		// A change is made to what the input shows.
		d = plainScreen().send(Offer{line, "d-1"}).keys("x", "<enter>")
		require.Len(t, d.executed, 1)
		assert.Contains(t, d.executed[0], "a\tb"+`\x1b[2J\x07`)
		assert.True(t, strings.HasSuffix(d.executed[0], "x"))
	}
	d = plainScreen().send(Said{Role: "user", Text: "/etc\tx"}).keys("<up>", "<enter>")
	assert.Equal(t, []string{"//etc\tx"}, d.executed)
	d = plainScreen().send(tea.PasteMsg{Content: "\ufdd0\ufdd1"}).keys("<enter>")
	assert.Equal(t, []string{`\ufdd0\ufdd1`}, d.executed)
}

// A text that is too large for the input or for a message changes nothing and says why.
func TestInputLimits(t *testing.T) {
	full := func(d *driven, found, limit string, more ...tea.Msg) {
		t.Helper()
		before := d.input.Value()
		d.send(more...)
		assert.True(t, d.input.Value() == before, "the input has changed")
		said := strings.Join(d.scrolled, "\n")
		assert.Contains(t, said, found)
		assert.Contains(t, said, limit)
	}
	newLine := tea.KeyPressMsg{Code: tea.KeyEnter, Mod: tea.ModAlt}
	d := plainScreen()
	full(d, "10001 lines", "at most 10000.", tea.PasteMsg{Content: strings.Repeat("x\n", maxLines)})
	d.send(tea.PasteMsg{Content: strings.Repeat("x\n", maxLines-1)})
	assert.Equal(t, maxLines, d.input.LineCount())
	for _, more := range [][]tea.Msg{{newLine}, {tea.PasteMsg{Content: "a\nb"}}} {
		d.scrolled = nil
		full(d, "10001 lines", "10000", more...)
	}
	d.scrolled = nil
	d.keys("\\")
	full(d, "10001 lines", "10000", tea.KeyPressMsg{Code: tea.KeyEnter})

	d = plainScreen().send(tea.PasteMsg{Content: strings.Repeat("é", maxInput/2)})
	assert.Empty(t, d.scrolled)
	for _, more := range []tea.Msg{newLine, tea.PasteMsg{Content: "a"}, tea.KeyPressMsg{Code: 'a', Text: "a"}} {
		d.scrolled = nil
		full(d, "1048577 bytes", "1048576", more)
	}

	// A message without an answer that is too large is left as it is, and the next one offered.
	d = plainScreen()
	d.send(Offer{strings.Repeat("x\n", maxLines+1), "d-1"}, Offer{"next", "d-2"})
	assert.Equal(t, "next", d.input.Value())
	assert.Contains(t, strings.Join(d.scrolled, "\n"), "10002 lines")
}

// Up and Down recall what was entered, also in an earlier program, and keep what is
// being written.
func TestHistory(t *testing.T) {
	d := plainScreen().send(Said{Role: "user", Text: "long ago"}, Said{Role: "assistant", Text: "yes"})
	d.keys("first", "<enter>").send(ended{}).keys("second", "<enter>").send(ended{}).keys("draft", "<up>")
	assert.Equal(t, "second", d.input.Value())
	d.keys("<up>", "<up>", "<up>")
	assert.Equal(t, "long ago", d.input.Value())
	d.keys("<down>", "<down>", "<down>")
	assert.Equal(t, "draft", d.input.Value())
	d.keys("<down>")
	assert.Equal(t, "draft", d.input.Value())
}

// Text is on the screen while it arrives and in the scrollback when it is accepted;
// text that is retracted is marked, and what follows it is apart.
func TestRetractions(t *testing.T) {
	d := plainScreen().keys("Hi", "<enter>").send(Asking{"mine/chat"}, Piece{"half "}, Piece{"an"})
	assert.Contains(t, d.shows(), "half an\nwaiting for mine/chat · Ctrl-C cancels\n>")
	assert.Equal(t, []string{"> Hi", ""}, d.scrolled)
	d.send(Retracted{"runtime/crashed"})
	assert.NotContains(t, d.shows(), "half")
	assert.Equal(t, []string{"half an", "retracted: runtime/crashed"}, d.scrolled[2:])
	d.send(Asking{"mine/spare"}, Piece{"the spare"}, Answer{Text: "the spare"}, ended{})
	assert.Equal(t, []string{"the spare", ""}, d.scrolled[4:])
	assert.Equal(t, "c-01 · mine/chat · /help\n>", d.shows())

	colored := &driven{screen: newScreen(style{color: true})}
	colored.send(Piece{"**half**"}, Retracted{"gate"})
	assert.Equal(t, "\x1b[2;9mhalf\x1b[m", colored.scrolled[0], "struck out")
}

// Ctrl-C cancels an answer once, keeps the text that has arrived and offers the
// message again; then it clears the input, and twice on an empty one it ends.
func TestInterrupt(t *testing.T) {
	d := plainScreen().keys("Hello", "<enter>").send(Piece{"so far"}).keys("<ctrl+c>", "<ctrl+c>")
	assert.Equal(t, 1, d.canceled)
	assert.Contains(t, d.shows(), "canceling")
	d.send(Failed{Err: contract.Errorf("canceled", "interrupt"), Again: Offer{Line: "Hello"}, Canceled: true}, ended{})
	assert.Equal(t, []string{"so far", "canceled: the conversation is as it was before", ""}, d.scrolled[2:])
	assert.Equal(t, "Hello", d.input.Value())
	d.keys("<ctrl+c>")
	assert.Empty(t, d.input.Value())
	assert.Zero(t, d.closed)
	d.keys("<up>")
	assert.Equal(t, "Hello", d.input.Value(), "what was cleared can be recalled")
	d.keys("<ctrl+c>", "<ctrl+c>")
	assert.Equal(t, "Ctrl-C again, or Ctrl-D, ends\n>", d.shows())
	for _, other := range []tea.Msg{tea.KeyPressMsg{Code: tea.KeyLeft}, tea.PasteMsg{Content: ""}} {
		d.send(other)
		assert.Equal(t, "c-01 · mine/chat · /help\n>", d.shows())
		d.keys("<ctrl+c>")
	}
	assert.Zero(t, d.closed)
	d.keys("<ctrl+c>")
	assert.Equal(t, 1, d.closed)
	assert.Equal(t, 1, plainScreen().keys("<ctrl+c>", "<ctrl+d>").closed)
	assert.Equal(t, 1, plainScreen().keys("<ctrl+d>").closed)
	assert.Zero(t, plainScreen().keys("x", "<ctrl+d>").closed, "Ctrl-D deletes in a text")
}

// While the conversation is opened there is no prompt, and no line is executed; what is typed
// stays. Ctrl-C and Ctrl-D end the program.
func TestOpening(t *testing.T) {
	opening := func() *driven { return &driven{screen: newScreen(style{}).opens()} }
	d := opening().keys("Hello", "<enter>")
	assert.Empty(t, d.executed)
	assert.Equal(t, "opening the conversation · Ctrl-C ends", d.shows())
	d.send(Moved{"c-01", "mine/chat"}, Offer{"first", "d-1"}, ended{})
	assert.Equal(t, "c-01 · mine/chat · /help · 1 more line to send\n> Hello", d.shows())
	d.keys("<enter>")
	assert.Equal(t, []string{"Hello"}, d.executed)
	assert.Equal(t, []string{""}, d.replaced)
	for _, end := range []string{"<ctrl+c>", "<ctrl+d>"} {
		d = opening().keys(end)
		assert.Equal(t, []int{1, 1}, []int{d.canceled, d.closed}, end)
	}
}

// An error is shown with what to do next, and does not replace what is being written.
func TestFailure(t *testing.T) {
	d := plainScreen().keys("Hello", "<enter>", "next")
	d.send(Failed{Err: contract.Errorf("invalid-request", "bad \x1b[2J").WithHint("do better"), Again: Offer{Line: "Hello"}}, ended{})
	assert.Equal(t, "next", d.input.Value())
	said := strings.Join(d.scrolled, "\n")
	assert.Contains(t, said, "error: bad")
	assert.NotContains(t, said, "\x1b")
	assert.Contains(t, said, "do better")
}

// CNV-021: a line replaces a message without an answer only if it was made of it. Each is
// offered once, when the input is empty, and none is forgotten.
func TestOffers(t *testing.T) {
	first, second := Offer{"first", "d-1"}, Offer{"second", "d-2"}
	d := plainScreen().send(first, second)
	assert.Equal(t, "c-01 · mine/chat · /help · 1 more line to send\n> first", d.shows())
	d.keys("!", "<enter>").send(ended{})
	assert.Equal(t, "second", d.input.Value())
	d.keys("<ctrl+c>", "other", "<enter>").send(ended{})
	assert.Equal(t, []string{"first!", "other"}, d.executed)
	assert.Equal(t, []string{"d-1", ""}, d.replaced)
	assert.Empty(t, d.input.Value())

	// One that is recalled in its place replaces none, and it is offered again.
	d = plainScreen().keys("old", "<enter>").send(ended{}, first).keys("<up>", "<enter>").send(ended{})
	assert.Equal(t, []string{"", ""}, d.replaced)
	assert.Equal(t, "first", d.input.Value())
	d.keys("<up>", "<down>", "<enter>")
	assert.Equal(t, []string{"", "", "d-1"}, d.replaced)

	// An earlier one that is deleted from the input is left alone.
	for _, deleted := range [][]string{{"<ctrl+u>"}, slices.Repeat([]string{"<backspace>"}, len("first"))} {
		for _, other := range []string{"other", "/edit #1 other"} {
			d = plainScreen().send(first).keys(deleted...).keys(other, "<enter>").send(ended{})
			assert.Equal(t, []string{""}, d.replaced, other)
			assert.Empty(t, d.input.Value(), other)
		}
		// One of this chat is replaced.
		d = plainScreen().keys("one", "<enter>").send(Failed{Err: contract.Errorf("canceled", "interrupt"), Again: Offer{"first", "d-2"}}, ended{})
		assert.Equal(t, "first", d.input.Value())
		d.keys(deleted...).keys("two", "<enter>")
		assert.Equal(t, []string{"", "d-2"}, d.replaced)
	}

	// Of the commands only /edit sends a message.
	d = plainScreen().send(Offer{"/edit #1 x", "d-1"}).keys("<enter>").send(ended{})
	assert.Equal(t, []string{"d-1"}, d.replaced)
	d = plainScreen().send(Offer{"/cost", "d-1"}).keys("<enter>").send(ended{})
	assert.Equal(t, []string{""}, d.replaced)
	assert.Equal(t, "/cost", d.input.Value())

	d = plainScreen().keys("one", "<enter>").send(Failed{Err: contract.Errorf("canceled", "interrupt"), Again: first}, ended{})
	d.keys("<ctrl+u>", "/edit #1", "<enter>").send(Offer{Line: "/edit #1 old"}, ended{}).keys("<ctrl+u>", "<enter>").send(ended{})
	assert.Equal(t, []string{"", ""}, d.replaced)
	assert.Equal(t, "first", d.input.Value())
	// An answer is edited, which sends nothing.
	d = plainScreen().keys("one", "<enter>").send(Failed{Err: contract.Errorf("canceled", "interrupt"), Again: first}, ended{})
	d.keys("<ctrl+u>", "/edit #2 better", "<enter>").send(Unsent{}, ended{})
	assert.Equal(t, []string{"", "d-1"}, d.replaced)
	assert.Equal(t, "first", d.input.Value())

	// They are gone once they are deleted.
	d = plainScreen().send(first, second).keys("<ctrl+u>", "/discard", "<enter>").send(Discarded{}, ended{}).keys("three", "<enter>")
	assert.Equal(t, []string{"/discard", "three"}, d.executed)
	assert.Equal(t, []string{"", ""}, d.replaced)
	d.send(ended{})
	assert.Empty(t, d.input.Value())

	// A message fails while something else is typed.
	d = plainScreen().keys("one", "<enter>", "/model x")
	d.send(Failed{Err: contract.Errorf("canceled", "interrupt"), Again: first}, ended{}).keys("<enter>").send(ended{})
	assert.Equal(t, []string{"", ""}, d.replaced)
	assert.Equal(t, "first", d.input.Value())

	// Another conversation has its own.
	d.send(second, Moved{"c-02", "mine/chat"}, ended{}).keys("<enter>").send(ended{})
	assert.Equal(t, []string{"", "", ""}, d.replaced)
	assert.Empty(t, d.input.Value())
}

// Tab completes commands.
func TestCompletion(t *testing.T) {
	assert.Equal(t, "/regenerate ", plainScreen().keys("/re", "<tab>").input.Value())
	assert.Equal(t, "/e", plainScreen().keys("/e", "<tab>").input.Value(), "edit or export")
	assert.Equal(t, "re", plainScreen().keys("re", "<tab>").input.Value())
}

// For any size and any text of a model the screen fits the terminal, leaves a line for
// what is printed above it, has its cursor inside, and holds no control character. What is
// printed leaves the last column empty.
func TestScreenFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(4, 60).Draw(t, "width"), rapid.IntRange(1, 20).Draw(t, "height")
		colored := rapid.Bool().Draw(t, "color")
		d := (&driven{screen: newScreen(style{colored})}).send(Moved{"c-01", "mine/chat"})
		resize := func() { d.send(tea.WindowSizeMsg{Width: width, Height: height}) }
		text := rapid.SampledFrom([]string{"word ", "日本語テキスト", "👩‍👩‍👧 ", "\x1b[31m", "\n", "```\n", "- item ", "**", "`", "\u202e", "\u009b2J", "\t", "ab_c_d ", "| a | b |\n"})
		typed := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "語", " ", "\n", "\t", "\ufffd"}), 0, 40).Draw(t, "typed"), "")
		if rapid.Bool().Draw(t, "resized at first") {
			resize()
		}
		d.send(tea.PasteMsg{Content: typed})
		for _, piece := range rapid.SliceOfN(text, 0, 80).Draw(t, "pieces") {
			d.send(Piece{piece})
		}
		resize()
		lines, x, y := d.view()
		if len(lines) > max(1, height) {
			t.Fatalf("%d lines on a terminal of %d", len(lines), height)
		}
		if x < 0 || y < 0 || y >= len(lines) || x > width {
			t.Fatalf("the cursor is at %d, %d", x, y)
		}
		arrived := d.screen.text
		d.send(Answer{Text: arrived})
		for i, line := range append(lines, d.scrolled...) {
			room := width
			if i >= len(lines) {
				room--
			}
			if w := ansi.StringWidth(line); w > room {
				t.Fatalf("a line of %d columns where %d are free: %q", w, room, line)
			}
			for _, r := range ansi.Strip(line) {
				if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e {
					t.Fatalf("the control character %U in %q", r, line)
				}
			}
			if !colored && strings.Contains(line, "\x1b") {
				t.Fatalf("an escape without color: %q", line)
			}
		}
	})
}

// A stream of many pieces costs the same for each: only its end is rendered.
func TestLongAnswer(t *testing.T) {
	d := plainScreen()
	for i := range 2000 {
		d.send(Piece{fmt.Sprintf("line %d\n", i)})
	}
	assert.Contains(t, d.shows(), "line 1999")
	assert.NotContains(t, d.shows(), "line 1900")
	few := testing.AllocsPerRun(20, func() { d.view() })
	d.screen.text = strings.Repeat(d.screen.text, 10)
	assert.InDelta(t, few, testing.AllocsPerRun(20, func() { d.view() }), few/2)
}
