package setup

import (
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// attachments reads the attach records of the plugins that are already running, by plugin name.
func attachments(o Options) (map[string]plugins.Attachment, error) {
	if len(o.Attached) == 0 {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, &EnvironmentError{"find the program itself", err}
	}
	all := map[string]plugins.Attachment{}
	for name, file := range o.Attached {
		if !filepath.IsAbs(file) {
			file = filepath.Join(o.Dir, file)
		}
		record, err := wire.ReadAttachRecord(file)
		if err != nil {
			return nil, err
		}
		all[name] = plugins.Attachment{File: file, Command: []string{self, launch.BridgeCommand, record.Socket}}
	}
	return all, nil
}

// withoutLimits removes the time limits from the description of a plugin under
// a debugger.
func withoutLimits(d contract.Description) contract.Description {
	capabilities := make([]contract.Capability, len(d.Capabilities))
	for i, c := range d.Capabilities {
		c.Limits.Timeout = 0
		capabilities[i] = c
	}
	d.Capabilities = capabilities
	return d
}
