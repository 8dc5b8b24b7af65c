package cli

import (
	"io"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/edn"
)

// teller prints a run while it is executed: in text format the text of its answer, in JSON or EDN
// each event on its own line, the last one with the whole response.
type teller struct {
	*command
	live bool // output is a terminal, on which text can be retracted

	path    edn.Value       // of the node whose text is printed
	held    strings.Builder // provisional text, if it cannot be retracted
	last    byte            // last printed byte of text
	whole   bool            // the text of the answer was printed and accepted
	printed bool
}

func (c *command) newTeller() *teller {
	return &teller{command: c, live: display.Terminal(c.env.Stdout)}
}

// wantsStream reports whether the request itself requests a stream.
func wantsStream(request edn.Value) bool {
	form, _ := request.Key("response/type").AsKeyword()
	return form == "stream" || request.Key("stream?").Truthy()
}

// local prints an event of a run in this process.
func (t *teller) local(e journal.Event) error {
	v := e.Value()
	if e.Name == "finished" {
		v = v.AssocKey("response", e.Response)
	}
	return t.tell(v)
}

func (t *teller) tell(e edn.Value) error {
	if t.format != formatText {
		t.printed = true
		return t.value(t.env.Stdout, e)
	}
	name, _ := e.Key("event").AsKeyword()
	text, _ := e.Key("text").AsString()
	switch name {
	case journal.VisibleChunk:
		t.path = e.Key("path")
		return t.print(t.release() + text)
	case journal.VisibleProvisional:
		t.path = e.Key("path")
		if t.live {
			return t.print(text)
		}
		t.held.WriteString(text)
	case "retract":
		t.held.Reset()
		if t.printed {
			if err := t.endLine(); err != nil {
				return err
			}
			t.printf("retracted: %s\n", plain(e.Key("reason")))
		}
	case "commit":
		if !t.path.IsNil() && edn.Equal(t.path, e.Key("path")) && e.Key("failure/type").IsNil() {
			t.whole = true
			return t.print(t.release())
		}
	}
	return nil
}

func (t *teller) release() string {
	text := t.held.String()
	t.held.Reset()
	return text
}

func (t *teller) print(text string) error {
	if text == "" {
		return nil
	}
	t.printed, t.last = true, text[len(text)-1]
	_, err := io.WriteString(t.env.Stdout, display.Shown(t.env.Stdout, text))
	return err
}

// endLine ends an incomplete line of text.
func (t *teller) endLine() error {
	if t == nil || t.last == 0 || t.last == '\n' || t.format != formatText {
		return nil
	}
	t.last = '\n'
	_, err := io.WriteString(t.env.Stdout, "\n")
	return err
}

// told reports whether the answer was already printed.
func (t *teller) told() bool {
	if t == nil {
		return false
	}
	if t.format != formatText {
		return t.printed
	}
	return t.whole
}
