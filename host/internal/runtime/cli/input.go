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

	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// readText reads a file, or standard input for "-", up to one byte beyond the
// limit of the reader. A pipe without a writer blocks until an interrupt.
func (c *command) readText(name string) ([]byte, error) { return c.readFile(name, edn.Body.Bytes) }

// readFile is readText with another limit, in bytes.
func (c *command) readFile(name string, limit int) ([]byte, error) {
	type outcome struct {
		text []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		text, err := c.readAll(name, int64(limit)+1)
		done <- outcome{text, err}
	}()
	select {
	case o := <-done:
		return o.text, o.err
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

func (c *command) readAll(name string, limit int64) ([]byte, error) {
	if name == "-" {
		b, err := io.ReadAll(io.LimitReader(c.env.Stdin, limit))
		if err != nil {
			return nil, &fileError{err: fmt.Errorf("read standard input: %w", err)}
		}
		return b, nil
	}
	f, err := os.Open(c.path(name))
	if err != nil {
		near := disk.Neighbour(c.path(name), err)
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

// fileError is an error of a file named on the command line.
type fileError struct {
	err     error
	written bool // the file was being written
}

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

// cause removes the operation and the path that the message already has.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// readValue reads one value: JSON from a file named .json, else EDN.
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

// jsonObject matches the start of a JSON object with a key. A request in EDN
// has keywords as keys, so none matches.
var jsonObject = regexp.MustCompile(`^\s*\{\s*"`)

// parseTyped parses a value of the command line: EDN, or JSON if the text is
// not EDN. For a text that starts like a JSON object, the JSON error is
// reported.
func parseTyped(source, text string) (edn.Value, error) {
	v, _, err := parseEither(source, text)
	return v, err
}

// parseEither is parseTyped; isJSON reports the format.
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
		WithHint("a map is {:key \"text\"} in EDN, and {\"key\": \"text\"} in JSON")
}

// isJSONFile reports whether a file name ends in .json.
func isJSONFile(name string) bool { return strings.HasSuffix(name, ".json") }

// readRequest reads a request: JSON from a file named .json and from standard
// input that starts like JSON, else EDN.
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

// readPlan reads a plan with the positions of its parts. A plan in JSON has
// untyped values.
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
