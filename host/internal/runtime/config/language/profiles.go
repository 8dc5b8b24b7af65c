package language

// The profiles: sets of defaults for different uses of the host (HCL-018). Prod is the strictest
// and the default.
const (
	ProfileProd     = "prod"
	ProfileDev      = "dev"
	ProfileAdmin    = "admin"
	ProfileTest     = "test"
	ProfileTestLive = "test-live"
)

// Profiles returns the names of the profiles.
func Profiles() []string {
	return []string{ProfileProd, ProfileDev, ProfileAdmin, ProfileTest, ProfileTestLive}
}

// DefaultIn returns the default in a profile as an HCL expression; empty: none.
func (a *Attr) DefaultIn(profile string) string {
	if text, ok := a.Profiles[profile]; ok {
		return text
	}
	return a.Default
}
