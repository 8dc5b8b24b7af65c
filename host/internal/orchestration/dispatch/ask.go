package dispatch

import (
	"context"
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reopen recreates an attempt that was waiting for a person when the host stopped.
// It continues with the same question, or with the recorded answer (JRN-045).
func (s *attempts) reopen(t *journal.Tried, c *registry.Capability, strategy string) *attempt {
	a := &attempt{n: s.n, capability: c, number: t.Started.Attempt, started: t.At, asked: t, limits: s.n.limits(c)}
	a.recovery, _ = contract.ParseRecoveryClass(t.Started.Recovery)
	a.stream = s.n.w.Stream.ForAttempt(s.mode, a.number)
	if strategy == "" {
		s.alone = a
	} else {
		s.parallel = append(s.parallel, a)
	}
	if s.n.w.Begun != nil {
		s.n.w.Begun()
	}
	return a
}

// interruptID returns the id of the question of an attempt: the path of its node,
// the number of the question within the attempt (always 1) and the number of the
// attempt.
func interruptID(path edn.Value, attempt int) string {
	var b strings.Builder
	for e := range path.Elems() {
		if text, ok := e.AsString(); ok {
			b.WriteString(text + ".")
		} else {
			b.WriteString(e.String() + ".")
		}
	}
	return fmt.Sprintf("%s-1-%d", strings.TrimSuffix(b.String(), "."), attempt)
}

// ask opens the input as a question to people and blocks until one of them answers,
// its deadline passes, another attempt is accepted or ctx ends (JRN-045). It may run
// concurrently with other attempts of the node.
func (a *attempt) ask(ctx context.Context) (Answer, error) {
	n := a.n
	if n.run.Interrupts == nil {
		return Answer{}, contract.Errorf("runtime/not-ready", "node %s: :%s is answered by people, whom this host cannot ask", n.w.Node, a.capability.ID)
	}
	opened := a.question()
	if a.asked == nil {
		if err := a.recordNow(opened); err != nil {
			return Answer{}, err
		}
	} else if end := a.asked.Answered; end != nil {
		return a.answered(opened, end)
	}
	q := &interrupt.Question{ID: opened.Interrupt, Schema: n.w.Policy.out, SchemaName: opened.Schema}
	q.Record = func(answer edn.Value, by string) error {
		n.learn(contract.ValueResult(answer))
		return a.recordNow(&journal.InterruptAnswered{Interrupt: opened.Interrupt, By: by, Answer: journal.RefTo(answer)})
	}
	n.run.Interrupts.Open(q)
	var late *timer
	if !opened.DeadlineAt.IsZero() {
		late = startTimer(ctx, n.d.Clock, 0, opened.DeadlineAt.Sub(n.now()))
		defer late.end()
	}
	select {
	case r := <-q.Answered():
		return asAnswer(r)
	case <-late.fired():
		if q.Take(false) {
			end := &journal.InterruptAnswered{Interrupt: opened.Interrupt, By: journal.ByDeadline, Answer: opened.Default}
			if err := a.recordNow(end); err != nil {
				return Answer{}, err
			}
			return a.answered(opened, end)
		}
	case <-a.stop:
		if q.Take(true) {
			return Answer{}, contract.AsError(context.Canceled)
		}
	case <-ctx.Done():
		if q.Take(true) {
			return Answer{}, contract.AsError(ctx.Err())
		}
	}
	return asAnswer(<-q.Answered()) // a person was faster
}

// question returns the record of the question of the attempt.
func (a *attempt) question() *journal.InterruptOpened {
	n, h := a.n, a.capability.Human
	n.learn(contract.ValueResult(h.Default))
	if a.asked != nil && a.asked.Opened != nil {
		return a.asked.Opened
	}
	opened := &journal.InterruptOpened{
		Interrupt: interruptID(n.w.Path, a.number),
		Attempt:   a.number,
		Question:  journal.RefTo(n.w.Input),
		Schema:    n.w.Policy.outName,
	}
	if opened.Schema == "" {
		opened.Schema = "any"
	}
	if h.Deadline > 0 {
		opened.DeadlineAt, opened.OnDeadline = n.now().Add(h.Deadline), h.OnDeadline
		if h.OnDeadline == registry.DeadlineDefault {
			opened.Default = journal.RefTo(h.Default)
		}
	}
	return opened
}

// recordNow records body durably. Parallel attempts may call it concurrently.
func (a *attempt) recordNow(body journal.Body) error {
	r := a.n.run.Recorder
	if err := r.Record(a.n.w.Path, a.n.w.Node, body); err != nil {
		return err
	}
	return r.Sync()
}

func asAnswer(r interrupt.Result) (Answer, error) {
	if r.Err != nil {
		return Answer{}, r.Err
	}
	return Answer{Response: contract.ValueResult(r.Answer)}, nil
}

// answered returns the recorded answer to a question, or interrupt/unanswered if
// its deadline passed without one.
func (a *attempt) answered(opened *journal.InterruptOpened, end *journal.InterruptAnswered) (Answer, error) {
	if end.Answer.Set() {
		answer := a.n.run.Secrets.Restore(end.Answer.Value())
		if journal.Masked(answer) {
			return Answer{}, SecretMissing(a.n.w.Node, "the answer to "+opened.Interrupt)
		}
		return asAnswer(interrupt.Result{Answer: answer})
	}
	err := contract.Errorf("interrupt/unanswered", "node %s: :%s got no answer before the deadline", a.n.w.Node, a.capability.ID).
		WithDetail("interrupt", edn.Text(opened.Interrupt))
	if opened.OnDeadline == registry.DeadlineEscalate {
		err = err.WithClass(contract.ClassSwitch)
	}
	return Answer{}, err
}
