package registry

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

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
	// Why is the reason why it is not ready; its hint says how to make it ready.
	Why *contract.Error
}

// Undescribed is an enabled plugin whose description could not be read, so that the intents
// that it serves are unknown.
type Undescribed struct {
	Plugin string
	Why    *contract.Error
}

// Undescribed returns the undescribed plugin that may serve an intent: the one whose name
// is the namespace of the intent. It is meant for intents that the registry does not have.
func (r *Registry) Undescribed(intent string) (*Undescribed, bool) {
	space, _, _ := strings.Cut(intent, "/")
	for i := range r.undescribed {
		if u := &r.undescribed[i]; u.Plugin == space {
			return u, true
		}
	}
	return nil, false
}
