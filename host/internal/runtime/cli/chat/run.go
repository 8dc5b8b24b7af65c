package chat

import (
	"context"
	"io"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// Terminal configures the terminal of a talk.
type Terminal struct {
	In    io.Reader
	Out   io.Writer
	Env   []string
	Color bool
}

// Run executes a talk on a terminal until it ends. Canceling ctx cancels the current line and ends
// the talk. The error is that of the start of the talk, of the terminal, or of ctx.
func Run(ctx context.Context, t *Talk, on Terminal) error {
	ctx, stop := context.WithCancel(ctx)
	if in, ok := on.In.(file); ok {
		on.In = &pastes{file: in}
	}
	d := &driver{ctx: ctx, talk: t}
	d.program = tea.NewProgram(app{driver: d, screen: newScreen(style{on.Color}).opens()}, tea.WithContext(ctx), tea.WithoutSignalHandler(),
		tea.WithInput(on.In), tea.WithOutput(on.Out), tea.WithEnvironment(on.Env))
	_, err := d.program.Run()
	stop()
	d.working.Wait()
	switch {
	case d.failed != nil:
		return d.failed
	case context.Cause(ctx) != context.Canceled:
		return context.Cause(ctx)
	}
	return err
}

// driver executes the effects of a screen.
type driver struct {
	ctx     context.Context
	talk    *Talk
	program *tea.Program
	working sync.WaitGroup
	failed  error // error of Begin; read after the program has ended

	mu     sync.Mutex
	cancel func() // cancels the current line
}

// app is the program of a screen. Commands wait until the previous ones are executed, so that lines
// are printed in order.
type app struct {
	*driver
	screen  screen
	waiting []tea.Cmd
	busy    bool
}

// done reports that commands were executed.
type done struct{}

// begun reports the result of Begin.
type begun struct{ err error }

// Init implements tea.Model.
func (a app) Init() tea.Cmd {
	a.work(func(ctx context.Context, show func(Event)) tea.Msg {
		return begun{a.talk.Begin(ctx, show)}
	})
	return nil
}

// work calls the talk in a goroutine; what it shows and returns become messages.
func (d *driver) work(do func(ctx context.Context, show func(Event)) tea.Msg) {
	ctx, cancel := context.WithCancel(d.ctx)
	d.mu.Lock()
	d.cancel = cancel
	d.mu.Unlock()
	d.working.Go(func() {
		defer cancel()
		d.program.Send(do(ctx, func(e Event) { d.program.Send(e) }))
	})
}

// Update implements tea.Model.
func (a app) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case done:
		a.busy = false
	case begun:
		if m.err != nil {
			if !a.screen.canceled {
				a.failed = m.err
			}
			return a, tea.Quit
		}
		msg = ended{}
	}
	before := len(a.lines())
	var effects []effect
	a.screen, effects = a.screen.step(msg)
	for _, e := range effects {
		switch e := e.(type) {
		case scroll:
			a.waiting = append(a.waiting, printed(e.lines, a.screen.height-before)...)
		case execute:
			a.work(func(ctx context.Context, show func(Event)) tea.Msg {
				a.talk.Do(ctx, e.line, e.draft, show)
				return ended{}
			})
		case cancel:
			a.mu.Lock()
			a.driver.cancel()
			a.mu.Unlock()
		case leave:
			a.waiting = append(a.waiting, tea.Quit)
		}
	}
	if a.busy || len(a.waiting) == 0 {
		return a, nil
	}
	commands := append(a.waiting, func() tea.Msg { return done{} })
	a.busy, a.waiting = true, nil
	return a, tea.Sequence(commands...)
}

func (a app) lines() []string {
	lines, _, _ := a.screen.view()
	return lines
}

// printed returns the commands that write lines above the screen. Each writes at most room lines,
// because more would scroll the screen away.
func printed(lines []string, room int) (out []tea.Cmd) {
	room = max(1, room)
	for len(lines) > 0 {
		n := min(room, len(lines))
		part := strings.Join(lines[:n], "\n")
		if part == "" {
			part = " " // an empty text would not be printed
		}
		out = append(out, tea.Println(part))
		lines = lines[n:]
	}
	return out
}

// View implements tea.Model.
func (a app) View() tea.View {
	lines, x, y := a.screen.view()
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = tea.NewCursor(x, y)
	return v
}
