package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// readText reads a file, or standard input for "-", up to one byte beyond the limit of the reader.
// An interrupt ends the wait for a pipe without a writer.
func (c *command) readText(name string) ([]byte, error) { return c.readFile(name, edn.Body.Bytes) }

// readFile works like readText with another limit in bytes.
func (c *command) readFile(name string, limit int) ([]byte, error) {
	return uninterrupted(c, func() ([]byte, error) {
		f, err := c.source(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
		return b, readError(name, err)
	})
}

// openFile opens a file. For standard input, and for other files that are not regular, it opens a
// copy, unless accept returns an error for its first bytes: such a file need not have an end.
func (c *command) openFile(name string, accept func(head []byte) error) (*os.File, error) {
	return uninterrupted(c, func() (*os.File, error) {
		in, err := c.source(name)
		if err != nil {
			return nil, err
		}
		if f, ok := in.(*os.File); ok {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				return f, nil
			}
		}
		defer func() { _ = in.Close() }()
		head := make([]byte, headBytes)
		n, err := io.ReadFull(in, head)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, readError(name, err)
		}
		if err := accept(head[:n]); err != nil {
			return nil, err
		}
		f, err := copied(io.MultiReader(bytes.NewReader(head[:n]), in))
		return f, readError(name, err)
	})
}

// headBytes is the number of bytes of a file that decide whether it is copied.
const headBytes = 64

// copied returns a file without a name that has the content of a reader.
func copied(in io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "ferment-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		_, err = io.Copy(f, in)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// uninterrupted returns the result of a function, or the error of an interrupt that happens before.
func uninterrupted[T any](c *command, read func() (T, error)) (T, error) {
	type outcome struct {
		got T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		got, err := read()
		done <- outcome{got, err}
	}()
	select {
	case o := <-done:
		return o.got, o.err
	case <-c.ctx.Done():
		var none T
		return none, context.Cause(c.ctx)
	}
}

// source opens a file, or standard input for "-".
func (c *command) source(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.env.Stdin), nil
	}
	f, err := os.Open(c.path(name))
	if err != nil {
		near := disk.Neighbour(c.path(name), err)
		if near != "" {
			near = filepath.Join(filepath.Dir(name), filepath.Base(near))
		}
		return nil, &fileError{err: fmt.Errorf("read %s: %w%s", name, cause(err), didYouMean(near))}
	}
	return f, nil
}

// readError returns the error for reading a file, or standard input for "-"; nil for nil.
func readError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case name == "-":
		name = "standard input"
	}
	return &fileError{err: fmt.Errorf("read %s: %w", name, cause(err))}
}

// fileError is the error of a file in the command line.
type fileError struct {
	err     error
	written bool // the file was being written
}

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

// cause removes the operation and the path from an error, because the message already has them.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// readValue reads one value: JSON from a file named .json, otherwise EDN.
func (c *command) readValue(name string) (edn.Value, error) {
	text, err := c.readText(name)
	if err != nil {
		return edn.Nil(), err
	}
	return parseValue(name, text, isJSONFile(name))
}

func parseValue(name string, text []byte, isJSON bool) (v edn.Value, err error) {
	read := edn.Read
	if isJSON {
		read = edn.ReadJSON
	}
	if v, err = read(text, edn.WithLimits(edn.Body), edn.WithSource(sourceName(name))); err != nil {
		return edn.Nil(), contract.SyntaxError("invalid-request", err)
	}
	return v, nil
}

// jsonObject matches the start of a JSON object with a key. A request in EDN does not match,
// because its keys are keywords.
var jsonObject = regexp.MustCompile(`^\s*\{\s*"`)

// parseTyped parses a value in the command line: EDN, or JSON if the text is not EDN. For a text
// that starts like a JSON object, the error is that of JSON.
func parseTyped(source, text string) (edn.Value, error) {
	v, _, err := parseEither(source, text)
	return v, err
}

// parseEither works like parseTyped and also returns the format.
func parseEither(source, text string) (v edn.Value, isJSON bool, err error) {
	if v, err = parseValue(source, []byte(text), false); err == nil {
		return v, false, nil
	}
	v, jsonErr := parseValue(source, []byte(text), true)
	if jsonErr == nil {
		return v, true, nil
	}
	if jsonObject.MatchString(text) {
		err = jsonErr
	}
	return edn.Nil(), false, contract.AsError(err).
		WithHint("write a map as {:key \"text\"} in EDN, and {\"key\": \"text\"} in JSON")
}

// isJSONFile reports whether a file name ends in .json.
func isJSONFile(name string) bool { return strings.HasSuffix(name, ".json") }

// readRequest reads a request: JSON from a file named .json and from standard input that starts
// like JSON, otherwise EDN.
func (c *command) readRequest(name string) (v edn.Value, isJSON bool, err error) {
	text, err := c.readText(name)
	if err != nil {
		return edn.Nil(), false, err
	}
	isJSON = isJSONFile(name) || name == "-" && jsonObject.Match(text)
	v, err = parseValue(name, text, isJSON)
	if err != nil || !isJSON {
		return v, isJSON, err
	}
	return httpapi.RequestFromJSON(v), true, nil
}

// readPlan reads a plan with the positions of its parts. A plan in JSON has untyped values.
func (c *command) readPlan(name string) (edn.Value, *edn.Positions, error) {
	text, err := c.readText(name)
	if err != nil {
		return edn.Nil(), nil, err
	}
	read := edn.ReadWithPositions
	if isJSONFile(name) {
		read = edn.ReadJSONWithPositions
	}
	v, positions, err := read(text, edn.WithLimits(edn.Body), edn.WithSource(sourceName(name)))
	if err != nil {
		return edn.Nil(), nil, contract.SyntaxError("plan/invalid", err)
	}
	return v, positions, nil
}

func sourceName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}
