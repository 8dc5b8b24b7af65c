package workspace

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// storeFile is the file that identifies the directory of a workspace.
var storeFile = filepath.Join(".ferment", "workspace", "workspace.edn")

// place has the directories for the paths in a command line.
type place struct {
	dir  string // the working directory
	root string // of the workspace
}

// locate returns the place of a command: the given directory, otherwise the nearest one above the
// working directory that has a store, otherwise the working directory.
func locate(dir, named string) place {
	if named != "" {
		if !filepath.IsAbs(named) {
			named = filepath.Join(dir, named)
		}
		return place{dir: dir, root: filepath.Clean(named)}
	}
	for at := dir; ; at = filepath.Dir(at) {
		if p := (place{dir: dir, root: at}); p.stored() {
			return p
		}
		if at == filepath.Dir(at) {
			return place{dir: dir, root: dir}
		}
	}
}

// stored reports whether the store of the workspace lies in it.
func (p place) stored() bool {
	_, err := os.Stat(filepath.Join(p.root, storeFile))
	return err == nil
}

// askRoot asks the engine for the nearest directory above the working directory that has a
// store elsewhere: only its setting data_dir says where that is.
func (in *invocation) askRoot() error {
	input := edn.MustMap(
		edn.K("workspace"), edn.Text(in.at.root),
		edn.K("path"), edn.Text(""),
		edn.K("limit"), edn.Int(1),
		edn.K("agent/fallback"), edn.Text(reader),
	)
	request := in.request("context/list-frames", input).
		AssocKey("effects", edn.MustMap(edn.K("allowed"), edn.Keywords("db/read", "fs/read")))
	calls, err := in.Open(in.ctx, request, Opening{Local: in.local, Quiet: true})
	if err != nil {
		return err
	}
	defer calls.Close()
	response, err := calls.Call(in.ctx, request, nil)
	if err != nil {
		return err
	}
	failure := response.Key("error")
	if failure.IsNil() {
		return nil
	}
	e := contract.ErrorFromValue(failure, contract.SourceHost)
	if above, ok := e.Details.Key("nearest").AsString(); ok && e.Type == "workspace/not-found" {
		in.at = in.at.below(above)
	}
	return nil // another error is that of the command too
}

// below returns the place with a root whose path has no links.
func (p place) below(root string) place {
	for at := p.dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil && real == root {
			return place{dir: p.dir, root: at}
		}
	}
	if real, err := filepath.EvalSymlinks(p.dir); err == nil && inside(root, real) { // the link leads into it
		return place{dir: real, root: root}
	}
	return p
}

// path returns a path below the workspace. A relative path starts at the working
// directory, or at the root if the working directory is outside the workspace.
func (p place) path(text string) (string, error) {
	whole := p.absolute(text)
	if strings.ContainsRune(text, 0) || !inside(p.root, filepath.Clean(whole)) {
		return "", fmt.Errorf("path %q is outside the workspace %s: expected a path below it", text, p.root)
	}
	rel, err := filepath.Rel(p.root, whole)
	return filepath.ToSlash(rel), err
}

// textPath works like path for what can only be sent as text.
func (p place) textPath(text string) (string, error) {
	path, err := p.path(text)
	if err == nil && !utf8.ValidString(path) {
		err = errors.New("the path is not UTF-8, which this option cannot name: expected a directory above it")
	}
	return path, err
}

// absolute returns a path that starts where relative ones do.
func (p place) absolute(path string) string {
	switch {
	case filepath.IsAbs(path):
		return path
	case inside(p.root, p.dir):
		return filepath.Join(p.dir, path)
	}
	return filepath.Join(p.root, path)
}

func inside(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

var (
	// likeID is the text of an id, or of one that was mistyped.
	likeID  = regexp.MustCompile(`^(?i:[cnbfrspxa]\d+-(b3|s2|g1|g2)-[0-9a-z]+)$`)
	wholeID = regexp.MustCompile(`^[a-z]\d+-[a-z0-9]+-[0-9a-f]+$`)
	digits  = regexp.MustCompile(`^[0-9a-f]{8,64}$`)
)

// node adds the keys of a NODE argument to an input: the id for hexadecimal digits or for the text
// form of an id, otherwise the path.
func (p place) node(input edn.Value, text string) (edn.Value, error) {
	if isID(text) {
		return input.AssocKey("node/id", edn.Text(text)), nil
	}
	return p.pathInto(input, text)
}

// isID reports whether a NODE argument is an id. A path of this form can be written with ./ before
// it.
func isID(text string) bool { return likeID.MatchString(text) || digits.MatchString(text) }

// pathInto adds a path to an input. A path that is not text is added as :path/b64 (WS-002).
func (p place) pathInto(input edn.Value, text string) (edn.Value, error) {
	path, err := p.path(text)
	if err != nil {
		return edn.Nil(), err
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return input.AssocKey("path/b64", edn.Text(base64.RawURLEncoding.EncodeToString([]byte(path)))), nil
	}
	return input.AssocKey("path", edn.Text(path)), nil
}
