package confine

import "path/filepath"

// devices are the devices that every process may read and write. A memory limit
// does not count memory mapped from /dev/zero.
func devices(p Policy) []string {
	if p.Limits.Memory > 0 {
		return []string{"/dev/null", "/dev/full"}
	}
	return []string{"/dev/null", "/dev/full", "/dev/zero"}
}

// basics returns the files that every confined process may read: sources of
// randomness, the time zone, and the files by which language runtimes detect
// the size of the machine.
func basics() []string {
	return []string{
		"/dev/urandom", "/dev/random", "/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo",
		"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel/cap_last_cap",
		"/proc/self/cgroup", "/proc/self/mountinfo", "/proc/self/stat", "/proc/self/statm", "/proc/self/status", "/proc/self/maps",
		"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage", "/sys/fs/cgroup",
	}
}

// systemPaths returns the files that a dynamic program or an interpreter reads
// to start: the libraries of the system and their configuration. They are the
// same for all users of a machine.
func systemPaths() []string {
	python, _ := filepath.Glob("/etc/python3*") // links in the library lead there
	return append(python,
		"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/share",
		"/usr/local/lib", "/usr/local/lib64", "/usr/local/share",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives", "/etc/ssl/openssl.cnf",
		"/etc/pki/tls/openssl.cnf", "/etc/crypto-policies", "/etc/locale.alias", "/etc/mime.types", "/proc/self",
	)
}

// networkPaths returns the files for name resolution and certificate
// verification. They contain no private keys.
func networkPaths() []string {
	return []string{
		"/etc/resolv.conf", "/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
		"/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/networks",
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ca-certificates", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted",
		"/proc/sys/net", "/proc/sys/kernel/hostname",
	}
}
