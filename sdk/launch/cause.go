package launch

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// missing are the messages in which program loaders name a missing file.
var missing = []struct {
	line *regexp.Regexp
	text string // with the name for %s
}{
	{regexp.MustCompile(`error while loading shared libraries: ([^:\s]+)`), "the library %s is not installed, or its isolation hides it"},
	{regexp.MustCompile(`Library not loaded: (\S+)`), "the library %s is not installed"},
	{regexp.MustCompile(`No module named '?([\w.]+)`), "the Python package %s is not installed for this interpreter, or its isolation hides it"},
	{regexp.MustCompile(`Cannot find (?:module|package) '([^']+)'`), "the Node package %s is not installed (npm ci), or its isolation hides it"},
	{regexp.MustCompile(`(?:can't|cannot) open (?:file|script)? ?'?([^':]+)'?: .*No such file`),
		"the command names the file %s, which does not exist: set workdir to the directory at which its relative paths start"},
	{regexp.MustCompile(`(\S+): (?:command )?not found`), "the command runs %s, which was not found"},
}

// likelyCause guesses why a program did not start, from its report. It is empty
// without a guess.
func (r Report) likelyCause() string {
	for _, line := range r.Tail {
		for _, m := range missing {
			if found := m.line.FindStringSubmatch(line); found != nil {
				return fmt.Sprintf(m.text, Clip(found[1], 100))
			}
		}
	}
	if len(r.Panic) > 0 {
		return "" // the panic is the cause
	}
	const notServed, otherProgram = "it does not call sdk.Serve (in other languages serve)", "the command names another program than the plugin"
	switch {
	case !r.Exited && r.Output != "":
		return "it prints before it serves, or " + otherProgram
	case !r.Exited:
		return notServed + ", or something before that takes too long"
	case r.Exit.Signal == syscall.SIGSYS:
		return "its isolation refuses a system call that it makes"
	case r.Exit.Signal == syscall.SIGKILL && !r.Killed:
		return "the kernel or another process killed it, for example because memory ran out"
	case r.Exit.Signal != 0:
		return "it was built for another machine or library, or has a fault of its own"
	case r.Exit.Clean():
		return notServed + ", or " + otherProgram
	case r.Exit.Code == 126:
		return "the command runs a file that is not executable"
	case r.Exit.Code == 127:
		return "the command runs a program that was not found"
	case len(r.Tail) == 0 && r.Output == "":
		return otherProgram
	}
	return ""
}

// causeSuffix returns the likely cause as a suffix of an error message.
func (r Report) causeSuffix() string {
	if cause := r.likelyCause(); cause != "" {
		return "; likely cause: " + cause
	}
	return ""
}

// startFailed adds the missing file or permission to an error of the kernel at
// the start of the program at path.
func startFailed(path string, err error) error {
	const noExec = "exec format error"
	if err := Executable(path); err != nil {
		return fmt.Errorf("start %w", err)
	}
	if interpreter := interpreterOf(path); interpreter != "" {
		if _, missing := os.Stat(interpreter); errors.Is(missing, os.ErrNotExist) {
			return fmt.Errorf("start %s: %w: its interpreter %s does not exist", path, err, interpreter)
		}
	}
	if errors.Is(err, syscall.ENOEXEC) || strings.Contains(err.Error(), noExec) {
		return fmt.Errorf("start %s: %w: it is not a program for this system and processor", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// Executable returns an error with the next step if path is a file without
// execute permission. It wraps [fs.ErrPermission].
func Executable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 {
		return nil // the start reports other errors
	}
	return fmt.Errorf("%s: %w: make it executable, or name its interpreter before it", path, fs.ErrPermission)
}

// interpreterOf returns the program that the kernel runs to load the one at
// path: the interpreter of a script, or the dynamic loader of an ELF program;
// else empty.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if line, err := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n'); err == nil && strings.HasPrefix(line, "#!") {
		if words := strings.Fields(line[2:]); len(words) > 0 {
			return words[0]
		}
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(part.Open(), 4096))
			if err == nil {
				return string(bytes.TrimRight(name, "\x00"))
			}
		}
	}
	return ""
}
