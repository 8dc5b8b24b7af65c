package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// boundChecks test the bounds of [wire.Bounds] whose violation does not fail a
// call.
func boundChecks() []Check {
	return []Check{
		{ID: "core/invoke/error-details", Requirements: []string{"ERROR-002"},
			Text: fmt.Sprintf("the details of an error about a large input have at most %d bytes", wire.MaxErrorDetails),
			run:  shared(errorDetails)},
		{ID: "core/load/socket-files", Requirements: []string{"START-007"}, Process: true,
			Text: fmt.Sprintf("after %d calls the directory of the sockets has at most %d files with together %d bytes",
				socketCalls, wire.MaxSocketFiles, wire.MaxSocketBytes),
			run: alone(loadSocketFiles)},
		{ID: "core/log/lines", Requirements: []string{"LOG-001"}, Process: true,
			Text: fmt.Sprintf("no line of the log has more than %d bytes, also for large inputs", wire.MaxLine),
			run:  alone(logLengths)},
	}
}

// largeInputs are inputs with a text of size bytes where a capability does not
// expect one.
func largeInputs(size int) []edn.Value {
	text := edn.Text(strings.Repeat("0123456789abcde ", size/16))
	return []edn.Value{
		text,
		edn.MustMap(edn.K("conformance/large"), text),
		edn.MustMap(edn.K("text"), edn.Vector(text), edn.K("prompt"), edn.Vector(text)),
	}
}

func errorDetails(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, c := range append(slices.Clone(d.Capabilities), absent()) {
		for _, input := range largeInputs(2 * wire.MaxErrorDetails) {
			_, err := b.ask(ctx, in, question{capability: c, intent: firstIntent(c), input: input})
			for e := range contract.AsError(err).Chain() {
				if left, ok := e.Details.Key("left-out-bytes").AsInt(); ok {
					expected := fmt.Sprintf("details of at most %d bytes of an error of capability %s", wire.MaxErrorDetails, c.ID)
					return want(expected, "%d bytes beside :%s", left, e.Type)
				}
			}
		}
	}
	return nil
}

// socketCalls exceeds the number of files that the socket directory may have.
const socketCalls = 3 * wire.MaxSocketFiles

func loadSocketFiles(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	p, ok := in.(*remote)
	if !ok {
		return &fault{errors.New("the instance is not a process")}
	}
	worked, err := b.load(ctx, in, b.questions(d), socketCalls, leftPatience)
	if err != nil {
		return err
	}
	files, size := holds(p.sockets)
	if files > wire.MaxSocketFiles || size > wire.MaxSocketBytes {
		return want(fmt.Sprintf("at most %d files with together %d bytes in the directory of the sockets",
			wire.MaxSocketFiles, wire.MaxSocketBytes), "%d files with %d bytes after %d calls", files, size, worked)
	}
	return nil
}

// holds counts the files below a directory and their bytes, as a host does.
func holds(dir string) (files int, size int64) {
	files = -1 // not the directory itself
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		files++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return files, size
}

// logWait is the time that the last line of a log may take to arrive.
const logWait = 200 * time.Millisecond

func logLengths(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	p, ok := in.(*remote)
	if !ok {
		return &fault{errors.New("the instance is not a process")}
	}
	b.everyInput(d, 2*wire.MaxLine, b.call, func(q question) {
		_, _ = b.ask(ctx, in, q) // how a call must end is another check
	})
	select {
	case <-time.After(b.opts.spend(logWait)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if n := p.longest.Load(); n > wire.MaxLine {
		return want(fmt.Sprintf("lines of at most %d bytes in the log", wire.MaxLine), "one of %d bytes", n)
	}
	return nil
}
