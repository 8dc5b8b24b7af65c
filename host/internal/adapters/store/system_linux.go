package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocate reserves size bytes on the disk for a file.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

// networkTypes lists the file system types, as the kernel names them, whose files are on another
// machine or on the host of a virtual machine.
var networkTypes = []string{
	"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs4", "orangefs",
	"prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf",
	"fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs", "fuse.gcsfuse",
	"fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mfs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs",
	"fuse.smbnetfs", "fuse.sshfs",
}

// networkFS returns the type of the file system of dir if it is a network file system, else "".
func networkFS(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return networkMount(string(mounts), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))), nil
}

// networkMount returns the type of the network file system on a device, "" if it is not one. A line
// of mounts has the fields: id, parent, device, root, mount point, options, any number of optional
// fields, "-", type, source, options.
func networkMount(mounts, device string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 2 && fields[2] == device && len(kind) > 0 && slices.Contains(networkTypes, kind[0]) {
			return kind[0]
		}
	}
	return ""
}

// limitSilence sets the maximum time for which sent data may remain unacknowledged before the
// connection is closed.
func limitSilence(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(failed, err)
}
