package txclose_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// CNV-006: the vet tool flags each transaction of the fixture that some path
// leaves open, and no other.
func TestFindings(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "txclose")
	out, err := exec.Command("go", "build", "-o", tool, "./cmd/txclose").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("go", "vet", "-vettool="+tool, "./testdata/leaks").CombinedOutput()
	require.Error(t, err, "go vet fails if there are findings")
	var found []int
	for _, m := range regexp.MustCompile(`leaks\.go:(\d+):\d+: .*(?:Close\(\)|close it)`).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		found = append(found, line)
	}
	assert.Equal(t, wanted(t), found, "%s", out)
}

// wanted returns the lines of the fixture that have a comment that wants a
// finding.
func wanted(t *testing.T) (lines []int) {
	t.Helper()
	file, err := os.Open("testdata/leaks/leaks.go")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	text := bufio.NewScanner(file)
	for n := 1; text.Scan(); n++ {
		if strings.HasSuffix(text.Text(), "// want") {
			lines = append(lines, n)
		}
	}
	require.NoError(t, text.Err())
	require.NotEmpty(t, lines)
	return lines
}
