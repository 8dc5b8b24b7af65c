package chat

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/contract"
)

// effect is executed by the driver of a screen. Its type is one of the types below.
type effect any

type (
	scroll  struct{ lines []string } // into the scrollback
	execute struct{ line, draft string }
	cancel  struct{}
	leave   struct{}
)

// ended reports that a line was executed.
type ended struct{}

// screen is the state of the terminal below the scrollback: the arriving text, a status line, and
// the input.
type screen struct {
	style         style
	width, height int
	// columns is the maximum width of a text. The last column of the terminal stays empty: after
	// each line above the screen, bubbletea erases the rest of it from the cursor on, which after a
	// full line would be its last character.
	columns int

	input textarea.Model
	// original is the text that was put into the input, shown is its form in the input.
	original, shown string

	past    []string // entered lines
	at      int      // index in past; its length: the new line
	written string   // the new line, while another one is shown
	draft   Offer    // the unanswered message that the line was created from; zero: none
	offers  []Offer  // for the next times that the input is empty
	sent    Offer    // the unanswered message that the line being executed was created from
	earlier []string // ids of the unanswered messages that are older than this chat

	where    Moved
	opening  bool // the conversation is being opened: no prompt
	busy     bool
	canceled bool
	leaving  bool // the last key was Ctrl-C on an empty input
	asking   string
	text     string // of the arriving answer, clean
}

// opens returns the screen while the conversation is opened: text can be entered, but not executed.
func (s screen) opens() screen {
	s.opening, s.busy = true, true
	return s
}

func newScreen(s style) screen {
	in := textarea.New()
	in.ShowLineNumbers = false
	in.DynamicHeight = true
	in.MaxHeight = 8
	in.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	in.KeyMap.InsertNewline.SetEnabled(false) // it is limited to the height
	in.KeyMap.Paste.SetEnabled(false)         // the terminal pastes
	in.SetStyles(textarea.Styles{})
	in.SetVirtualCursor(false)
	in.Focus()
	out := screen{style: s, input: in}
	return out.resized(80, 24)
}

func (s screen) resized(width, height int) screen {
	s.width, s.height = max(width, 1), max(height, 1)
	s.columns = max(s.width-1, 1)
	s.input.MaxHeight = max(1, min(8, s.height/3))
	s.input.SetWidth(max(4, s.width))
	return s.edited(nil) // so that the cursor is in view
}

// step takes a message and returns the next state with the effects, in order.
func (s screen) step(msg tea.Msg) (screen, []effect) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		return s.resized(m.Width, m.Height), nil
	case tea.KeyPressMsg:
		return s.key(m)
	case tea.PasteMsg:
		s.leaving = false
		return s.insert(display.Clean(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(m.Content)))
	case ended:
		s.opening, s.busy, s.canceled, s.asking, s.text = false, false, false, "", ""
		return s.offered()
	default:
		return s.event(m)
	}
}

// edited changes the input. If an older message was deleted from the input, new text does not
// replace that message. A message of this chat is replaced by the new text.
func (s screen) edited(msg tea.Msg) screen {
	s.input, _ = s.input.Update(msg)
	if s.input.Value() == "" && s.at == len(s.past) && slices.Contains(s.earlier, s.draft.Draft) {
		s.draft = Offer{}
	}
	return s
}

func (s screen) key(m tea.KeyPressMsg) (screen, []effect) {
	again := s.leaving
	s.leaving = false
	switch m.String() {
	case "enter":
		return s.enter()
	case "alt+enter", "shift+enter", "ctrl+j":
		return s.insert("\n")
	case "ctrl+c":
		switch {
		case s.opening && !s.canceled:
			s.canceled = true
			return s, []effect{cancel{}, leave{}}
		case s.busy && !s.canceled:
			s.canceled = true
			return s, []effect{cancel{}}
		case s.busy:
			return s, nil
		case s.input.Value() != "":
			s, _ = s.taken(s.line())
			return s, nil
		case !again:
			s.leaving = true
			return s, nil
		}
		return s, []effect{leave{}}
	case "ctrl+d":
		if s.input.Value() == "" {
			if s.busy {
				s.canceled = true
				return s, []effect{cancel{}, leave{}}
			}
			return s, []effect{leave{}}
		}
	case "tab":
		if name, _, ok := commandOf(s.input.Value()); ok {
			s = s.completed(name)
		}
		return s, nil
	case "up":
		if s.input.Line() == 0 && s.input.LineInfo().RowOffset == 0 && s.at > 0 {
			return s.recalled(s.at - 1)
		}
	case "down":
		if s.input.Line() == s.input.LineCount()-1 && s.at < len(s.past) {
			return s.recalled(s.at + 1)
		}
	}
	if m.Text != "" {
		if why := s.full(m.Text); why != nil {
			return s, why
		}
	}
	return s.edited(m), nil
}

// enter executes the input. A backslash at its end inserts a new line instead, unless the input is
// an unchanged text that was put into it.
func (s screen) enter() (screen, []effect) {
	line := s.line()
	switch {
	case s.busy || strings.TrimSpace(line) == "":
		return s, nil
	case s.untouched():
	case strings.HasSuffix(line, `\`):
		if why := s.full("\n"); why != nil {
			return s, why
		}
		s.input.SetValue(strings.TrimSuffix(s.input.Value(), `\`) + "\n")
		return s, nil
	default:
		line = trimmed(line)
	}
	s, draft := s.taken(line)
	if draft != (Offer{}) && !sends(line) {
		s, draft = s.ahead(draft), Offer{}
	}
	s.busy, s.sent = true, draft
	return s, []effect{scroll{s.spoken(line)}, execute{line, draft.Draft}}
}

// sends reports whether a line may send a message; /edit does if it has a text.
func sends(line string) bool {
	name, arg, ok := commandOf(line)
	_, written, _ := numbered(arg)
	return !ok || name == "edit" && strings.TrimSpace(written) != ""
}

// taken empties the input. It returns the unanswered message that the input was created from. A new
// line that was not entered because another one was recalled is offered later.
func (s screen) taken(line string) (_ screen, draft Offer) {
	if s.at == len(s.past) {
		draft = s.draft
	} else if s.written != "" {
		s = s.ahead(Offer{s.written, s.draft.Draft})
	}
	s = s.remember(line)
	s.draft, s.original, s.shown = Offer{}, "", ""
	s.input.Reset()
	return s, draft
}

// ahead inserts an offer before the others.
func (s screen) ahead(o Offer) screen {
	s.offers = slices.Insert(slices.Clone(s.offers), 0, o)
	return s
}

// offered moves the next offer into an empty input. Offers that are too large are skipped.
func (s screen) offered() (screen, []effect) {
	if s.busy || s.input.Value() != "" || len(s.offers) == 0 {
		return s, nil
	}
	next := s.offers[0]
	s.offers = s.offers[1:]
	s, skipped := s.put(next.Line)
	if skipped != nil {
		s, effects := s.offered()
		return s, append(skipped, effects...)
	}
	s.at, s.written, s.draft = len(s.past), "", Offer{}
	if next.Draft != "" {
		s.draft = next
	}
	return s, nil
}

// remember adds a line to those that can be recalled, unless it is too large for the input.
func (s screen) remember(line string) screen {
	fits := excess(strings.Count(line, "\n")+1, len(line)) == ""
	if n := len(s.past); fits && (n == 0 || s.past[n-1] != line) {
		s.past = append(slices.Clip(s.past), line)
	}
	s.past = s.past[max(0, len(s.past)-maxPast):]
	s.at, s.written = len(s.past), ""
	return s
}

// recalled shows an entered line, or the new line.
func (s screen) recalled(at int) (screen, []effect) {
	if s.at == len(s.past) {
		s.written = s.line()
	}
	s.at = at
	if at == len(s.past) {
		return s.put(s.written)
	}
	return s.put(s.past[at])
}

// completed completes the name of a command.
func (s screen) completed(name string) screen {
	var fits []string
	for _, n := range names() {
		if strings.HasPrefix(n, name) {
			fits = append(fits, n)
		}
	}
	if len(fits) == 1 && strings.TrimSpace(s.input.Value()) == "/"+name {
		s.input.SetValue("/" + fits[0] + " ")
	}
	return s
}

// event handles an event while a line is executed.
func (s screen) event(e Event) (screen, []effect) {
	switch e := e.(type) {
	case Moved:
		if e.Conversation != s.where.Conversation { // the drafts are those of the previous conversation
			s = s.withoutDrafts()
		}
		s.where = e
	case Unsent:
		s = s.ahead(s.sent)
	case Discarded:
		s = s.withoutDrafts()
	case Asking:
		s.asking = e.Capability
	case Piece:
		s.text += clean(e.Text)
	case Retracted:
		lines := s.rendered(s.text)
		for i, line := range lines {
			lines[i] = s.style.mark(dim+";"+struck, ansi.Strip(line))
		}
		s.text = ""
		return s, []effect{scroll{append(lines, s.wrapped(dim, "retracted: "+cmp.Or(e.Reason, "the answer was not accepted"))...)}}
	case Answer:
		lines := s.rendered(clean(e.Text))
		s.text = ""
		return s, []effect{scroll{append(lines, "")}}
	case Said:
		if e.Role == "user" {
			s = s.remember(typed(e.Text))
			return s, []effect{scroll{s.spoken(e.Text)}}
		}
		return s, []effect{scroll{append(s.rendered(clean(e.Text)), "")}}
	case Note:
		return s, s.noted(e.Text)
	case Offer:
		if e.Draft == "" { // /edit asked for it
			return s.ahead(e).offered()
		}
		s.offers, s.earlier = append(slices.Clip(s.offers), e), append(slices.Clip(s.earlier), e.Draft)
		return s.offered()
	case Failed:
		return s.failed(e)
	case Quit:
		return s, []effect{leave{}}
	}
	return s, nil
}

// withoutDrafts removes the offers of unanswered messages.
func (s screen) withoutDrafts() screen {
	s.draft, s.offers = Offer{}, slices.DeleteFunc(slices.Clone(s.offers), func(o Offer) bool { return o.Draft != "" })
	return s
}

// failed shows why a line failed and offers it again. The text that has arrived is kept in the
// scrollback.
func (s screen) failed(e Failed) (screen, []effect) {
	var lines []string
	if s.text != "" {
		lines, s.text = s.rendered(s.text), ""
	}
	if e.Canceled {
		lines = append(lines, s.wrapped(dim, "canceled: the conversation is as it was before")...)
	} else {
		lines = append(lines, s.wrapped(red, e.Err.Text(contract.SourceText{Brief: true}))...)
	}
	if s.input.Value() == "" || e.Again.Draft != "" { // a command is in the history
		s = s.ahead(e.Again)
	}
	return s, []effect{scroll{append(lines, "")}}
}

// clean returns a text of a model or a plugin without control characters.
func clean(text string) string { return display.Clean(strings.ReplaceAll(text, "\r\n", "\n")) }

// noted shows a text of the program.
func (s screen) noted(text string) []effect {
	return []effect{scroll{append(s.wrapped(dim, text), "")}}
}

func (s screen) rendered(text string) []string { return render(text, s.columns, s.style) }

// spaced returns a clean text with blanks for tabs, whose width depends on the column.
func spaced(text string) string { return strings.ReplaceAll(clean(text), "\t", "    ") }

// wrapped returns the lines of a text of the program.
func (s screen) wrapped(attribute, text string) (out []string) {
	for line := range strings.SplitSeq(spaced(text), "\n") {
		line = narrowed(line, s.columns)
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		out = append(out, s.style.wrap([]span{{attribute, strings.TrimLeft(line, " ")}}, indent, indent, s.columns)...)
	}
	return out
}

// spoken returns the lines of a text of the user.
func (s screen) spoken(text string) (out []string) {
	prompt := "> "
	for line := range strings.SplitSeq(spaced(text), "\n") {
		out = append(out, s.style.wrap([]span{{bold, line}}, prompt, "  ", s.columns)...)
		prompt = "  "
	}
	return append(out, "")
}

// view returns the lines of the screen and the position of the cursor in them. It has only the end
// of an arriving answer, because lines above the screen need room to be printed.
func (s screen) view() (lines []string, x, y int) {
	if s.opening {
		return []string{s.style.mark(dim, ansi.Truncate(s.state(), s.width, "…"))}, 0, 0
	}
	in := strings.Split(marked.Replace(s.input.View()), "\n")
	if room := min(s.height/2, s.height-len(in)-2); s.text != "" && room > 0 {
		arriving := render(tail(s.text, s.height), s.columns, s.style)
		lines = arriving[max(0, len(arriving)-room):]
	}
	if s.height > len(in) {
		lines = append(lines, s.style.mark(dim, ansi.Truncate(s.state(), s.width, "…")))
	}
	y = len(lines)
	if c := s.input.Cursor(); c != nil {
		x, y = c.X, y+c.Y
	}
	return append(lines, in...), x, y
}

// state returns the line above the input.
func (s screen) state() string {
	switch {
	case s.canceled:
		return "canceling"
	case s.opening:
		return "opening the conversation · Ctrl-C ends"
	case s.busy && s.asking != "":
		return "waiting for " + s.asking + " · Ctrl-C cancels"
	case s.busy:
		return "working · Ctrl-C cancels"
	case s.leaving:
		return "Ctrl-C again, or Ctrl-D, ends"
	}
	state := []string{s.where.Conversation, s.where.Model, "/help"}
	if n := len(s.offers); n > 0 {
		state = append(state, counted(n, "more line")+" to send")
	}
	return strings.Join(slices.DeleteFunc(state, func(p string) bool { return p == "" }), " · ")
}
