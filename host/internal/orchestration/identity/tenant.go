package identity

import (
	"regexp"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
)

// tenantForm describes the names of tenants, for messages.
const tenantForm = "1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit, and not \"" + policy.HostTenant + "\""

var tenants = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// CheckTenant returns an invalid-request error if name is not the name of a tenant, else
// nil.
func CheckTenant(name string) *contract.Error {
	if validTenant(name) {
		return nil
	}
	return contract.Errorf("invalid-request", "%.80q is not the name of a tenant: expected %s", name, tenantForm)
}

func validTenant(name string) bool { return name != policy.HostTenant && tenants.MatchString(name) }
