package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// readText reads a file, or standard input for "-". It never reads more than
// the reader's limit and one byte. A file may be a pipe that nobody writes to;
// an interrupt ends the waiting.
func (c *command) readText(name string) ([]byte, error) {
	type outcome struct {
		text []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		text, err := c.readAll(name)
		done <- outcome{text, err}
	}()
	select {
	case o := <-done:
		return o.text, o.err
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

func (c *command) readAll(name string) ([]byte, error) {
	limit := int64(edn.Body.Bytes) + 1
	if name == "-" {
		b, err := io.ReadAll(io.LimitReader(c.env.Stdin, limit))
		if err != nil {
			return nil, &fileError{err: fmt.Errorf("read standard input: %w", err)}
		}
		return b, nil
	}
	f, err := os.Open(c.path(name))
	if err != nil {
		near := config.Neighbour(c.path(name), err)
		if near != "" {
			near = filepath.Join(filepath.Dir(name), filepath.Base(near))
		}
		return nil, &fileError{err: fmt.Errorf("read %s: %w%s", name, cause(err), didYouMean(near))}
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, &fileError{err: fmt.Errorf("read %s: %w", name, cause(err))}
	}
	return b, nil
}

// fileError is a file of the command line that cannot be read.
type fileError struct {
	err     error
	written bool // not read
}

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

// cause drops the operation and the path that the message names already.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// readValue reads one value: JSON from a file of that name, else EDN.
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

// jsonObject is how a JSON object with a key begins. A request in EDN has
// keywords as keys, so no request is both.
var jsonObject = regexp.MustCompile(`^\s*\{\s*"`)

// parseTyped reads a value that somebody typed: EDN, or JSON where the text is no
// EDN. Of a text that begins as a JSON object the fault is told as one of JSON.
func parseTyped(source, text string) (edn.Value, error) {
	v, _, err := parseEither(source, text)
	return v, err
}

// parseEither is parseTyped; isJSON reports which of the two it was.
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
	return edn.Nil(), false, err
}

// isJSONFile reports whether the name of a file says that it holds JSON.
func isJSONFile(name string) bool { return strings.HasSuffix(name, ".json") }

// readRequest reads a request: JSON from a file of that name and from standard
// input where it begins as one, else EDN.
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

// readPlan reads a plan with the positions of its parts. One in JSON has none, and its
// kinds are those of JSON.
func (c *command) readPlan(name string) (edn.Value, *edn.Positions, error) {
	text, err := c.readText(name)
	if err != nil {
		return edn.Nil(), nil, err
	}
	if isJSONFile(name) {
		v, err := edn.ReadJSON(text, edn.WithLimits(edn.Body), edn.WithSource(sourceName(name)))
		if err != nil {
			return edn.Nil(), nil, contract.SyntaxError("plan/invalid", err)
		}
		return v, nil, nil
	}
	v, positions, err := edn.ReadWithPositions(text, edn.WithLimits(edn.Body), edn.WithSource(sourceName(name)))
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
