package suite

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ReportVariable tells a command where it may put a JUnit report, for those
// that do not write it to standard output.
const ReportVariable = "FERMENT_TEST_REPORT"

var python = regexp.MustCompile(`^python[0-9.]*$`)

// isPytest reports whether a command is pytest.
func isPytest(command []string) bool {
	name := filepath.Base(command[0])
	if name == "pytest" || name == "py.test" {
		return true
	}
	return python.MatchString(name) && len(command) >= 3 && command[1] == "-m" && command[2] == "pytest"
}

// nodeTest gives the place of --test in a command of node, 0 if it is none.
func nodeTest(command []string) int {
	if filepath.Base(command[0]) != "node" {
		return 0
	}
	for i, arg := range command[1:] {
		switch {
		case arg == "--test":
			return i + 1
		case !strings.HasPrefix(arg, "-"):
			return 0 // what follows belongs to the script
		}
	}
	return 0
}

// Detect says how the output of a command is read if the request leaves that
// open, and completes commands of runners that are known, so that they write it.
// report is where a JUnit report may be put. The slice that it gets is not
// changed.
func Detect(command []string, format Format, report string) ([]string, Format) {
	switch at := nodeTest(command); {
	case at > 0 && (format == "" || format == TAP || format == JUnit):
		for _, arg := range command[1:] {
			if name, ok := strings.CutPrefix(arg, "--test-reporter="); ok {
				if format == "" && (name == "tap" || name == "junit") {
					format = Format(name)
				}
				return command, orExitCode(format)
			}
			if arg == "--test-reporter" || strings.HasPrefix(arg, "--test-reporter-destination") {
				return command, orExitCode(format)
			}
		}
		if format == "" {
			format = TAP
		}
		return slices.Insert(slices.Clone(command), at+1, "--test-reporter="+string(format)), format
	case isPytest(command) && (format == "" || format == JUnit):
		if slices.ContainsFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "--junit") }) {
			return command, orExitCode(format)
		}
		return append(slices.Clone(command), "--junitxml="+report), JUnit
	}
	return command, orExitCode(format)
}

func orExitCode(format Format) Format {
	if format == "" {
		return ExitCode
	}
	return format
}
