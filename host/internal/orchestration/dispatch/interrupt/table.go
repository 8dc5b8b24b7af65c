package interrupt

import (
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Worker is the place of a run in the queue. The run gives it back with Pause while it
// only waits for people, and claims it again with Continue. The Table calls both with
// its lock held: they must not call the Table.
type Worker interface {
	Pause()
	Continue()
}

// Table holds the questions of one run.
type Table struct {
	// Worker may be nil. It must be set before the first question.
	Worker Worker

	mu     sync.Mutex
	byID   map[string]*Question
	asking int // open questions
	calls  int // running calls, without questions to people
	paused bool
}

// Question is one question to people.
type Question struct {
	ID string
	// Schema is the schema of the answer; nil: any value is valid. SchemaName is its
	// name.
	Schema     *schema.Schema
	SchemaName string
	// Record writes an answer durably. It is called without the lock of the Table.
	Record func(answer edn.Value, by string) error

	table  *Table
	taken  bool // an answer was accepted, or none will be any more
	result chan Result
}

// Result is the answer of a person. Err is set if it could not be recorded.
type Result struct {
	Answer edn.Value
	Err    error
}

// Open adds a question and replaces an older one with the same id. The caller must
// either receive from Answered or end the question with Take.
func (t *Table) Open(q *Question) {
	q.table, q.result = t, make(chan Result, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]*Question{}
	}
	t.byID[q.ID] = q
	t.asking++
	t.settle()
}

// Answered returns the channel that receives the result.
func (q *Question) Answered() <-chan Result { return q.result }

// Take ends the question without the answer of a person. It returns false if a person
// was faster: then Answered receives the result. Later answers fail with
// interrupt/not-found if forget is set, otherwise with interrupt/answered.
func (q *Question) Take(forget bool) bool {
	t := q.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.taken {
		return false
	}
	q.taken = true
	if forget && t.byID[q.ID] == q {
		delete(t.byID, q.ID)
	}
	t.asking--
	t.settle()
	return true
}

// Asks reports whether a question waits for an answer.
func (t *Table) Asks() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asking > 0
}

// Answer answers the open question id in the name of by. The answer is recorded durably
// when Answer returns nil. The error is interrupt/not-found, interrupt/answered,
// interrupt/answer-invalid or that of the recorder.
func (t *Table) Answer(id string, answer edn.Value, by string) *contract.Error {
	q, answer, err := t.take(id, answer)
	if err != nil {
		return err
	}
	failed := q.Record(answer, by)
	q.result <- Result{Answer: answer, Err: failed}
	return contract.AsError(failed)
}

// take marks a question as answered, and returns the answer converted from JSON to the
// types of its schema.
func (t *Table) take(id string, answer edn.Value) (*Question, edn.Value, *contract.Error) {
	if t == nil {
		return nil, answer, notFound(id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.byID[id]
	switch {
	case q == nil:
		return nil, answer, notFound(id)
	case q.taken:
		return nil, answer, Answered(id)
	}
	if q.Schema != nil && !q.Schema.Valid(answer) {
		answer = q.Schema.CoerceJSON(answer)
	}
	if q.Schema != nil && !q.Schema.Valid(answer) {
		found := q.Schema.Validate(answer)
		return nil, answer, contract.Errorf("interrupt/answer-invalid", "the answer to %s does not fit :%s: %s", id, q.SchemaName, found[0]).
			WithDetail("findings", schema.Findings(found)).WithDetail("schema", q.Schema.Spec())
	}
	q.taken = true
	t.asking--
	t.settle()
	return q, answer, nil
}

func notFound(id string) *contract.Error {
	return contract.Errorf("interrupt/not-found", "the run has no open interrupt %s", id)
}

// Answered returns the error interrupt/answered for an answer that came too late.
func Answered(id string) *contract.Error {
	return contract.Errorf("interrupt/answered", "interrupt %s is closed: it has its answer, or its deadline has passed", id)
}

// Calling counts the start of a call that is not a question to people. While such a
// call runs, the run is not paused. Called must follow.
func (t *Table) Calling() { t.count(1) }

// Called counts the end of a call that Calling counted.
func (t *Table) Called() { t.count(-1) }

func (t *Table) count(n int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls += n
	t.settle()
}

// Waits reports whether the run does nothing but wait for people.
func (t *Table) Waits() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused
}

// settle pauses or continues the run. It needs mu.
func (t *Table) settle() {
	paused := t.asking > 0 && t.calls == 0
	if paused == t.paused {
		return
	}
	t.paused = paused
	switch {
	case t.Worker == nil:
	case paused:
		t.Worker.Pause()
	default:
		t.Worker.Continue()
	}
}
