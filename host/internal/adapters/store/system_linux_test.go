package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// OPS-002: the type of a network file system is found by its device.
func TestNetworkMount(t *testing.T) {
	const mounts = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
51 27 0:44 /export/a /srv/data rw,relatime shared:7 master:3 - nfs4 nas:/export/a rw,vers=4.2
52 27 0:45 / /srv/with\\040space rw - fuse.sshfs ann@host: rw
53 27 0:46 / /srv/sealed rw - fuse.gocryptfs /home/ann/sealed rw
54 27 0:47 / /mnt/c rw
`
	for device, want := range map[string]string{
		"254:0": "", "0:44": "nfs4", "0:45": "fuse.sshfs", "0:46": "", "0:47": "", "0:4": "",
	} {
		assert.Equal(t, want, networkMount(mounts, device), device)
	}
}
