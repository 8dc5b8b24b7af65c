//go:build external

package suite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program finds a program that these tests require.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	return path
}

// node --test writes both forms that this package parses.
func TestNode(t *testing.T) {
	node := program(t, "node")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.test.js"), []byte(`
const { test, describe, it } = require('node:test');
const assert = require('node:assert');
test('adds', () => assert.equal(1 + 1, 2));
test('fails', () => assert.equal(1 + 1, 3));
test('later', { skip: 'no time' }, () => {});
describe('group', () => { it('works', () => {}); it('breaks', () => { throw new Error('boom'); }); });
`), 0o600))
	for _, format := range []Format{TAP, JUnit} {
		command, got := Detect([]string{node, "--test", "a.test.js"}, format, "")
		require.Equal(t, format, got)
		r, err := Run(context.Background(), Spec{Dir: dir, Path: command[0], Args: command[1:], Env: []string{"PATH=" + os.Getenv("PATH")}, Format: format, Timeout: time.Minute})
		require.NoError(t, err)
		assert.False(t, r.OK)
		assert.Equal(t, []int{2, 2, 1}, []int{r.Passed, r.Failed, r.Skipped}, "%s: %s\n%s", format, words(r.Tests), r.Output)
		for _, x := range r.Tests {
			if x.Name == "breaks" {
				assert.Contains(t, x.Output, "boom", format)
			}
		}
	}
}

// pytest writes a report file that this package parses.
func TestPytest(t *testing.T) {
	pytest := program(t, "pytest") // the system's, independent of the python in PATH
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test_a.py"), []byte(`
import pytest
def test_adds(): assert 1 + 1 == 2
def test_fails(): assert 1 + 1 == 3
@pytest.mark.skip(reason="no time")
def test_later(): pass
@pytest.fixture
def broken(): raise RuntimeError("boom")
def test_errs(broken): pass
`), 0o600))
	report := filepath.Join(t.TempDir(), "report.xml")
	command, format := Detect([]string{pytest, "-p", "no:cacheprovider"}, "", report)
	require.Equal(t, JUnit, format)
	r, err := Run(context.Background(), Spec{Dir: dir, Path: command[0], Args: command[1:], Env: []string{"PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}, Format: format, Report: report, Timeout: time.Minute})
	require.NoError(t, err)
	assert.False(t, r.OK)
	assert.Equal(t, []int{1, 2, 1}, []int{r.Passed, r.Failed, r.Skipped}, "%s\n%s", words(r.Tests), r.Output)
	for _, x := range r.Tests {
		if x.Name == "test_errs" {
			assert.Contains(t, x.Output, "boom")
		}
	}
}
