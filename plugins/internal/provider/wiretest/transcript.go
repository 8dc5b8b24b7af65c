package wiretest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Step is one action of the server.
type Step struct {
	// Wait is the recorded pause before it. A Server plays it only if it has a
	// Pace.
	Wait time.Duration
	Send string // bytes that are sent at once
	// Do is cut (a clean end), abort (the connection closes inside the body),
	// reset (TCP reset), stall (nothing more is sent), or empty.
	Do string
	// Until, if not nil, must be closed before the next step.
	Until <-chan struct{}
}

// Want is the content that every reader of a well-formed transcript must
// return.
type Want struct {
	Text, Reasoning, Finish  string
	In, Out, Cached, Thought int64
	Written                  int64    // into a cache
	Calls                    []string // "id name args", or "name args" if the server states no id
	Sealed                   []string // encrypted reasoning
	Error                    string   // type of the error; then the other fields are not compared
	Assumed                  bool
	Skipped                  int64
}

// Transcript is one request and the answer to it.
type Transcript struct {
	Name, Origin, Source, Date string
	Method, Path               string
	Body                       []string // parts of the request
	Status                     int
	Header                     http.Header
	Steps                      []Step
	Want                       Want
	// WellFormed means that the official clients of the vendor read it too.
	WellFormed bool
}

// Load reads all transcripts of a dialect below root. It fails the test if there is none or one is
// malformed.
func Load(t testing.TB, root, dialect string) []Transcript {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dialect, "*.wire"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts of %s below %s", dialect, root)
	}
	var all []Transcript
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Parse(strings.TrimSuffix(filepath.Base(file), ".wire"), string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, tr)
	}
	return all
}

// Parse parses the text of a *.wire file; see the package comment for its form.
func Parse(name, text string) (Transcript, error) {
	tr := Transcript{Name: name, Status: http.StatusOK, Header: http.Header{}, WellFormed: true}
	head, rest, found := strings.Cut(text, "\n\n")
	if !found {
		return tr, fmt.Errorf("no empty line after the header")
	}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			return tr, fmt.Errorf("header line %q", line)
		}
		if err := tr.set(key, value); err != nil {
			return tr, err
		}
	}
	if tr.Origin != "authored" && tr.Origin != "recorded" || tr.Source == "" || tr.Date == "" {
		return tr, fmt.Errorf("origin, source and date are missing")
	}
	return tr, tr.steps(rest)
}

func (tr *Transcript) set(key, value string) error {
	n, err := int64(0), error(nil)
	switch key {
	case "status", "in", "out", "cached", "written", "thought", "skipped":
		n, err = strconv.ParseInt(value, 10, 64)
	}
	w := &tr.Want
	switch key {
	case "origin":
		tr.Origin = value
	case "source":
		tr.Source = value
	case "date":
		tr.Date = value
	case "request":
		tr.Method, tr.Path, _ = strings.Cut(value, " ")
	case "body":
		tr.Body = append(tr.Body, value)
	case "status":
		tr.Status = int(n)
	case "header":
		name, v, _ := strings.Cut(value, ": ")
		tr.Header.Add(name, v)
	case "well-formed":
		tr.WellFormed = value == "yes"
	case "text":
		w.Text, err = strconv.Unquote(value)
	case "reasoning":
		w.Reasoning, err = strconv.Unquote(value)
	case "finish":
		w.Finish = value
	case "in":
		w.In = n
	case "out":
		w.Out = n
	case "cached":
		w.Cached = n
	case "written":
		w.Written = n
	case "thought":
		w.Thought = n
	case "call":
		w.Calls = append(w.Calls, value)
	case "sealed":
		w.Sealed = append(w.Sealed, value)
	case "error":
		w.Error = value
	case "assumed":
		w.Assumed = value == "yes"
	case "skipped":
		w.Skipped = n
	default:
		return fmt.Errorf("unknown header %q", key)
	}
	return err
}

func (tr *Transcript) steps(text string) error {
	var send strings.Builder
	var wait time.Duration
	flush := func(do string) {
		if send.Len() > 0 || do != "" {
			tr.Steps = append(tr.Steps, Step{Wait: wait, Send: send.String(), Do: do})
		}
		send.Reset()
		wait = 0
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case line == "|":
			send.WriteString("\n")
		case strings.HasPrefix(line, "| "):
			send.WriteString(line[2:] + "\n")
		case strings.HasPrefix(line, "|r"):
			send.WriteString(strings.TrimPrefix(line[2:], " ") + "\r\n")
		case strings.HasPrefix(line, "|- "):
			send.WriteString(line[3:])
		case line == "---":
			flush("")
		case line == "cut" || line == "abort" || line == "reset" || line == "stall":
			flush(line)
		case strings.HasPrefix(line, "wait "):
			d, err := time.ParseDuration(line[len("wait "):])
			if err != nil || d < 0 {
				return fmt.Errorf("step %q", line)
			}
			wait = d
		case line == "":
		default:
			return fmt.Errorf("step %q", line)
		}
	}
	flush("")
	return nil
}

// Whole returns all text that the transcript sends.
func (tr Transcript) Whole() string {
	var b strings.Builder
	for _, s := range tr.Steps {
		b.WriteString(s.Send)
	}
	return b.String()
}
