package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// player answers the calls of one capability.
type player struct {
	role role

	mu      sync.Mutex // held while a position is taken, to keep the order of calls
	next    int64
	version uint64 // of the position in the host's store
}

// answer plays the next step.
func (p *player) answer(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
	i, err := p.take(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	return p.stepAt(i).play(ctx, request, out)
}

// take returns the number of this call. The host's store holds the next one, so
// that a new process continues where the last one ended, and several processes
// of one plugin share the script.
func (p *player) take(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := sdk.HostFrom(ctx).State()
	key := "position " + p.role.meta.ID
	for {
		now, ok, err := state.Swap(ctx, key, p.version, edn.Int(p.next+1))
		if contract.AsError(err) != nil && contract.AsError(err).Type == "runtime/not-ready" {
			p.next++ // without a host there is no restart to survive
			return p.next - 1, nil
		}
		if err != nil {
			return 0, err
		}
		if ok {
			p.version = now.Version
			p.next++
			return p.next - 1, nil
		}
		p.version = now.Version
		p.next, _ = now.Value.AsInt()
	}
}

func (p *player) stepAt(i int64) step {
	r := p.role
	n := int64(len(r.steps))
	switch {
	case i < n:
		return r.steps[i]
	case r.cycle:
		return r.steps[i%n]
	case r.after != nil:
		return *r.after
	}
	return r.steps[n-1]
}

func (s step) play(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
	if err := wait(ctx, s.delay); err != nil {
		return edn.Nil(), err
	}
	whole, err := s.send(ctx, out)
	if err != nil {
		return edn.Nil(), err
	}
	switch s.action {
	case actError:
		return edn.MustMap(edn.K("error"), s.arg), nil
	case actRaw:
		text, _ := s.arg.AsString()
		return edn.Nil(), out.Verbatim([]byte(text))
	case actPlan:
		return s.result("plan", "plan", s.arg), nil
	case actTemplate:
		filled, err := fill(s.arg, sources(ctx, request))
		if err != nil {
			return edn.Nil(), err
		}
		return s.result("value", "out", contract.EmitOut(filled)), nil
	case actCrash:
		word, _ := s.arg.AsKeyword()
		crash, _ := crashOf(word)
		crash()
		<-ctx.Done() // until the process ends
		return edn.Nil(), ctx.Err()
	case actHang:
		<-ctx.Done()
		return edn.Nil(), ctx.Err()
	case actAsk:
		answer, err := s.ask(ctx, request, out)
		return s.result("value", "out", answer), err
	case actFold:
		return s.result("value", "out", edn.MustMap(edn.K("text"), edn.Text(whole))), nil
	}
	return s.result("value", "out", contract.EmitOut(s.arg)), nil
}

// send sends the pieces, with a wait after each, and returns the joined text. The error is that of
// the stream or of ctx.
func (s step) send(ctx context.Context, out *sdk.Stream) (string, error) {
	var whole strings.Builder
	for _, piece := range s.pieces {
		text, isText := piece.AsString()
		if !isText {
			text, _ = piece.Key("text").AsString()
			if err := out.Delta(piece); err != nil {
				return "", err
			}
		} else if err := out.Text(text); err != nil {
			return "", err
		}
		whole.WriteString(text)
		// Also after the last piece: a crash directly after it could lose it.
		if err := wait(ctx, s.gap); err != nil {
			return "", err
		}
	}
	return whole.String(), nil
}

func (s step) result(kind, key string, v edn.Value) edn.Value {
	usage := edn.MustMap(edn.K("mode"), edn.K("scripted")).Merge(s.usage)
	result := edn.MustMap(edn.K("type"), edn.K(kind), edn.K(key), v, edn.K("usage"), usage)
	if s.action == actPlan && !s.more.IsNil() {
		result = result.AssocKey("bindings", s.more)
	}
	response := edn.MustMap(edn.K("result"), result)
	if !s.meta.IsNil() {
		response = response.AssocKey("invoke/meta", s.meta)
	}
	return response
}

// wait sleeps for d. It returns the error of ctx if ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// crashOf returns the function that ends the process in the named way, and false for an unknown
// name.
func crashOf(word string) (func(), bool) {
	switch word {
	case "sigkill":
		return func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }, true
	case "panic":
		// In a goroutine of its own, because the SDK recovers panics of a call.
		return func() { go panic("scripted crash") }, true
	}
	digits, ok := strings.CutPrefix(word, "exit-")
	code, err := strconv.Atoi(digits)
	if !ok || err != nil || code < 0 || code > 255 {
		return nil, false
	}
	return func() { os.Exit(code) }, true
}
