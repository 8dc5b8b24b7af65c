package report

import (
	"cmp"
	"encoding/xml"
	"strconv"
	"strings"
	"unicode/utf8"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the report as a suite of tests: one for each condition, one for
// the validation, and one for each path with a finding. A finding to which no
// condition applies is a skipped test.
func (out *Report) JUnit() string {
	s := junitSuite{Name: "ferment context"}
	add := func(c junitCase) {
		s.Tests++
		if c.Failure != nil {
			s.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	if out.FailOn != nil {
		for _, c := range out.FailOn.Conditions {
			one := junitCase{Class: "check", Name: xmlText(c.Condition)}
			if c.Met {
				one.Failure = &junitText{Message: "met by " + strconv.Itoa(c.Count)}
			}
			add(one)
		}
	}
	if v := out.Validation; v != nil {
		one := junitCase{Class: "check", Name: "validation"}
		if !v.Valid {
			one.Failure = &junitText{Message: plural(len(v.Errors), "error")}
			for _, p := range v.Errors {
				one.Failure.Text += xmlText(string(p.Code)+" "+cmp.Or(p.Text, p.Raw, p.File)+": "+p.Message) + "\n"
			}
		}
		add(one)
	}
	for _, c := range out.pathCases() {
		add(c)
	}
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil { // its fields are text and numbers
		panic(err)
	}
	return xml.Header + string(b) + "\n"
}

// pathCases joins the findings of each path and check in one test.
func (out *Report) pathCases() (list []junitCase) {
	type key struct{ check, about string }
	at := map[key]int{}
	for _, f := range out.findings {
		k := key{f.check, f.about}
		i, known := at[k]
		if !known {
			i = len(list)
			at[k] = i
			list = append(list, junitCase{Class: xmlText(f.check), Name: xmlText(cmp.Or(f.about, "store"))})
		}
		text := &junitText{Message: xmlText(f.message)}
		to := &list[i].Skipped
		if f.fails {
			to = &list[i].Failure
		}
		if *to == nil {
			*to = text
		} else {
			(*to).Text += text.Message + "\n"
		}
	}
	return list
}

// xmlText replaces characters that XML does not allow.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return '\uFFFD'
		}
		return r
	}, s)
}
