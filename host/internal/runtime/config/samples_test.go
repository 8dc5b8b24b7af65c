package config_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// HCL-009, HCL-011: the configurations of this repository are in canonical layout
// and valid, as far as this can be checked without building its plugins.
func TestRepositoryFiles(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	files := repositoryFiles(t, root, ".hcl")
	require.Contains(t, files, filepath.Join(root, "ferment.hcl"))
	for _, file := range files {
		t.Run(disk.PrintedName(root, file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			f := view.Format(file, raw)
			assert.Empty(t, f.Diagnostics)
			assert.Empty(t, f.Diff())
			_, ds := config.Load(context.Background(), file, config.Options{})
			for _, d := range ds {
				if d.Severity != diag.SeverityInfo {
					assert.Equal(t, "config/plugin-unknown", d.Type, d.Text())
				}
			}
		})
	}
}

var fenced = regexp.MustCompile("(?s)\n```hcl\n(.*?)\n```")

// HCL-011: the samples in documents are valid and in canonical layout.
func TestSamplesInDocuments(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	for _, file := range repositoryFiles(t, root, ".md") {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, m := range fenced.FindAllStringSubmatch(string(raw), -1) {
			t.Run(fmt.Sprintf("%s %d", disk.PrintedName(root, file), i+1), func(t *testing.T) {
				text := m[1] + "\n"
				assert.Empty(t, view.Format("sample.hcl", []byte(text)).Diff())
				_, ds := configtest.LoadWith(t, text, nil, nil)
				for _, d := range ds {
					assert.Contains(t, []string{"config/plugin-unknown", "config/unused", "config/overridden", "config/secret-missing", "config/dangling-reference", "config/missing"}, d.Type, d.Text())
					if d.Type == "config/missing" {
						assert.Contains(t, d.Message, `file "tls/`, "only the certificates of the reader are missing")
					}
				}
			})
		}
	}
}

func repositoryFiles(t *testing.T, root, suffix string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "var" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return nil
	}))
	return files
}
