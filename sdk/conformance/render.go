package conformance

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// JSON returns the report as an indented JSON document.
func (r Report) JSON() ([]byte, error) {
	text, err := edn.WriteJSON(r.Value())
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the report as JUnit XML: one suite per profile. A failure in
// the baseline is a passed case with the failure in its output, because the
// only alternative of the format is "skipped".
func (r Report) JUnit() ([]byte, error) {
	all := junitSuites{Name: "ferment conform " + r.Plugin, Time: seconds(r.Took)}
	for _, profile := range r.checked() {
		s := junitSuite{Name: profile, Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05")}
		var took time.Duration
		for _, res := range r.Results {
			if res.Check.Profile() != profile {
				continue
			}
			took += res.Took
			c := r.junitCase(res)
			s.Tests++
			if c.Failure != nil {
				s.Failures++
			}
			if c.Error != nil {
				s.Errors++
			}
			s.Cases = append(s.Cases, c)
		}
		s.Time = seconds(took)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Suites = append(all.Suites, s)
	}
	if stale := r.Stale(); len(stale) > 0 {
		c := junitCase{Class: "baseline", Name: "stale", Time: "0.000", Failure: &junitProblem{
			Type: "stale", Message: "these no longer fail: remove them from the baseline",
			Text: strings.Join(stale, "\n"),
		}}
		all.Suites = append(all.Suites, junitSuite{
			Name:      "baseline",
			Tests:     1,
			Failures:  1,
			Time:      "0.000",
			Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05"),
			Cases:     []junitCase{c},
		})
		all.Tests++
		all.Failures++
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return append(append([]byte(xml.Header), text...), '\n'), nil
}

func (r Report) junitCase(res Result) junitCase {
	c := junitCase{Class: strings.ReplaceAll(res.Check.ID[:strings.LastIndex(res.Check.ID, "/")], "/", "."),
		Name: res.Check.ID, Time: seconds(res.Took)}
	if res.Status == Pass {
		c.Out = res.Note
		return c
	}
	text := r.Explain(res)
	problem := &junitProblem{Message: oneLine(res.Observed), Type: strings.Join(res.Check.Requirements, " "), Text: text}
	switch {
	case res.Status == Fault:
		c.Error = problem
	case r.Baseline.Knows(res.Check.ID):
		c.Out = "known to fail\n" + text
	default:
		c.Failure = problem
	}
	return c
}

// Explain returns the details of a result that did not pass, for people.
func (r Report) Explain(res Result) string {
	var b strings.Builder
	for _, id := range res.Check.Requirements {
		requirement, _ := requirementOf(id)
		fmt.Fprintf(&b, "requirement: %s %s\n", id, requirement.Text)
	}
	fmt.Fprintf(&b, "expected: %s\nobserved: %s\n", res.Expected, res.Observed)
	for _, line := range res.Evidence {
		fmt.Fprintf(&b, "log: %s\n", line)
	}
	if line := r.reproduce(res.Check.ID); line != "" {
		fmt.Fprintf(&b, "again: %s\n", line)
	}
	return strings.Map(printable, b.String())
}

// printable drops the characters that XML 1.0 does not permit.
func printable(c rune) rune {
	if c == '\t' || c == '\n' || (c >= 0x20 && c != 0xfffe && c != 0xffff) {
		return c
	}
	return -1
}

func oneLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return strings.Map(printable, text)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// Markdown returns the report as a page: the verdict, a table of the profiles,
// and every check that did not pass.
func (r Report) Markdown() []byte {
	var b bytes.Buffer
	name := strings.TrimSpace(r.Plugin + " " + r.Version)
	if name == "" {
		name = "a plugin that does not say what it is"
	}
	fmt.Fprintf(&b, "# Conformance of %s: %s\n\n", name, r.Outcome())
	fmt.Fprintf(&b, "Suite %s, protocol revision %d, %s, seed %d, %d ms.\n", r.Suite, r.Protocol, r.Platform, r.Seed,
		r.Took.Milliseconds())
	if r.Hash != "" {
		fmt.Fprintf(&b, "Program `%s`.\n", r.Hash)
	}
	b.WriteString("\n| profile | checks | passed | failed | faults |\n|---|---|---|---|---|\n")
	for _, p := range r.checked() {
		passed, failed, faults := r.count(Pass, p), r.count(Fail, p), r.count(Fault, p)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", p, passed+failed+faults, passed, failed, faults)
	}
	for _, id := range r.Stale() {
		fmt.Fprintf(&b, "\nThe baseline is stale: `%s` no longer fails.\n", id)
	}
	for _, res := range r.Results {
		if res.Status == Pass || res.Blocked != "" {
			continue
		}
		known := ""
		if r.Baseline.Knows(res.Check.ID) {
			known = ", known"
		}
		fmt.Fprintf(&b, "\n## %s: %s%s\n\n%s.\n\n", res.Check.ID, res.Status, known, res.Check.Text)
		fence := "```"
		for strings.Contains(res.Observed, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "%stext\n%s%s\n", fence, r.Explain(res), fence)
	}
	by, ids := r.Blocked()
	for _, id := range by {
		fmt.Fprintf(&b, "\n## %s\n\n", strings.Replace(r.BlockedText(id), "not", "Not", 1))
		for _, blocked := range ids[id] {
			fmt.Fprintf(&b, "- `%s`\n", blocked)
		}
	}
	notes, of := r.Notes()
	for _, note := range notes {
		fmt.Fprintf(&b, "\n## Passed in part\n\n%s.\n\n", note)
		for _, id := range of[note] {
			fmt.Fprintf(&b, "- `%s`\n", id)
		}
	}
	return b.Bytes()
}
