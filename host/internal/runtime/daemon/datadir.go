package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// dataFormat is the layout version of the data directories that this build
// writes.
const dataFormat = 1

// dataDir is a data directory locked by this daemon (OPS-002).
type dataDir struct {
	path string
	boot string
	lock *os.File
	// token authenticates callers of the admin socket. It is valid while the lock is held.
	token string
	// crashed reports that the last daemon did not close the directory, and that no daemon has
	// resumed its runs since then (RUN-016).
	crashed bool
}

// AdminTokenFile returns the path of the admin token in a data directory.
func AdminTokenFile(dir string) string { return filepath.Join(dir, "run", "admin.token") }

// nowhere lists the errors for a path at which no directory can exist.
var nowhere = []error{syscall.ENOENT, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL}

// makeDataDir creates the directory if it is missing, with a .gitignore that keeps it out of a
// repository and of a workspace around it. If no directory can exist at that path, the error is a
// *DirectoryError with ExitConfig.
func makeDataDir(path string) error {
	problem := func(text, fix string) error {
		return &DirectoryError{Dir: path, Problem: text, Fix: fix, code: ExitConfig}
	}
	_, absent := os.Lstat(path)
	err := os.MkdirAll(path, 0o700)
	if err == nil && errors.Is(absent, fs.ErrNotExist) {
		err = os.WriteFile(filepath.Join(path, ".gitignore"), []byte("*\n"), 0o600)
	}
	if errors.Is(err, fs.ErrExist) { // a symbolic link that cannot be followed
		_, err = os.Stat(path)
	}
	link, target := danglingLink(path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return problem("is a file, or below one", "name another in ferment.data_dir")
	case link != "":
		return problem(fmt.Sprintf("cannot be created: %s is a symbolic link to %s, which does not exist", link, target),
			"create that directory or correct the link")
	case slices.ContainsFunc(nowhere, func(of error) bool { return errors.Is(err, of) }):
		return problem(fmt.Sprintf("cannot be created: %s", err), "name another in ferment.data_dir")
	}
	return fmt.Errorf("data directory: %w", err)
}

// openDataDir creates or checks the directory and locks it. Its admin token is left as it is until
// prepareRun: if the lock file was removed, another daemon may still serve.
func openDataDir(path, boot string) (*dataDir, error) {
	if err := makeDataDir(path); err != nil {
		return nil, err
	}
	if err := checkPrivate(path); err != nil {
		return nil, err
	}
	d := &dataDir{path: path, boot: boot}
	if err := d.await(context.Background(), (*LockedError).isCommand); err != nil {
		return nil, err
	}
	if err := d.checkFormat(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// lockWait is the maximum time to wait for another command that holds the lock.
const lockWait = 2 * time.Second

// lockDataDir locks the data directory for a command that works on its files while no daemon serves
// it. The error is runtime/not-ready if a daemon holds the lock.
func lockDataDir(ctx context.Context, path string) (*dataDir, error) {
	if err := makeDataDir(path); err != nil {
		return nil, err
	}
	if err := checkPrivate(path); err != nil {
		return nil, err
	}
	d := &dataDir{path: path}
	err := d.await(ctx, func(*LockedError) bool { return true })
	var locked *LockedError
	if errors.As(err, &locked) {
		return nil, contract.Errorf("runtime/not-ready", "%s, which does not answer on its admin socket", locked).
			WithHint("wait until it is up, or stop it")
	}
	if err == nil {
		if err = d.checkFormat(); err != nil {
			d.close()
		}
	}
	return d, err
}

// await takes the lock. While another process holds it and may returns true for that process, await
// retries for up to lockWait. The error is then a *LockedError.
func (d *dataDir) await(ctx context.Context, may func(*LockedError) bool) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := d.hold()
		var locked *LockedError
		if !errors.As(err, &locked) || !may(locked) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// Held returns a *LockedError for the daemon that holds a data directory; nil if no daemon holds
// it. The daemon may be starting or stopping and not respond on its admin socket.
func Held(path string) error {
	f, err := os.Open(filepath.Join(path, "LOCK"))
	if err != nil {
		return nil // a daemon would have created the file
	}
	defer func() { _ = f.Close() }()
	if tryLock(f) {
		return nil
	}
	held := lockedBy(path, f)
	if held.isCommand() {
		return nil
	}
	return held
}

// isCommand reports whether the holder of a lock is a command, which holds it only briefly. A
// command that has just taken the lock may not have written its process id yet; the file then has
// the id of a process that is gone.
func (e *LockedError) isCommand() bool {
	return e.Boot == "" || e.PID > 0 && errors.Is(syscall.Kill(e.PID, 0), syscall.ESRCH)
}

// danglingLink returns the dangling symbolic link on a path and its target;
// both are empty if there is none.
func danglingLink(path string) (link, target string) {
	for ; ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return "", ""
		}
		if target, err := os.Readlink(path); err == nil {
			return path, target
		}
	}
}

// checkPrivate requires that the directory is accessible to this user only.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	refuse := func(problem, fix string) error {
		return &DirectoryError{Dir: path, Problem: problem, Fix: fix, code: ExitPermission}
	}
	switch {
	case !info.IsDir():
		return &DirectoryError{
			Dir:     path,
			Problem: "is not a directory",
			Fix:     "name another in ferment.data_dir",
			code:    ExitConfig,
		}
	case !ownedByUs(info):
		return refuse("belongs to another user", "change its owner, or name another in ferment.data_dir")
	case info.Mode().Perm()&0o077 != 0:
		return refuse(fmt.Sprintf("is open to others (mode %04o)", info.Mode().Perm()), "chmod 700 "+path)
	}
	return nil
}

// hold takes the lock. The error is a *LockedError if another process holds it. The lock file is
// never deleted: a lock on an unlinked file would not exclude another daemon.
func (d *dataDir) hold() error {
	f, err := os.OpenFile(filepath.Join(d.path, "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if !tryLock(f) {
		defer func() { _ = f.Close() }()
		return lockedBy(d.path, f)
	}
	text := edn.MustMap(edn.K("pid"), edn.Int(int64(os.Getpid())), edn.K("boot"), edn.Text(d.boot)).String() + "\n"
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("data directory: %w", err)
	}
	d.lock = f
	return nil
}

func lockedBy(dir string, f io.Reader) *LockedError {
	e := &LockedError{Dir: dir}
	text, _ := io.ReadAll(io.LimitReader(f, 1<<10))
	if v, err := edn.Read(text); err == nil {
		pid, _ := v.Key("pid").AsInt()
		e.PID = int(pid)
		e.Boot, _ = v.Key("boot").AsString()
	}
	return e
}

// checkFormat rejects a directory that a later version wrote or whose restore was interrupted, and
// writes FORMAT if it is missing.
func (d *dataDir) checkFormat() error {
	path := filepath.Join(d.path, "FORMAT")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.writeFormat(strconv.Itoa(dataFormat))
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case strings.TrimSpace(string(text)) == restoring:
		return &DirectoryError{
			Dir:     d.path,
			Problem: "holds a restore that did not end",
			Fix:     "run \"ferment admin restore\" again",
			code:    ExitConfig,
		}
	case err != nil || n < 1:
		return &DirectoryError{
			Dir:     d.path,
			Problem: "has a FORMAT that cannot be read",
			Fix:     "restore it, or name another directory in ferment.data_dir",
			code:    ExitConfig,
		}
	case n > dataFormat:
		return &DirectoryError{
			Dir:     d.path,
			Problem: fmt.Sprintf("has format %d, and this build knows formats up to %d", n, dataFormat),
			Fix:     "use the build that wrote it or a later one",
			code:    ExitConfig,
		}
	}
	return nil
}

// writeFormat writes FORMAT atomically: with a partial file no later daemon could start.
func (d *dataDir) writeFormat(text string) error {
	if err := replaceFile(filepath.Join(d.path, "FORMAT"), text+"\n"); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// replaceFile replaces a file of the data directory atomically. The new one is written beside it, since
// others may read the directory of temporary files.
func replaceFile(path, text string) error {
	return renameio.WriteFile(path, []byte(text), 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

// hostID returns the id of the host of a locked data directory, and creates it on first use. A copy
// of the directory must not include the file HOST, because two hosts must not have the same id.
func hostID(dir string) (string, error) {
	path := filepath.Join(dir, "HOST")
	text, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		return string(bytes.TrimSpace(text)), nil
	}
	id := ulid.Make().String()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = replaceFile(path, id+"\n")
	}
	if err != nil {
		return "", fmt.Errorf("id of the host: %w", err)
	}
	return id, nil
}

// prepareRun creates the directory of the admin socket and writes the admin token of this start.
func (d *dataDir) prepareRun() error {
	dir := filepath.Join(d.path, "run")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return err
	}
	if d.token == "" {
		_, err := os.Lstat(AdminTokenFile(d.path)) // close deletes it, so it exists after a crash
		d.crashed = err == nil
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails
		d.token = base64.RawURLEncoding.EncodeToString(b[:])
	}
	if err := replaceFile(AdminTokenFile(d.path), d.token+"\n"); err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	return nil
}

// held reports whether the LOCK file at the path is still the one that this
// daemon locked. If not, the directory was moved or replaced, and its present
// content may belong to another daemon.
func (d *dataDir) held() bool {
	now, err := os.Lstat(filepath.Join(d.path, "LOCK"))
	if err != nil {
		return false
	}
	ours, err := d.lock.Stat()
	return err == nil && os.SameFile(now, ours)
}

// tokenPresent reports whether the token file holds the token. A read error
// other than a missing file, such as EMFILE, counts as present.
func (d *dataDir) tokenPresent() bool {
	text, err := os.ReadFile(AdminTokenFile(d.path))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return strings.TrimSpace(string(text)) == d.token
}

// close deletes the token file and releases the lock. After a crash the token file stays until a
// daemon has resumed the runs.
func (d *dataDir) close() {
	if d.token != "" && !d.crashed && d.held() {
		_ = os.Remove(AdminTokenFile(d.path))
	}
	_ = d.lock.Close()
}

func itoa(n int) string { return strconv.Itoa(n) }
