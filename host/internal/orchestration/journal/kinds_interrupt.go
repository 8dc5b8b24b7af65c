package journal

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ByDeadline is the value of InterruptAnswered.By if the deadline passed without an
// answer of a person.
const ByDeadline = "deadline"

// InterruptOpened records that an attempt waits for the answer of a person.
type InterruptOpened struct {
	Interrupt string // its id: node path, ordinal within the attempt, attempt
	Attempt   int
	Question  Ref    // the input of the call
	Schema    string // of the answer
	// DeadlineAt is zero without a deadline, and then OnDeadline is empty.
	DeadlineAt time.Time
	OnDeadline string
	Default    Ref
}

// Kind implements Body.
func (*InterruptOpened) Kind() Kind { return KindInterruptOpened }

func (x *InterruptOpened) hasDeadline() bool { return !x.DeadlineAt.IsZero() }

func (*InterruptOpened) describe() description { return interruptOpened }

var interruptOpened = kindOf(KindInterruptOpened, true,
	text("interrupt", func(x *InterruptOpened) *string { return &x.Interrupt }),
	ordinal("attempt", func(x *InterruptOpened) *int { return &x.Attempt }),
	reference("question", func(x *InterruptOpened) *Ref { return &x.Question }),
	keyword("schema", func(x *InterruptOpened) *string { return &x.Schema }),
	instant("deadline-at", func(x *InterruptOpened) *time.Time { return &x.DeadlineAt }).optional("a deadline is set"),
	enum("on-deadline", func(x *InterruptOpened) *string { return &x.OnDeadline }, registry.DeadlineDeny, registry.DeadlineDefault, registry.DeadlineEscalate).
		needed("a deadline is set", (*InterruptOpened).hasDeadline),
	reference("default", func(x *InterruptOpened) *Ref { return &x.Default }).
		needed("on-deadline is default", func(x *InterruptOpened) bool { return x.OnDeadline == registry.DeadlineDefault }),
)

// InterruptAnswered records the end of an interrupt: by an answer, or by its deadline.
// Answer is unset if the deadline passed and there is no default.
type InterruptAnswered struct {
	Interrupt string
	By        string // principal, or ByDeadline
	Answer    Ref
}

// Kind implements Body.
func (*InterruptAnswered) Kind() Kind { return KindInterruptAnswered }

func (*InterruptAnswered) describe() description { return interruptAnswered }

var interruptAnswered = kindOf(KindInterruptAnswered, true,
	text("interrupt", func(x *InterruptAnswered) *string { return &x.Interrupt }),
	text("by", func(x *InterruptAnswered) *string { return &x.By }),
	reference("answer", func(x *InterruptAnswered) *Ref { return &x.Answer }).optional("a person or a default gave one"),
)

// Interrupt is an open question of a run to a person.
type Interrupt struct {
	Record // with the body *InterruptOpened
	CapID  string
}

// OpenInterrupts returns the interrupts of a run that still wait for an answer, in the
// order of their records.
func OpenInterrupts(records []Record) []Interrupt {
	var open []Interrupt
	called := asked{}
	end := func(of func(*InterruptOpened, Record) bool) {
		kept := open[:0]
		for _, i := range open {
			if !of(i.Body.(*InterruptOpened), i.Record) {
				kept = append(kept, i)
			}
		}
		open = kept
	}
	for _, rec := range records {
		called.note(rec)
		switch body := rec.Body.(type) {
		case *InterruptOpened:
			open = append(open, Interrupt{rec, called[attemptKey(rec.Path, body.Attempt)]})
		case *InterruptAnswered:
			end(func(o *InterruptOpened, _ Record) bool { return o.Interrupt == body.Interrupt })
		case *AttemptFinished:
			end(func(o *InterruptOpened, at Record) bool {
				return o.Attempt == body.Attempt && edn.Equal(at.Path, rec.Path)
			})
		case *RunFinished:
			open = nil
		}
	}
	return open
}

// Value returns the interrupt as the map that is shown to the people who may answer it.
func (i Interrupt) Value() edn.Value {
	o := i.Body.(*InterruptOpened)
	var b edn.MapBuilder
	p := put{&b}
	p.str("interrupt", o.Interrupt)
	p.str("node", i.Node)
	b.Key("path", i.Path)
	p.positive("attempt", o.Attempt)
	p.kw("cap/id", i.CapID)
	b.Key("opened-at", edn.Inst(i.At))
	p.val("question", o.Question.Value())
	p.kw("schema", o.Schema)
	if o.hasDeadline() {
		b.Key("deadline-at", edn.Inst(o.DeadlineAt))
		p.kw("on-deadline", o.OnDeadline)
		p.val("default", o.Default.Value())
	}
	return b.Map()
}
