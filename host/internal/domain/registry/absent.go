package registry

import "github.com/fermenthq/ferment/sdk/contract"

// Absent is a capability that the configuration names and no plugin provides,
// because its plugin is disabled or could not be described. It is not ready.
// Nothing else is known about it, so it serves no intent by itself and has no
// schemas or effects.
type Absent struct {
	ID string
	// Plugin is the name of the plugin block that would provide it.
	Plugin string
	// Where is "file:line:column" of the block that names it.
	Where string
	// Why is the reason why it is not ready; its hint is how to make it ready.
	Why *contract.Error
}
