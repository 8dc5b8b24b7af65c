package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// List returns the paths of the configuration files of a directory for all profiles, without
// included files: ferment.hcl and the files in common, local and their profile directories. The
// error for a directory without such files is a *disk.ReadError.
func List(dir string) ([]string, error) {
	var out []string
	for _, name := range []string{DefaultFile, DefaultFile + ".json"} {
		if full := filepath.Join(dir, name); exists(full) {
			out = append(out, full)
		}
	}
	for _, base := range []string{"common", "local"} {
		folders := []string{base}
		for _, profile := range language.Profiles() {
			folders = append(folders, filepath.Join(base, profile))
		}
		for _, folder := range folders {
			entries, err := os.ReadDir(filepath.Join(dir, folder))
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			for _, e := range entries { // sorted
				if isConfig(e.Name()) && !e.IsDir() {
					out = append(out, filepath.Join(dir, folder, e.Name()))
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, &disk.ReadError{
			Type: "config/include",
			Message: fmt.Sprintf("directory %s holds no configuration: no %s, and nothing in common or local",
				filepath.Base(dir), DefaultFile),
			Hint: noConfiguration,
		}
	}
	return out, nil
}

// noConfiguration is the hint for a directory without configuration.
const noConfiguration = "put a " + DefaultFile + " into it, or name another one with --config"

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// isConfig reports whether name is the name of a configuration file. Names that begin with a dot
// are ignored.
func isConfig(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json"))
}

func isEnv(name string) bool {
	return name == ".env" || strings.HasSuffix(name, ".env") && !strings.HasPrefix(name, ".")
}
