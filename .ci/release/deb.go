package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5" // the control file md5sums has these
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// tagged is the form of a version that begins with that of a tag.
var tagged = regexp.MustCompile(`^\d+\.\d+`)

// debianVersion returns the version in the form of Debian. Without a tag it begins with the
// time of the commit, so that a later build is a later version.
func (r *release) debianVersion() string {
	version := strings.ReplaceAll(r.version, "-", "+")
	if !tagged.MatchString(version) {
		version = "0~" + r.at.Format("20060102150405") + "+" + version
	}
	return version
}

const afterInstall = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if ! getent passwd ferment >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/ferment --no-create-home --shell /usr/sbin/nologin ferment
  fi
  if [ ! -d /var/lib/ferment ]; then
    mkdir -m 0700 /var/lib/ferment
    chown ferment:ferment /var/lib/ferment
  fi
  if [ ! -d /var/lib/ferment-workspace/.ferment ]; then
    mkdir -p /var/lib/ferment-workspace
    mkdir -m 0700 /var/lib/ferment-workspace/.ferment
    chown ferment:ferment /var/lib/ferment-workspace/.ferment
  fi
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
  fi
fi
`

const beforeRemove = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now ferment.service || true
fi
`

// conffiles are the files that dpkg keeps as an operator has changed them.
const conffiles = "/etc/ferment/ferment.hcl\n/etc/ferment/ferment.lock.hcl\n"

// debian writes a Debian package. It starts nothing: an operator enables the service
// after the first user was added.
func (r *release) debian(to string, bill []byte) error {
	data, err := r.debianFiles(bill)
	if err != nil {
		return err
	}
	var size int64
	var sums strings.Builder
	for _, e := range data {
		text, err := e.read()
		if err != nil {
			return err
		}
		size += int64(len(text))
		sum := md5.Sum(text)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), e.name)
	}
	about := fmt.Sprintf(`Package: ferment
Version: %s
Architecture: %s
Maintainer: The Ferment authors <ferment@users.noreply.invalid>
Installed-Size: %d
Depends: passwd
Section: utils
Priority: optional
Description: host of plugins whose answers must pass gates
 Ferment evaluates plans on plugins, which it supervises and confines. Calls are
 bound late, judged by gates, retried, and moved to the next candidate when one
 fails. A journal records every step.
`, r.debianVersion(), r.arch, size>>10)
	control := tree{
		{name: "control", mode: 0o644, text: []byte(about)},
		{name: "conffiles", mode: 0o644, text: []byte(conffiles)},
		{name: "md5sums", mode: 0o644, text: []byte(sums.String())},
		{name: "postinst", mode: 0o755, text: []byte(afterInstall)},
		{name: "prerm", mode: 0o755, text: []byte(beforeRemove)},
	}
	var controls, files bytes.Buffer
	if err := control.tarball(&controls, "./", r.at, r.level); err != nil {
		return err
	}
	if err := data.tarball(&files, "./", r.at, r.level); err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, part := range []struct {
		name string
		text []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", controls.Bytes()}, {"data.tar.gz", files.Bytes()}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", part.name, r.at.Unix(), 0, 0, "100644", len(part.text))
		out.Write(part.text)
		if len(part.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// debianFiles are the files at the places that Debian has for them.
func (r *release) debianFiles(bill []byte) (tree, error) {
	data, err := staged(r.stage, func(name string) string {
		switch rest, shared := strings.CutPrefix(name, "share/"); {
		case name == "bin/ferment.lock.hcl":
			return "etc/ferment/ferment.lock.hcl"
		case name == "bin/ferment":
			return "usr/bin/ferment"
		case strings.HasPrefix(name, "bin/plugins/"):
			return "usr/lib/ferment/" + strings.TrimPrefix(name, "bin/")
		case shared && !strings.HasPrefix(rest, "man/"):
			return "usr/share/" + rest
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	pages, err := staged(r.path("share/man/man1"), func(name string) string { return "usr/share/man/man1/" + name + ".gz" })
	if err != nil {
		return nil, err
	}
	for i := range pages {
		if err := pages[i].compress(); err != nil {
			return nil, err
		}
	}
	config, err := configuration(inDebian)
	if err != nil {
		return nil, err
	}
	unit, err := r.unit(config)
	if err != nil {
		return nil, err
	}
	data = append(data, pages...)
	return append(data,
		entry{name: "etc/ferment/ferment.hcl", mode: 0o644, text: config},
		entry{name: "usr/lib/systemd/system/ferment.service", mode: 0o644, text: unit},
		entry{name: "usr/share/doc/ferment/ferment.spdx.json", mode: 0o644, text: bill},
	), nil
}

// compress replaces the text by its compressed form, which has no time.
func (e *entry) compress() error {
	text, err := e.read()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zip.Write(text); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	e.from, e.text = "", b.Bytes()
	return nil
}
