package suite

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits on a JUnit report.
const (
	maxReport      = 32 << 20 // bytes
	maxReportDepth = 64       // nested elements
)

// junitReader keeps the standard output of a command until it is known whether
// there is a report file.
type junitReader struct {
	stdout  bytes.Buffer
	dropped int64
	noise   excerpt
	memory  bool
	path    string // possible path of the report
}

// Write keeps a part of standard output; bytes beyond the limit are only counted. It never fails.
func (r *junitReader) Write(b []byte) (int, error) {
	n := min(len(b), maxReport+1-r.stdout.Len())
	r.stdout.Write(b[:n])
	r.dropped += int64(len(b) - n)
	return len(b), nil
}

func (r *junitReader) line(line string) { _, _ = r.Write([]byte(line + "\n")) }

func (r *junitReader) other(line string) {
	r.noise.line(line)
	r.memory = r.memory || saysOutOfMemory(line)
}

func (r *junitReader) outOfMemory() bool { return r.memory }

func (r *junitReader) fill(result *Result, _ string) {
	report, there, err := r.report()
	if err == nil && there {
		var tests []Test
		tests, err = readJUnit(bytes.NewReader(report))
		for _, t := range tests {
			result.add(t)
		}
	}
	if err != nil {
		result.add(Test{Name: reportEntry, Status: Fail, Output: "the report cannot be read: " + err.Error()})
	}
	result.Output += r.noise.String()
}

// report returns the report: from the file whose path the command got, else from standard output.
// It returns false if there is none. Text before a report on standard output, and all output
// without one, is ordinary output.
func (r *junitReader) report() ([]byte, bool, error) {
	if r.path != "" {
		report, err := readReport(r.path)
		if err == nil {
			r.noise.add(r.stdout.String())
			return report, true, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, false, err
		}
	}
	if r.dropped > 0 || r.stdout.Len() > maxReport {
		return nil, false, fmt.Errorf("it has more than %d bytes", maxReport)
	}
	out := r.stdout.Bytes()
	at := reportStart(out)
	if at < 0 {
		r.noise.add(string(out))
		r.memory = r.memory || saysOutOfMemory(string(out))
		return nil, false, nil
	}
	r.noise.add(string(out[:at]))
	return out[at:], true, nil
}

// reportStart returns the index of the line that starts a report, -1 if none
// does.
func reportStart(out []byte) int {
	for at := 0; at < len(out); {
		rest := out[at:]
		for _, start := range []string{"<?xml", "<testsuite"} {
			if bytes.HasPrefix(rest, []byte(start)) {
				return at
			}
		}
		next := bytes.IndexByte(rest, '\n')
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	return -1
}

func readReport(path string) ([]byte, error) {
	// The suite wrote the file: it may be anything, even a pipe without a
	// writer.
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	report, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err == nil && len(report) > maxReport {
		err = fmt.Errorf("it has more than %d bytes", maxReport)
	}
	return report, err
}

// junitParse is the state of parsing one report.
type junitParse struct {
	tests  []Test
	suites []string // names of the open suites
	open   []string // names of the open elements
	test   *Test    // the open testcase
	took   bool
	text   *excerpt // of the open failure
	kept   int
}

// readJUnit parses the XML of JUnit and compatible tools. Document types are
// rejected, so the only entities are those of XML itself. On error it also
// returns the tests parsed so far.
func readJUnit(r io.Reader) ([]Test, error) {
	d := xml.NewDecoder(r)
	d.CharsetReader = func(charset string, input io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "utf-8", "us-ascii", "ascii":
			return input, nil
		}
		return nil, fmt.Errorf("the encoding is %s, expected UTF-8", clipName(charset))
	}
	p := &junitParse{}
	for {
		token, err := d.RawToken()
		if err == nil {
			err = p.token(token)
		}
		switch {
		case errors.Is(err, io.EOF) && p.done():
			return p.tests, nil
		case errors.Is(err, io.EOF):
			return p.tests, errors.New("its root element is missing or not closed")
		case errors.Is(err, errEndOfReport):
			return p.tests, nil
		case err != nil:
			line, column := d.InputPos()
			return p.tests, fmt.Errorf("line %d, column %d: %w", line, column, err)
		}
	}
}

// errEndOfReport ends parsing after the root element: what follows does not belong to the report.
var errEndOfReport = errors.New("end of the report")

func (p *junitParse) done() bool { return len(p.open) == 0 && p.took }

func (p *junitParse) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.Directive:
		return errors.New("a document type is not permitted")
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		return p.end(t.Name.Local)
	case xml.CharData:
		if p.text != nil {
			p.text.add(string(t))
		}
	}
	return nil
}

func (p *junitParse) start(t xml.StartElement) error {
	name := t.Name.Local
	if len(p.open) == 0 && name != "testsuites" && name != "testsuite" {
		return fmt.Errorf("it begins with <%s>: expected testsuites or testsuite", clipName(name))
	}
	if p.open = append(p.open, name); len(p.open) > maxReportDepth {
		return fmt.Errorf("elements nest deeper than %d", maxReportDepth)
	}
	switch {
	case p.test != nil:
		p.inside(name, t.Attr)
	case name == "testsuite":
		p.suites = append(p.suites, clipName(attribute(t.Attr, "name")))
	case name == "testcase":
		if len(p.tests) >= maxTracked {
			return fmt.Errorf("more than %d tests", maxTracked)
		}
		p.test = &Test{
			Name:    clipName(attribute(t.Attr, "name")),
			Package: clipName(attribute(t.Attr, "classname")),
			Status:  Pass,
			Took:    seconds(attribute(t.Attr, "time")),
		}
		if p.test.Package == "" && len(p.suites) > 0 {
			p.test.Package = p.suites[len(p.suites)-1]
		}
	}
	return nil
}

// inside handles an element of a testcase. A failed test stays failed, whatever
// other elements follow.
func (p *junitParse) inside(name string, attrs []xml.Attr) {
	switch name {
	case "failure", "error":
		p.test.Status = Fail
		if p.text == nil {
			p.text = &excerpt{}
		}
		if message := attribute(attrs, "message"); message != "" {
			p.text.line(message)
		}
	case "skipped":
		if p.test.Status != Fail {
			p.test.Status = Skip
		}
	}
}

func (p *junitParse) end(name string) error {
	if len(p.open) == 0 || p.open[len(p.open)-1] != name {
		return fmt.Errorf("</%s> has no matching start element", clipName(name))
	}
	p.open = p.open[:len(p.open)-1]
	switch {
	case name == "testcase" && p.test != nil && !inTestcase(p.open):
		if p.text != nil {
			p.test.Output = strings.TrimSpace(keepOutput(&p.kept, p.text))
		}
		p.tests = append(p.tests, *p.test)
		p.test, p.text = nil, nil
	case name == "testsuite" && p.test == nil:
		p.suites = p.suites[:len(p.suites)-1]
	}
	if len(p.open) == 0 {
		p.took = true
		return errEndOfReport
	}
	return nil
}

// inTestcase reports whether a testcase is open: some tools nest them.
func inTestcase(open []string) bool {
	for _, name := range open {
		if name == "testcase" {
			return true
		}
	}
	return false
}

func attribute(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// seconds parses a time of these reports, in seconds, with commas as thousands separators. It
// returns 0 for an invalid one.
func seconds(text string) time.Duration {
	s, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || s < 0 || s > 1e7 || s != s {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
