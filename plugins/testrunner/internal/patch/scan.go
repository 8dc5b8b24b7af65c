package patch

import (
	"fmt"
	"strconv"
	"strings"
)

// scan walks the lines of a diff like the library, for two reasons. It rejects
// what the library would skip silently: lines after a hunk that belong to no
// hunk, headers without a hunk, header lines with CRLF ends. And it makes names
// uniform: the library removes one directory from names in Git headers and none
// from others; in the result, all names have lost one if strip is positive, and
// none if it is 0.
func scan(text string, strip int) (string, *Refusal) {
	s := scanner{strip: strip, lines: strings.SplitAfter(text, "\n")}
	for s.at = 0; s.at < len(s.lines); s.at++ {
		if s.lines[s.at] == "" {
			break
		}
		if r := s.line(s.lines[s.at]); r != nil {
			return "", r
		}
	}
	if s.inHunk() {
		return "", s.refuse("has fewer lines than its header says")
	}
	return s.out.String(), nil
}

type scanner struct {
	strip            int
	lines            []string
	at               int
	out              strings.Builder
	file             string
	hunk             int
	oldLeft, newLeft int64 // missing lines of the current hunk
	afterHunk        bool  // the previous line ended a hunk or followed one
	inGit            bool  // in the header begun by a "diff --git" line
}

func (s *scanner) inHunk() bool { return s.oldLeft > 0 || s.newLeft > 0 }

func (s *scanner) peek(n int) string {
	if s.at+n < len(s.lines) {
		return s.lines[s.at+n]
	}
	return ""
}

func (s *scanner) line(line string) *Refusal {
	if s.inHunk() {
		return s.body(line)
	}
	if r := s.leftover(line); r != nil {
		return r
	}
	if isHeader(line) && strings.HasSuffix(line, "\r\n") {
		return &Refusal{File: s.file, Line: s.at + 1, Reason: "header lines end in CRLF: write them with LF"}
	}
	switch {
	case strings.HasPrefix(line, "@@ -"):
		s.hunk++
		s.afterHunk, s.inGit = true, false
		s.oldLeft, s.newLeft = counts(line)
	case strings.HasPrefix(line, "diff --git "):
		s.begin(commonName(line))
		s.inGit = true
		if s.strip == 0 {
			line = prefixBoth(line)
		}
	case s.inGit && isGitHeader(line):
		line = s.gitHeader(line)
	case strings.HasPrefix(line, "--- ") && strings.HasPrefix(s.peek(1), "+++ "):
		return s.plainHeader(line, s.peek(1))
	case line == "GIT binary patch\n", strings.HasPrefix(line, "Binary files ") && strings.HasSuffix(line, " differ\n"):
		return &Refusal{File: s.file, Line: s.at + 1, Reason: "binary patches are not supported"}
	default:
		s.inGit = false
	}
	s.out.WriteString(line)
	return nil
}

func (s *scanner) begin(file string) {
	s.file, s.hunk, s.afterHunk, s.inGit = file, 0, false, false
}

// leftover rejects a line directly after a hunk that looks like one of its
// lines.
func (s *scanner) leftover(line string) *Refusal {
	if !s.afterHunk || strings.HasPrefix(line, "@@ -") || strings.HasPrefix(line, `\ `) {
		return nil
	}
	s.afterHunk = false
	bare := strings.TrimRight(line, "\r\n")
	header := strings.HasPrefix(line, "--- ") && strings.HasPrefix(s.peek(1), "+++ ")
	// "-- " alone is the end mark of mailed patches.
	if bare != "" && bare != "-- " && !header && strings.IndexByte("+- ", line[0]) >= 0 {
		return s.refuse("has more lines than its header says")
	}
	return nil
}

// body counts a line inside a hunk.
func (s *scanner) body(line string) *Refusal {
	switch line[0] {
	case ' ', '\n':
		s.oldLeft--
		s.newLeft--
	case '-':
		s.oldLeft--
	case '+':
		s.newLeft--
	case '\\':
	default:
		return s.refuse(`has a line that does not begin with space, "+", "-" or "\"`)
	}
	if s.oldLeft < 0 || s.newLeft < 0 {
		return s.refuse("has other lines than its header says")
	}
	s.out.WriteString(line)
	return nil
}

func (s *scanner) refuse(reason string) *Refusal {
	return &Refusal{File: s.file, Hunk: s.hunk, Line: s.at + 1, Reason: "the hunk " + reason}
}

// gitHeader returns a line of a Git header in its uniform form: if strip is 0, it adds the
// directory that the library will remove from the name. It also records the name of the file.
func (s *scanner) gitHeader(line string) string {
	if !strings.HasPrefix(line, "--- ") && !strings.HasPrefix(line, "+++ ") {
		return line
	}
	if name := nameIn(line); name != devNull {
		s.file = withoutFirst(name, s.strip)
		if s.strip == 0 {
			return line[:4] + prefixed(line[4:])
		}
	}
	return line
}

// plainHeader handles the two name lines of a diff that Git did not make.
func (s *scanner) plainHeader(old, new string) *Refusal {
	s.begin("")
	for i, line := range []string{old, new} {
		name := nameIn(line)
		if name != devNull {
			s.file = withoutFirst(name, s.strip)
		}
		if strings.HasSuffix(line, "\r\n") {
			return &Refusal{File: s.file, Line: s.at + 1 + i, Reason: "header lines end in CRLF: write them with LF"}
		}
		if name == devNull || s.strip == 0 {
			s.out.WriteString(line)
			continue
		}
		dir, rest, ok := strings.Cut(line[4:], "/")
		if !ok || !strings.Contains(name, "/") {
			return &Refusal{File: name, Line: s.at + 1 + i, Reason: tooFewDirectories(s.strip)}
		}
		if strings.HasPrefix(dir, `"`) {
			rest = `"` + rest
		}
		s.out.WriteString(line[:4] + rest)
	}
	s.at++
	if !strings.HasPrefix(s.peek(1), "@@ -") {
		return &Refusal{File: s.file, Line: s.at + 1, Reason: "no hunk follows the names of the file"}
	}
	return nil
}

func tooFewDirectories(strip int) string {
	return fmt.Sprintf("the path has no %d leading directories to strip", strip)
}

const devNull = "/dev/null"

func isHeader(line string) bool {
	return strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "@@ -")
}

var gitHeaders = []string{
	"--- ", "+++ ", "old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ",
	"rename old ", "rename new ", "rename from ", "rename to ", "similarity index ", "dissimilarity index ", "index ",
}

func isGitHeader(line string) bool {
	for _, h := range gitHeaders {
		if strings.HasPrefix(line, h) {
			return true
		}
	}
	return false
}

// counts parses the two lengths of a hunk header; invalid ones count as zero,
// and the library rejects them.
func counts(header string) (oldLines, newLines int64) {
	fields := strings.Fields(header)
	if len(fields) < 3 {
		return 0, 0
	}
	return length(fields[1]), length(fields[2])
}

func length(span string) int64 {
	_, n, ok := strings.Cut(span, ",")
	if !ok {
		return 1
	}
	i, err := strconv.ParseInt(n, 10, 32)
	if err != nil || i < 0 {
		return 0
	}
	return i
}

// nameIn returns the file name of a "--- " or "+++ " line without its time
// stamp.
func nameIn(line string) string {
	name, _, _ := strings.Cut(strings.TrimRight(line[4:], "\r\n"), "\t")
	return name
}

// withoutFirst returns a name for display: without the directory that strip
// removes.
func withoutFirst(name string, strip int) string {
	if _, rest, ok := strings.Cut(name, "/"); ok && strip > 0 {
		return rest
	}
	return name
}

// commonName returns the name on both sides of a "diff --git" line, without the
// first directory; "" if they differ.
func commonName(line string) string {
	rest := strings.TrimSuffix(strings.TrimPrefix(line, "diff --git "), "\n")
	half := len(rest) / 2
	if len(rest)%2 == 0 || rest[half] != ' ' {
		return ""
	}
	old, new := withoutFirst(rest[:half], 1), withoutFirst(rest[half+1:], 1)
	if old != new {
		return ""
	}
	return old
}

// prefixBoth prefixes the two names of a "diff --git" line if they are equal;
// otherwise the rename lines name both files.
func prefixBoth(line string) string {
	rest := strings.TrimSuffix(strings.TrimPrefix(line, "diff --git "), "\n")
	half := len(rest) / 2
	if len(rest)%2 == 1 && rest[half] == ' ' && rest[:half] == rest[half+1:] {
		return "diff --git " + prefixed(rest[:half]) + " " + prefixed(rest[:half]) + "\n"
	}
	return line
}

// prefixed puts a directory before a name, inside the quotes of a quoted one.
func prefixed(name string) string {
	if strings.HasPrefix(name, `"`) {
		return `"x/` + name[1:]
	}
	return "x/" + name
}
