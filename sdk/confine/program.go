package confine

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxScripts is the maximum number of scripts in a chain of interpreters.
const maxScripts = 4

// form is the format of a program file.
type form struct {
	// interpreter and argument are those of a script; empty for others.
	interpreter, argument string
	// extra are the files that must be readable and executable besides the
	// program.
	extra extra
}

// extra are files that a program needs in addition to those of a policy.
type extra struct{ read, exec []string }

func (e *extra) add(o extra) {
	e.read, e.exec = append(e.read, o.read...), append(e.exec, o.exec...)
}

// formOf detects the format of an open program.
func formOf(f *os.File, path string) (form, error) {
	var head [256]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return form{}, &Error{Layer: LayerProgram, Path: path, Err: err}
	}
	if bytes.HasPrefix(head[:n], []byte("#!")) {
		return scriptForm(head[2:n], path)
	}
	loader, err := loaderOf(f)
	if err != nil {
		return form{}, &Error{Layer: LayerProgram, Path: path, Err: err}
	}
	if loader == "" {
		return form{}, nil
	}
	return form{extra: extra{read: systemPaths(), exec: []string{loader}}}, nil
}

// scriptForm parses the first line of a script after "#!".
func scriptForm(head []byte, path string) (form, error) {
	line, _, whole := bytes.Cut(head, []byte{'\n'})
	if !whole && len(head) == 254 {
		return form{}, &Error{Layer: LayerProgram, Path: path,
			Err: errors.New("the first line of the script has more than 255 bytes")}
	}
	interpreter, argument, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	if !filepath.IsAbs(interpreter) {
		return form{}, &Error{Layer: LayerProgram, Path: path,
			Err: fmt.Errorf("its interpreter %q is not an absolute path", interpreter)}
	}
	return form{interpreter: interpreter, argument: strings.TrimSpace(argument),
		extra: extra{read: append(systemPaths(), path), exec: []string{interpreter}}}, nil
}

// loaderOf returns the dynamic loader of an ELF program; empty for a static
// program and for other files.
func loaderOf(f *os.File) (path string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its ELF header is malformed: %v", r)
		}
	}()
	file, err := elf.NewFile(f)
	var format *elf.FormatError
	switch {
	case errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "", nil // the kernel decides whether it can be run
	case err != nil:
		return "", err
	}
	for _, prog := range file.Progs {
		if prog.Type != elf.PT_INTERP || prog.Filesz > 4096 {
			continue
		}
		name := make([]byte, prog.Filesz)
		if _, err := prog.ReadAt(name, 0); err != nil {
			return "", err
		}
		return strings.TrimRight(string(name), "\x00"), nil
	}
	return "", nil
}

// resolved is a program with everything that is needed to execute it.
type resolved struct {
	file  *os.File // what is executed: the program or its interpreter
	path  string
	argv  []string
	extra extra
}

// resolve follows a script to its interpreter, as the kernel would, with one
// exception: for "env NAME" it runs the program NAME directly, so that one
// execution is enough.
func resolve(f *os.File, path string, argv, env []string) (resolved, error) {
	r := resolved{file: f, path: path, argv: argv}
	for range maxScripts {
		form, err := formOf(r.file, r.path)
		if err != nil {
			return r, err
		}
		r.extra.add(form.extra)
		r.extra.read = append(r.extra.read, homes(r.path)...)
		if form.interpreter == "" {
			return r, nil
		}
		front := []string{form.interpreter}
		if form.argument != "" {
			front = append(front, form.argument)
		}
		if filepath.Base(form.interpreter) == "env" {
			if front, err = throughEnv(form.argument, env); err != nil {
				return r, &Error{Layer: LayerProgram, Path: r.path, Err: err}
			}
		}
		rest := r.argv
		if len(rest) > 0 {
			rest = rest[1:]
		}
		r.argv = append(append(front, r.path), rest...)
		r.path = front[0]
		if r.file, err = os.Open(r.path); err != nil {
			return r, &Error{Layer: LayerProgram, Path: path, Err: err}
		}
		r.extra.exec = append(r.extra.exec, r.path)
	}
	return r, &Error{Layer: LayerProgram, Path: path,
		Err: fmt.Errorf("the chain of interpreters has more than %d scripts", maxScripts)}
}

// throughEnv resolves the argument of a script for env as the program env
// would.
func throughEnv(argument string, env []string) ([]string, error) {
	words := strings.Fields(strings.TrimPrefix(argument, "-S"))
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil, fmt.Errorf("its interpreter is env with %q: name the interpreter itself", argument)
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, words[0])
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 &&
			filepath.IsAbs(file) {
			return append([]string{file}, words[1:]...), nil
		}
	}
	return nil, fmt.Errorf("its interpreter %s is not in PATH (%s)", words[0], path)
}

// ownShare reports whether the directory "share" in a prefix belongs only to
// the programs installed there: in /opt, /nix/store and /snap, and in a
// read-only tree. In a user's home it contains the data of all programs of the
// user.
func ownShare(prefix string) bool {
	for _, place := range []string{"/opt/", "/nix/store/", "/snap/"} {
		if strings.HasPrefix(prefix, place) {
			return true
		}
	}
	info, err := os.Stat(prefix)
	return err == nil && info.Mode().Perm()&0o222 == 0
}

// homes returns the directories beside a program in which an interpreter keeps
// its own library: "prefix/lib" for "prefix/bin/program", also after resolving
// symbolic links, and the marker of a virtual environment.
func homes(program string) []string {
	var found []string
	seen := []string{program}
	if real, err := filepath.EvalSymlinks(program); err == nil && real != program {
		seen = append(seen, real)
	}
	for _, path := range seen {
		dir := filepath.Dir(path)
		if filepath.Base(dir) != "bin" || strings.Count(dir, "/") < 2 {
			continue
		}
		prefix := filepath.Dir(dir)
		names := []string{"lib", "lib64", "libexec", "pyvenv.cfg"}
		if ownShare(prefix) {
			names = append(names, "share")
		}
		for _, name := range names {
			found = append(found, filepath.Join(prefix, name))
		}
	}
	return found
}
