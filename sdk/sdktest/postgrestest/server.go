package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Server is a server that is running. Start starts it.
type Server struct {
	dir     string
	as      *syscall.Credential // nil: this user
	schemas atomic.Int64
}

// Start starts a server. Stop ends it and removes its files.
func Start() (_ *Server, err error) {
	s := &Server{}
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.dir)
		}
	}()
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	err = s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return nil, err
	}
	return s, s.control("start", "-l", filepath.Join(s.dir, "log"),
		"-o", "-k "+s.dir+" -c listen_addresses= -c max_connections=200 -c shared_buffers=32MB")
}

// Restart stops the server without a clean shutdown, as in a crash, and starts
// it again.
func (s *Server) Restart() error { return s.control("restart", "-m", "immediate") }

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	return errors.Join(s.control("stop", "-m", "immediate"), os.RemoveAll(s.dir))
}

// control executes pg_ctl and waits until the server has started or stopped.
func (s *Server) control(what string, args ...string) error {
	return s.run("pg_ctl", append([]string{what, "-s", "-w", "-D", s.data()}, args...)...)
}

// Socket returns the path of the socket of the server.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// DSN returns the connection string of a schema in the database of the server,
// through the socket in dir; if dir is empty, through the server's own socket.
func (s *Server) DSN(schema, dir string) string {
	if dir == "" {
		dir = s.dir
	}
	return fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable search_path=%s", dir, schema)
}

// Schema makes a schema with nothing in it and returns its name.
func (s *Server) Schema(ctx context.Context) (string, error) {
	name := fmt.Sprintf("s%d", s.schemas.Add(1))
	return name, s.exec(ctx, "CREATE SCHEMA "+name)
}

// Exec executes statements in a schema with the rights of the server's owner.
func (s *Server) Exec(ctx context.Context, schema string, statements ...string) error {
	return s.exec(ctx, append([]string{"SET search_path = " + schema}, statements...)...)
}

func (s *Server) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, s.DSN("public", ""))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, text := range statements {
		if _, err := c.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run executes a program of the server to its end.
func (s *Server) run(name string, args ...string) error {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	// Not a pipe: the server keeps what it inherits from pg_ctl.
	out, err := os.Create(filepath.Join(s.dir, name+".out"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

// program returns the path of a program of the server. Debian does not have them in
// the path.
func program(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	slices.Sort(found)
	if len(found) > 0 {
		return found[len(found)-1]
	}
	return name
}

// unprivileged returns the user of the server, nil if this process is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
