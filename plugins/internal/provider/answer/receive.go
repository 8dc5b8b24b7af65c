package answer

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/frame"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The number of unreadable events tolerated in a stream, and the maximum size
// of merged pieces.
const (
	maxSkipped = 2
	maxMerged  = 4 << 10
)

// afterEnd is the wait for the end of the body after the formal end: only then
// can the connection be reused. afterFinish is the wait of a tolerant provider
// for more data after a finish reason.
const (
	afterFinish = 2 * time.Second
	afterEnd    = 100 * time.Millisecond
)

// errGone means that the reader of the pieces is gone.
var errGone = errors.New("the caller is gone")

// receive reads the answer until it is complete.
func (c *call) receive(ctx context.Context) *contract.Error {
	splitter := dialect.Splitter(c.model.Preset, c.head.Media)
	if splitter == nil {
		return c.fail(failure.Foreign, "the body has the content type %s, expected JSON or an event stream",
			c.head.Media)
	}
	_, whole := splitter.(*frame.Whole)
	decoder := dialect.NewDecoder(c.model.Preset)
	for {
		piece, fault, end := c.exchange.Next(ctx)
		switch {
		case fault != nil && !c.endsWell(fault.Kind):
			return c.fault(fault)
		case fault != nil, end != nil:
			c.unended = fault != nil && fault.Kind != transport.Broken && !c.answer.Ended
			return c.ended(ctx, splitter, decoder, whole)
		}
		quiet := false
		err := splitter.Push(piece, func(f frame.Frame) error {
			quiet = quiet || f.Quiet
			return c.frame(decoder, f)
		})
		c.exchange.Recycle(piece)
		if err == nil {
			err = c.flush()
		}
		if err == nil && quiet {
			err = c.exchange.Blocked(func() error { return gone(c.out.Progress(edn.Nil())) })
		}
		if err != nil {
			return c.broken(ctx, err, whole)
		}
	}
}

// endsWell reports whether the answer is accepted although reading its body failed: it has its
// formal end, or it has a finish reason and the connection is closed. A server that keeps the
// connection open after a finish reason may send more: a tolerant provider does not wait for it,
// and marks the answer.
func (c *call) endsWell(kind transport.Kind) bool {
	switch kind {
	case transport.Deadline, transport.Canceled, transport.TooLarge:
		return false
	case transport.Broken:
		return c.complete()
	}
	return c.answer.Ended || c.provider.Tolerant && c.complete()
}

// complete reports whether the answer has its end although the body has not
// ended.
func (c *call) complete() bool {
	a := c.answer
	return a.Ended || c.model.Preset.Terminator != dialect.Strict && a.Finish != chat.Unfinished && !a.Resumed
}

// ended handles the end of the body.
func (c *call) ended(
	ctx context.Context, splitter frame.Splitter, decoder dialect.Decoder, whole bool,
) *contract.Error {
	err := splitter.End(func(f frame.Frame) error {
		if err := c.frame(decoder, f); !errors.Is(err, errSkipped) {
			return err
		}
		return nil
	})
	if err == nil {
		err = c.flush()
	}
	switch {
	case err != nil:
		return c.broken(ctx, err, whole)
	case !c.known && (c.foreign || whole):
		return c.fail(failure.Foreign, "the body is not an answer of a model")
	case c.model.Preset.Close(c.answer) && (c.known || c.answer.Ended):
		return nil
	}
	return c.fail(failure.Truncated, "the stream ended before the answer did")
}

// errSkipped is returned after too many unreadable events.
var errSkipped = errors.New("too many events of the stream are malformed")

// broken returns the error of a body that is not an answer.
func (c *call) broken(ctx context.Context, err error, whole bool) *contract.Error {
	var inBand *dialect.InBand
	switch {
	case errors.As(err, &inBand):
		known := c.knownFacts()
		known.Report = failure.ReadBody(inBand.Body)
		return c.provider.Report.Error(failure.InBand(known.Report), known, "the provider reported an error in the answer")
	case errors.Is(err, errGone):
		if fault := c.whyGone(ctx); fault != nil {
			return c.fault(fault)
		}
		return c.fail(failure.Canceled, "the caller stopped reading the answer")
	case errors.Is(err, dialect.ErrForeign):
		return c.fail(failure.Foreign, "the body is not an answer of a model")
	case errors.Is(err, frame.ErrTooLarge):
		return c.fail(failure.Malformed, "%s", err)
	case whole:
		return c.fail(failure.Truncated, "the body ended before the answer did")
	}
	return c.fail(failure.Malformed, "%s", errSkipped)
}

func (c *call) whyGone(ctx context.Context) *transport.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &transport.Fault{Kind: transport.Deadline, Text: "the deadline of the call passed"}
	}
	return nil
}

// frame decodes one frame and sends its pieces. Data after the formal end is
// not part of the answer. An unreadable event after a finish reason counts too:
// it may hold text, since some servers send a finish reason with each event.
func (c *call) frame(decoder dialect.Decoder, f frame.Frame) error {
	if f.Quiet || c.answer.Ended {
		return nil
	}
	if f.Failed {
		c.known = true
		return &dialect.InBand{Body: bytes.Clone(f.Data)}
	}
	finished := c.answer.Finish
	pieces, err := decoder.Frame(f.Data, c.answer)
	switch {
	case errors.Is(err, dialect.ErrForeign) && !c.known:
		c.foreign = true
		c.skipped++
		return nil
	case errors.Is(err, dialect.ErrMalformed), errors.Is(err, dialect.ErrForeign):
		c.skipped++
		if c.inARow++; c.inARow > 1 || c.skipped > maxSkipped {
			return errSkipped
		}
		return nil
	case err != nil:
		c.known = true
		return err
	}
	c.inARow, c.known = 0, true
	c.answer.Resumed = c.answer.Resumed || finished != chat.Unfinished && len(pieces) > 0
	for _, p := range pieces {
		if err := c.show(p); err != nil {
			return err
		}
	}
	if len(pieces) > 0 || c.answer.Finish != finished {
		c.exchange.Payload()
	}
	if c.answer.Ended {
		c.exchange.Grace(afterEnd)
	} else if c.provider.Tolerant && c.complete() {
		c.exchange.Grace(afterFinish)
	}
	return nil
}

// show sends a piece to the sink. The first one is sent at once; later ones are
// merged with their neighbors of the same read.
func (c *call) show(p chat.Piece) error {
	if !c.begun {
		c.begun, c.firstToken = true, c.exchange.Payload()
		return c.send(p)
	}
	if c.pending.Kind == p.Kind && c.pending.Call == p.Call && len(c.pending.Text)+len(p.Text) <= maxMerged {
		c.pending.Text += p.Text
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.pending = p
	return nil
}

func (c *call) flush() error {
	p := c.pending
	c.pending = chat.Piece{}
	if p.Kind == "" {
		return nil
	}
	return c.send(p)
}

func (c *call) send(p chat.Piece) error {
	return c.exchange.Blocked(func() error {
		switch p.Kind {
		case chat.TextPiece:
			return gone(c.out.Text(p.Text))
		case chat.ReasoningPiece:
			return gone(c.out.Reasoning(p.Text))
		}
		var m edn.MapBuilder
		m.Key("kind", edn.K(string(p.Kind)))
		m.Key("text", edn.Text(p.Text))
		m.Key("index", edn.Int(int64(p.Call.Index)))
		m.OptText("id", p.Call.ID) // as stated so far
		if id, ok := c.question.Names.ID(p.Call.Name); ok {
			m.Key("tool/id", edn.K(id))
		}
		return gone(c.out.Delta(m.Map()))
	})
}

func gone(err error) error {
	if err != nil {
		return errGone
	}
	return nil
}
