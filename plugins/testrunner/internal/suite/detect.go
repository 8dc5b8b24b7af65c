package suite

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ReportVariable is the environment variable with the path for a JUnit report,
// for commands that do not write it to standard output.
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

// nodeTest returns the index of --test in a command of node, 0 if there is none.
func nodeTest(command []string) int {
	if filepath.Base(command[0]) != "node" {
		return 0
	}
	for i, arg := range command[1:] {
		switch {
		case arg == "--test":
			return i + 1
		case !strings.HasPrefix(arg, "-"):
			return 0 // the rest belongs to the script
		}
	}
	return 0
}

// Detect returns the command to run and its output format. If format is empty, the format is
// determined from the command, ExitCode if it is unknown. It adds the flags that make known runners
// write the format. report is the path for a JUnit report. The command must not be empty; the slice
// is not changed.
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
